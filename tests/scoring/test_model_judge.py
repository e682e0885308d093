"""A model that judges, behind a real endpoint: what is asked, what is counted, and what is paid again."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assay.core import registry
from assay.core.errors import ModelError
from assay.core.protocols import Context
from assay.core.roles import CHAT, SCHEMA
from assay.core.types import Failure, Request, Response
from assay.scoring.judge import Judge, ModelJudge
from assay.scoring.judge_prompt import JudgePrompt
from assay.scoring.judge_setup import JudgeSetup, OwnAnswerPrompt
from assay.scoring.questions import (
    CORRECT,
    COVERED,
    HALLUCINATION,
    IRRELEVANT,
    KINDS,
    MISSED,
    OMISSION,
    TRUE,
    AnswerQuestion,
    CorrectnessQuestion,
    JudgeQuestion,
    RecallQuestion,
    Verdict,
)

from servers.judging import FORGIVEN, SPOILED, JudgingServer
from servers.loopback import LoopbackServer, chat
from support.gateway_run import GatewayRun
from support.judge_questions import EXAMPLES

ANSWER = EXAMPLES["answer"]
BAD = sorted(set(SPOILED) - set(FORGIVEN))
MANY = CorrectnessQuestion(("p",), (), tuple(f"memory {number}" for number in range(100)))


def judged(
    folder: Path, server: LoopbackServer, *questions: JudgeQuestion, votes: int = 1, retries: int = 2
) -> list[Verdict | Failure]:
    """What a run's judge says of each, one after the other; a failure where it could not be asked."""
    found: list[Verdict | Failure] = []
    judge = Judge("openai/judge", votes)
    folder.mkdir(exist_ok=True)

    async def solve(_: Any, ctx: Context) -> None:
        for matter in questions:
            try:
                found.append(await judge.verdict(matter, ctx))
            except ModelError as error:
                found.append(error.failure)

    lab = GatewayRun(folder, judge.name, server.url)
    lab.max_retries = retries
    asyncio.run(lab.done(solve))
    return found


