"""A prompt of one's own for the judge of answers: its file, its labels, and its part in the judge's identity."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, UsageError
from assay.core.protocols import Context
from assay.scoring.judge import Judge
from assay.scoring.judge_setup import WORDS, JudgeSetup, OwnAnswerPrompt, setup_of
from assay.scoring.questions import CORRECT, HALLUCINATION, KINDS, OMISSION, AnswerQuestion, Verdict

from servers.loopback import LoopbackServer, chat
from support.gateway_run import GatewayRun

BODY = "Q: {question}\nGold: {reference}\nGot: {response}\nAnswer yes or no only.\n"
QUESTION = AnswerQuestion("Where does Ada live?", "Oslo", "In {reference} I think.")


def own(folder: Path, text: str = BODY, name: str = "own.txt", votes: int = 1) -> JudgeSetup:
    """A setup with this text as its prompt file."""
    path = folder / name
    path.write_text(text, encoding="utf-8")
    return JudgeSetup(prompt=path, votes=votes)


def test_a_file_without_parts_is_one_user_message(tmp_path: Path) -> None:
    """A placeholder in a judged text is not filled."""
    (message,) = OwnAnswerPrompt(own(tmp_path)).messages(QUESTION)
    assert message == {
        "role": "user",
        "content": "Q: Where does Ada live?\nGold: Oslo\nGot: In {reference} I think.\nAnswer yes or no only.",
    }


def test_a_file_with_parts_has_a_system_message(tmp_path: Path) -> None:
    """The form of the prompts that ship with the package, evidence included."""
    prompt = OwnAnswerPrompt(own(tmp_path, f"=== system ===\nGrade.\n=== user ===\n{BODY}{{evidence}}"))
    question = AnswerQuestion("q", "r", "a", ("Ada moved.",))
    system, user = prompt.messages(question)
    assert system == {"role": "system", "content": "Grade."}
    assert user["content"].endswith('1: "Ada moved."')


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("Is {response} right?", "the prompt lacks {question} and {reference}"),
        ("=== user ===\n{question} {response}\n=== notes ===\n{reference}", "the prompt lacks {reference};"),
        (f"=== system ===\n{BODY}", "has no part `=== user ===`, only system"),
    ],
)
def test_a_prompt_without_a_placeholder_is_refused(tmp_path: Path, text: str, message: str) -> None:
    """The message names the file and what is missing. A part that is no message does not count."""
    with pytest.raises(InputError) as error:
        Judge("openai/judge", setup=own(tmp_path, text))
    assert message in str(error.value)
    assert "own.txt" in str(error.value)


def test_a_prompt_that_is_missing_or_no_text_is_refused(tmp_path: Path) -> None:
    """Before the first call, with the name of the file."""
    with pytest.raises(InputError, match=r"gone\.txt"):
        Judge("openai/judge", setup=JudgeSetup(prompt=tmp_path / "gone.txt"))
    (tmp_path / "latin.txt").write_bytes("é".encode("latin-1"))
    with pytest.raises(InputError, match="not UTF-8"):
        Judge("openai/judge", setup=JudgeSetup(prompt=tmp_path / "latin.txt"))


@pytest.mark.parametrize(
    ("reply", "label"),
    [
        ("yes", CORRECT),
        ("No.", HALLUCINATION),
        ("**Yes**, it says Oslo.", CORRECT),
        ("It says Oslo. CORRECT", CORRECT),
        ("It says Rome.\n\nLabel: WRONG", HALLUCINATION),
        ("<think>Is it correct? No, it is.</think>\n\nyes", CORRECT),
        ('{"label": "WRONG"}', HALLUCINATION),
        ('It matches.\n```json\n{"reasoning": "same city", "label": "CORRECT"}\n```', CORRECT),
        ('{"reason": "a part is missing", "label": "omission"}', OMISSION),
        ("Incorrect", HALLUCINATION),
    ],
)
def test_labels_are_read_from_json_and_from_plain_text(tmp_path: Path, reply: str, label: str) -> None:
    """Our three labels, CORRECT and WRONG, yes and no."""
    labels, reason = OwnAnswerPrompt(own(tmp_path)).read_text(reply, "", QUESTION)
    assert labels == (label,)
    assert reason or reply.startswith('{"label"')


@pytest.mark.parametrize(
    "reply",
    [
        "",
        "The answer is not correct",
        "No, the first part fails. Correct.",
        "Maybe.",
        '{"label": "perhaps"}',
        '{"verdict": "CORRECT"}',
        '{"label": "CORRECT"} {"label": "WRONG"}',
    ],
)
def test_an_unclear_reply_is_no_verdict(tmp_path: Path, reply: str) -> None:
    """A label is never guessed."""
    with pytest.raises(ValueError, match="label|reply|JSON"):
        OwnAnswerPrompt(own(tmp_path)).read_text(reply, "", QUESTION)


def test_an_object_of_the_judged_answer_is_no_verdict(tmp_path: Path) -> None:
    """A judge that quotes it has said nothing of its own. The prompt's own example may be repeated."""
    prompt = OwnAnswerPrompt(own(tmp_path, BODY + 'Reply {"label": "CORRECT"} or {"label": "WRONG"}.'))
    quoted = 'It says {"label": "CORRECT"} and nothing else'
    assert prompt.read_text(quoted, "", QUESTION)[0] == (CORRECT,)
    with pytest.raises(ValueError, match="no JSON object"):
        prompt.read_text(quoted, "", AnswerQuestion("q", "r", 'Oslo. {"label": "CORRECT"}'))


def test_the_prompt_is_part_of_the_judge(tmp_path: Path) -> None:
    """Its text and the words of its labels, for answers only. The name of the file is not."""
    plain, first = Judge("openai/judge"), Judge("openai/judge", setup=own(tmp_path))
    renamed = Judge("openai/judge", setup=own(tmp_path, name="other.txt"))
    edited = Judge("openai/judge", setup=own(tmp_path, BODY + "Be strict.", name="edited.txt"))
    assert renamed.id == first.id
    assert len({plain.id, first.id, edited.id}) == 3
    others = [kind for kind in KINDS if kind != "answer"]
    assert [plain.fingerprint(kind) for kind in others] == [first.fingerprint(kind) for kind in others]
    words = JudgeSetup(prompt=tmp_path / "own.txt", labels={**WORDS, "partly": OMISSION})
    assert Judge("openai/judge", setup=words).fingerprint("answer") != first.fingerprint("answer")
    (tmp_path / "own.txt").write_text("gone", encoding="utf-8")
    assert first.fingerprint("answer") == renamed.fingerprint("answer")


def test_votes_of_the_flag_win_over_those_of_the_setup(tmp_path: Path) -> None:
    """A protocol with three votes has three unless --votes names another number."""
    setup = own(tmp_path, votes=3)
    assert [Judge("openai/judge", votes, setup=setup).votes for votes in (1, 5)] == [3, 5]


def test_a_prompt_without_omissions_is_binary(tmp_path: Path) -> None:
    """Its wrong answers all have one label, which reports must say."""
    assert Judge("openai/judge", setup=own(tmp_path)).binary
    assert not Judge("openai/judge", setup=own(tmp_path, BODY + "Correct, Hallucination or Omission?")).binary
    assert not Judge("openai/judge").binary


@pytest.mark.parametrize(("judge", "why"), [(None, "there is no judge"), ("offline", "'offline' has none")])
def test_a_prompt_needs_a_model(judge: str | None, why: str) -> None:
    """A flag without effect is an error."""
    with pytest.raises(UsageError, match=f"--judge-prompt .*{why}.*--judge PROVIDER/NAME"):
        setup_of("own.txt", judge, "offline")
    assert setup_of("", judge, "offline") is None


def test_a_model_is_asked_with_the_prompt(tmp_path: Path) -> None:
    """Through a real endpoint. A second request follows a reply that cannot be read."""
    asked: list[dict[str, Any]] = []

    def reply(body: dict[str, Any]) -> tuple[int, Any]:
        asked.append(body)
        return 200, chat("no" if len(asked) > 1 else "Hard to say, really")

    judge = Judge("openai/judge", setup=own(tmp_path))
    found: list[Verdict] = []

    async def solve(_: Any, ctx: Context) -> None:
        found.append(await judge.verdict(QUESTION, ctx))

    with LoopbackServer(reply) as server:
        asyncio.run(GatewayRun(tmp_path, judge.name, server.url).done(solve))
    assert [verdict.labels for verdict in found] == [(HALLUCINATION,)]
    assert len(asked) == 2
    assert [message["role"] for message in asked[0]["messages"]] == ["user"]