def voting(*labels: str) -> Callable[[dict[str, Any]], tuple[int, Any]]:
    """An endpoint whose n-th seed says the n-th of these labels; where there is none, nothing."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        label = labels[body["seed"] - 100]
        return 200, chat(json.dumps({"reason": f"it is {label}", "label": label}) if label else "")

    return answer


def labelled(matter: JudgeQuestion) -> Verdict:
    """All labels of its kind, from the last one back, as many as there are things."""
    return Verdict((matter.labels * 2)[-matter.count :], "because")


def test_each_kind_is_asked_and_read(tmp_path: Path) -> None:
    """The endpoint gets the matter as it is, once, and its labels come back in order with the reason."""
    questions = [EXAMPLES[kind] for kind in KINDS]
    with JudgingServer(labelled) as server:
        assert judged(tmp_path, server, *questions) == list(map(labelled, questions))
        assert server.questions == questions
        assert all("response_format" not in body for body in server.bodies)
        assert {body["temperature"] for body in server.bodies} == {0}


@pytest.mark.parametrize("how", FORGIVEN)
def test_what_can_be_read_without_guessing_is(how: str, tmp_path: Path) -> None:
    """Fences, prose around it and trailing commas are forgiven in every kind: nothing is asked again."""
    questions = [EXAMPLES[kind] for kind in KINDS]
    with JudgingServer(labelled, lambda _matter, _attempt: how) as server:
        assert judged(tmp_path, server, *questions) == list(map(labelled, questions))
        assert len(server.bodies) == len(questions)


@pytest.mark.parametrize("how", BAD)
def test_a_bad_reply_is_invalid_and_never_guessed(how: str, tmp_path: Path) -> None:
    """It is asked again once, with another seed, in every kind."""
    with JudgingServer(labelled, lambda _matter, _attempt: how) as server:
        found = judged(tmp_path, server, *EXAMPLES.values())
        assert [body["seed"] for body in server.bodies] == [100, 101] * len(EXAMPLES)
    for verdict in found:
        assert isinstance(verdict, Verdict)
        assert (verdict.status, verdict.labels, verdict.sure) == ("invalid", (), ())
        assert verdict.reason.startswith("no verdict: ")
        assert ("cut at its token limit" in verdict.reason) == (how == "half")


@pytest.mark.parametrize("how", [*BAD, "429"])
def test_a_second_reply_counts_as_if_it_were_the_first(how: str, tmp_path: Path) -> None:
    """Bad replies and refusals for a while move no label."""
    with JudgingServer(spoil=lambda _, attempt: how if attempt == 1 else "") as server:
        [first, second] = judged(tmp_path, server, ANSWER, EXAMPLES["recall"])
    with JudgingServer() as server:
        assert judged(tmp_path / "clean", server, ANSWER, EXAMPLES["recall"]) == [first, second]


def test_an_endpoint_that_only_refuses_is_no_verdict_at_all(tmp_path: Path) -> None:
    """Endless 429s are a failed call, which the run asks again another day; others are judged all the same."""
    spoil = lambda matter, _: "429" if matter.kind == "answer" else ""  # noqa: E731
    with JudgingServer(spoil=spoil) as server:
        answer, recall = judged(tmp_path, server, ANSWER, EXAMPLES["recall"], retries=0)
    assert isinstance(answer, Failure)
    assert (answer.kind, answer.http) == ("rate_limited", 429)
    assert isinstance(recall, Verdict)
    assert recall.valid


OVERFLOW = 400, {"error": {"message": "the maximum context length is 9 tokens"}}
REFUSAL = (
    200,
    {
        "choices": [{"message": {"role": "assistant", "content": None, "refusal": "I will not."}}],
        "usage": {"prompt_tokens": 1, "completion_tokens": 1},
    },
)


@pytest.mark.parametrize(("reply", "why"), [(OVERFLOW, "9 tokens"), (REFUSAL, "I will not.")])
def test_what_a_judge_declines_is_invalid(reply: tuple[int, Any], why: str, tmp_path: Path) -> None:
    """A refusal makes the verdict invalid. It neither fails the run nor counts against the answer."""
    with LoopbackServer(lambda _: reply) as server:
        [verdict] = judged(tmp_path, server, ANSWER)
    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.labels) == ("invalid", ())
    assert verdict.reason.startswith("no verdict: ")
    assert why in verdict.reason


def test_a_vote_that_is_declined_leaves_the_others(tmp_path: Path) -> None:
    """Two of three valid votes decide."""
    votes = voting(CORRECT, CORRECT, "", "")
    with LoopbackServer(lambda body: votes(body) if body["seed"] < 102 else REFUSAL) as server:
        [verdict] = judged(tmp_path, server, ANSWER, votes=3)
    assert isinstance(verdict, Verdict)
    assert (verdict.labels, verdict.votes) == ((CORRECT,), ((CORRECT,), (CORRECT,)))


def test_invalid_verdicts_move_no_score(tmp_path: Path) -> None:
    """Of twelve answers every second gets an unreadable verdict: the others are as before, none is a 0."""
    answers = [AnswerQuestion(f"Q{n}?", "Oslo", "Oslo" if n % 3 else "Rome") for n in range(12)]
    right = {answer.question: CORRECT if "Oslo" in answer.response else HALLUCINATION for answer in answers}

    def judge(matter: JudgeQuestion) -> Verdict:
        assert isinstance(matter, AnswerQuestion)
        return Verdict((right[matter.question],), "so")

    def spoil(matter: JudgeQuestion, _: int) -> str:
        assert isinstance(matter, AnswerQuestion)
        return BAD[int(matter.question[1:-1]) % len(BAD)] if int(matter.question[1:-1]) % 2 else ""

    with JudgingServer(judge, spoil) as server:
        found = judged(tmp_path, server, *answers)
    verdicts = [one for one in found if isinstance(one, Verdict)]
    assert [one.valid for one in verdicts] == [True, False] * 6
    assert [one.labels for one in verdicts if one.valid] == [(right[f"Q{n}?"],) for n in range(0, 12, 2)]
    assert all(not one.labels for one in verdicts if not one.valid)


def test_what_is_clear_is_not_paid(tmp_path: Path) -> None:
    """An empty answer is an omission, an empty memory misses every point, and no points need no verdict."""
    nothing = RecallQuestion((), (), ("a",))
    with JudgingServer() as server:
        found = judged(
            tmp_path,
            server,
            AnswerQuestion("q", "r", " "),
            RecallQuestion(("a", "b"), (True, False), ()),
            nothing,
        )
        assert server.bodies == []
    assert [one.labels for one in found if isinstance(one, Verdict)] == [(OMISSION,), (MISSED, MISSED), ()]


@pytest.mark.parametrize(
    ("votes", "said", "label", "share", "stable"),
    [
        (3, (CORRECT, CORRECT, CORRECT), CORRECT, 1.0, True),
        (3, (OMISSION, CORRECT, CORRECT), CORRECT, 2 / 3, False),
        (5, (OMISSION, HALLUCINATION, OMISSION, OMISSION, CORRECT), OMISSION, 3 / 5, False),
        (3, (CORRECT, CORRECT, "", ""), CORRECT, 1.0, True),
        (3, ("", "Perfect", CORRECT, "", ""), CORRECT, 1.0, None),
    ],
)
def test_the_majority_of_valid_votes_counts(
    votes: int, said: tuple[str, ...], label: str, share: float, stable: bool | None, tmp_path: Path
) -> None:
    """`sure` is the label's share; votes that stay invalid take no part; one valid vote shows no stability."""
    with LoopbackServer(voting(*said)) as server:
        [verdict] = judged(tmp_path, server, ANSWER, votes=votes)
        assert len(server.bodies) == len(said)
    valid = tuple((one,) for one in said if one in ANSWER.labels)
    assert verdict == Verdict((label,), f"it is {label}", sure=(share,), votes=valid, stable=stable)


@pytest.mark.parametrize("said", [(CORRECT, OMISSION), (CORRECT, OMISSION, HALLUCINATION)])
def test_a_tie_is_no_verdict(said: tuple[str, ...], tmp_path: Path) -> None:
    """Its votes can be seen."""
    with LoopbackServer(voting(*said)) as server:
        [verdict] = judged(tmp_path, server, ANSWER, votes=len(said))
    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.labels, verdict.stable) == ("invalid", (), False)
    assert verdict.votes == tuple((label,) for label in said)
    assert "two labels have the same number of votes" in verdict.reason


def test_a_vote_that_fails_fails_the_verdict(tmp_path: Path) -> None:
    """If one vote gets no reply at all, the verdict fails with it, even if the other votes agree."""
    good = voting(CORRECT, CORRECT, CORRECT)
    with LoopbackServer(lambda body: (400, {}) if body["seed"] == 101 else good(body)) as server:
        [found] = judged(tmp_path, server, ANSWER, votes=3, retries=0)
        assert isinstance(found, Failure)
        assert sorted(body["seed"] for body in server.bodies) == [100, 101, 102]


def test_many_memories_are_asked_in_parts_and_joined_in_order(tmp_path: Path) -> None:
    """Each memory once, whatever comes back first; votes and shares too."""
    kinds = CorrectnessQuestion.labels

    def judge(matter: JudgeQuestion) -> Verdict:
        assert isinstance(matter, CorrectnessQuestion)
        return Verdict(tuple(kinds[int(text.split()[1]) % 3] for text in matter.texts), "so")

    labels = tuple(kinds[number % 3] for number in range(100))
    with JudgingServer(judge) as server:
        assert judged(tmp_path / "1", server, MANY) == [Verdict(labels, "so\nso\nso")]
        assert sorted(matter.count for matter in server.questions) == [20, 40, 40]
        [verdict] = judged(tmp_path / "3", server, MANY, votes=3)
    assert verdict == Verdict(labels, "so\nso\nso", sure=(1.0,) * 100, votes=(labels,) * 3, stable=True)


def test_one_part_without_verdict_leaves_the_whole_without_one(tmp_path: Path) -> None:
    """Too few labels in one of three parts; no other part is asked again."""
    spoil = lambda matter, _: "too_few" if matter.count == 20 else ""  # noqa: E731
    with JudgingServer(lambda matter: Verdict((TRUE,) * matter.count), spoil) as server:
        [verdict] = judged(tmp_path, server, MANY)
        assert sorted(matter.count for matter in server.questions) == [20, 20, 40, 40]
    assert isinstance(verdict, Verdict)
    assert (verdict.status, verdict.labels) == ("invalid", ())
    assert verdict.reason.startswith("part 3 of 3: no verdict: 1 of 20 labels are missing")


def test_votes_on_parts_join_where_a_vote_is_whole(tmp_path: Path) -> None:
    """A part decides by its own valid votes; the listed votes are those that every part has."""

    def judge(matter: JudgeQuestion) -> Verdict:
        return Verdict((TRUE,) * matter.count, "so")

    spoil = lambda matter, attempt: "prose" if matter.count == 20 and attempt in {1, 4} else ""  # noqa: E731
    with JudgingServer(judge, spoil) as server:
        [verdict] = judged(tmp_path, server, MANY, votes=3)
    labels = (TRUE,) * 100
    assert verdict == Verdict(labels, "so\nso\nso", sure=(1.0,) * 100, votes=(labels,) * 2, stable=True)


def test_a_part_that_differs_makes_the_whole_unstable(tmp_path: Path) -> None:
    """Even where another part has only one valid vote, which shows nothing."""
    seen: Counter[int] = Counter()

    def judge(matter: JudgeQuestion) -> Verdict:
        seen[matter.count] += 1
        odd = matter.count == 20 and seen[20] == 1
        return Verdict((IRRELEVANT if odd else TRUE,) + (TRUE,) * (matter.count - 1), "so")

    first = MANY.texts[0]
    spoil = lambda matter, attempt: "prose" if first in matter.texts and attempt != 1 else ""  # noqa: E731
    with JudgingServer(judge, spoil) as server:
        [verdict] = judged(tmp_path, server, MANY, votes=3)
    assert isinstance(verdict, Verdict)
    assert verdict.labels == (TRUE,) * 100
    assert (verdict.sure[0], round(verdict.sure[80], 2), verdict.stable) == (1.0, 0.67, False)


def test_a_replay_pays_nothing_and_says_the_same(tmp_path: Path) -> None:
    """Bad replies and their second tries included, with votes side by side."""
    with LoopbackServer(voting("", CORRECT, "", OMISSION, CORRECT)) as server:
        lab = GatewayRun(tmp_path, "openai/judge", server.url)
        judge, found = Judge(lab.name, 3), []

        async def judge_then_stop(_: Any, ctx: Context) -> None:
            found.append(await judge.verdict(ANSWER, ctx))
            if len(found) == 1:
                raise ModelError(Failure("unreachable", "stopped"))

        asyncio.run(lab.start(judge_then_stop))
        asyncio.run(lab.start(judge_then_stop))
        assert len(server.bodies) == 5
    assert found[0] == found[1]
    assert found[0].votes == ((OMISSION,), (CORRECT,), (CORRECT,))


class Holding:
    """A model that can be held to a schema, and the context of one case."""

    name, endpoint, can = "local/x", "here", frozenset({CHAT, SCHEMA})

    def __init__(self, text: str) -> None:
        self.text = text
        self.asked: list[Request] = []

    async def ask(self, request: Request) -> Response:
        self.asked.append(request)
        return Response(self.text)

    async def map(self, function: Callable[[Any], Any], items: Any) -> list[Any]:
        return [await function(item) for item in items]


def test_a_model_that_can_be_held_to_a_schema_is() -> None:
    """The schema is that of the part; what it says is read as any reply."""
    judge: JudgePrompt[Any] = registry.find("judge", "recall").build()
    holding = Holding('{"reason": "r", "labels": {"1": "covered", "2": "missed"}}')
    ctx: Any = holding
    verdict = asyncio.run(ModelJudge(judge, 1).verdict(EXAMPLES["recall"], ctx, ctx))
    assert verdict == Verdict((COVERED, MISSED), "r")
    given = holding.asked[0].params["response_format"]
    assert given["json_schema"]["schema"] == judge.schema(EXAMPLES["recall"])


def test_a_prompt_of_the_users_own_is_held_to_no_schema(tmp_path: Path) -> None:
    """It may ask for yes or no, which is no JSON."""
    (tmp_path / "own.txt").write_text("{question} {reference} {response}: yes or no?")
    holding = Holding("yes")
    ctx: Any = holding
    judge = ModelJudge(OwnAnswerPrompt(JudgeSetup(prompt=tmp_path / "own.txt")), 1)
    assert asyncio.run(judge.verdict(ANSWER, ctx, ctx)).labels == (CORRECT,)
    assert "response_format" not in holding.asked[0].params
