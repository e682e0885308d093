"""The judge of a run: a model with versioned prompts, or `offline`, which uses rules and calls no model.

    judge = Judge(judge_name(spec.judge), votes=3)
    verdict = await judge.verdict(AnswerQuestion(question, reference, response), ctx)

`judge_from_spec`, `judge_answer` and the functions around them are for suites that have a judge as one score among
others.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any

from assay.core import registry
from assay.core.errors import ModelError, UsageError, similar_names
from assay.core.hashing import file_sha256, fingerprint
from assay.core.protocols import Asker, Context
from assay.core.roles import CHAT, SCHEMA, Role, response_format, with_provider
from assay.core.spec import RunSpec
from assay.core.types import JUDGE, Request, Response, ScoreStatus
from assay.scoring import prompt_budget
from assay.scoring.judge_prompt import JudgePrompt, refusal_reason, unreadable_reply
from assay.scoring.judge_setup import JudgeSetup, OwnAnswerPrompt, setup_of
from assay.scoring.questions import (
    CORRECT,
    KINDS,
    AnswerQuestion,
    JudgeQuestion,
    Verdict,
    invalid,
    trivial_verdict,
)
from assay.usercode import plugins
from assay.usercode.addresses import OPENAI, same_vendor
from assay.usercode.loop import LoopTurn, compute

OFFLINE = "offline"
# Name of the judge's role among the models of a run.
ROLE = "judge"
# Requests for one vote. If the second reply cannot be read either, the vote is invalid.
REQUESTS_PER_VOTE = 2
# Characters of a question about an answer that `offline` judges without a thread.
_SHORT = 1000

# Environment variables that name the judge, the most specific first.
_MODEL_VARIABLES = ("OPENAI_MODEL_JUDGE", "JUDGE_MODEL", "OPENAI_MODEL")
_URL_VARIABLE, _KEY_VARIABLE = "OPENAI_BASE_URL_JUDGE", "OPENAI_API_KEY_JUDGE"


class Judge:
    """Judges every kind of question. `name` is for reports; `id` differs for every different judge."""

    def __init__(
        self,
        name: str,
        votes: int = 1,
        base_url: str | None = None,
        params: Mapping[str, Any] | None = None,
        setup: JudgeSetup | None = None,
    ) -> None:
        """`params` are those of --judge-kwargs, which override the parameters of the prompts.

        `setup` has a prompt of the user's own for answers. Other kinds of question keep their prompts.
        """
        self.name = name
        self.params = dict(params or {})
        self._base_url = base_url
        self._file_hash = judge_file_hash(name)
        self._turn = LoopTurn()
        self.prompt_file = str(setup.prompt) if setup else ""
        self.binary = False
        """Whether the user's prompt for answers has one label for all wrong answers, made up or incomplete."""
        self._offline = False
        """Whether the rules of `offline` are loaded, which takes 50 ms."""
        self.notices: list[str] = []
        """Sentences about options that this judge does not use."""
        if name == OFFLINE:
            # It is deterministic, so further votes would be equal.
            if votes > 1:
                self.notices.append(f"--votes {votes} has no effect: the judge {OFFLINE!r} gives equal votes")
            self.votes = 1
            self._judges: dict[str, ModelJudge] = {}
        else:
            self.votes = votes if votes > 1 or setup is None else setup.votes
            judge_prompts = {kind: registry.find("judge", kind).build() for kind in KINDS}
            if setup is not None:
                own = judge_prompts[AnswerQuestion.kind] = OwnAnswerPrompt(setup)
                self.binary = own.binary
            self._judges = {kind: ModelJudge(prompt, self.votes) for kind, prompt in judge_prompts.items()}

    async def verdict(self, question: JudgeQuestion, ctx: Context) -> Verdict:
        """Return the verdict on one question. Raises ModelError if the judge did not reply at all."""
        if (trivial := trivial_verdict(question)) is not None:
            return trivial
        if self.name == OFFLINE:
            # A verdict on a short answer takes less than a millisecond, one on memories up to seconds.
            if isinstance(question, AnswerQuestion) and self._offline and _length(question) < _SHORT:
                await self._turn.give_way()
                return _offline_verdicts([question])[0]
            self._offline = True
            return (await compute(partial(_offline_verdicts, [question])))[0]
        asker = ctx.model(ROLE)
        asker.purpose = JUDGE
        return await self._judges[question.kind].verdict(question, asker, ctx)

    async def verdicts(self, questions: Sequence[JudgeQuestion], ctx: Context) -> list[Verdict]:
        """Return the verdicts on several questions, in order. Raises ModelError if the judge did not reply at all."""
        if self.name == OFFLINE:
            # All in one turn of the thread: a turn costs as much as a verdict.
            return await compute(partial(_offline_verdicts, questions))
        return await ctx.map(lambda question: self.verdict(question, ctx), questions)

    def fingerprint(self, kind: str) -> str:
        """Return a hash that changes with the judge's model, its prompt for this kind, parameters and votes."""
        if self.name == OFFLINE:
            from assay.scoring import offline

            return offline.FINGERPRINT
        parts = [self.name, self._file_hash, self._judges[kind].fingerprint]
        return fingerprint([*parts, self.params] if self.params else parts)

    @property
    def id(self) -> str:
        """Name of the judge, and a hash over the fingerprints of all kinds of question."""
        return f"{self.name}@{fingerprint([self.fingerprint(kind) for kind in KINDS])}"

    @property
    def reply_identity(self) -> str:
        """Identifies the model behind the judge, without its prompts. Includes the code of a `python/` judge.

        Scorers with equal reply identity can share logged replies.
        """
        return f"{self.name}@{fingerprint([self.name, self._file_hash])}"

    @property
    def roles(self) -> dict[str, Role]:
        """The role of the judge, with its own endpoint and key if they are set. Empty for `offline`."""
        if self.name == OFFLINE:
            return {}
        key = _KEY_VARIABLE if os.environ.get(_KEY_VARIABLE) else ""
        role = Role(self.name, self.endpoint, key, params=self.params, needs=frozenset({CHAT}), mark="score")
        return {ROLE: role}

    @property
    def endpoint(self) -> str | None:
        """The judge's own endpoint, or None if it uses the endpoint of the run."""
        if self.name == OFFLINE:
            return None
        if self._base_url or not same_vendor(self.name, OPENAI):
            return self._base_url  # OpenAI's variables are not for the models of other vendors
        return os.environ.get(_URL_VARIABLE) or None


def _offline_verdicts(questions: Sequence[JudgeQuestion]) -> list[Verdict]:
    # Imported here, because compiling its rules takes longer than most commands need to start.
    from assay.scoring import offline

    return [trivial_verdict(each) or offline.verdict(each) for each in questions]


def _length(question: AnswerQuestion) -> int:
    return sum(map(len, (question.question, question.reference, question.response, *question.evidence)))


def judge_name(flag: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """Return the judge's name: --judge, else an environment variable, else `offline`.

    A name without a provider is a model of the provider `openai`. Raises UsageError for a misspelled `offline`.
    """
    if flag:
        if flag != OFFLINE and similar_names(flag, [OFFLINE]):
            raise UsageError(
                f"--judge {flag}: did you mean {OFFLINE!r}? For a model of this name: --judge openai/{flag}"
            )
        return flag if "/" in flag or flag == OFFLINE else f"openai/{flag}"
    for variable in _MODEL_VARIABLES:
        if name := environ.get(variable):
            url = environ.get(_URL_VARIABLE) or environ.get("OPENAI_BASE_URL")
            return name if name == OFFLINE else with_provider(name, url)
    return OFFLINE


def judge_file_hash(name: str) -> str:
    """Return the hash of the file behind a `python/` or `script/` judge. Empty for other judges."""
    provider, _, file = name.partition("/")
    path = Path(file.rpartition(":")[0] if provider == "python" else file)
    if provider not in {"python", "script"} or not path.is_file():
        return ""
    return plugins.identity(file) if provider == "python" else file_sha256(path)


class ModelJudge:
    """Asks a model one kind of question, with a number of votes.

    If the model supports it, its replies are restricted to a JSON schema. An unreadable reply is requested once
    more.
    """

    def __init__(self, prompt: JudgePrompt[Any], votes: int) -> None:
        self._prompt = prompt
        self._votes = votes

    @property
    def fingerprint(self) -> str:
        """A hash that changes with the prompt, the parameters, the budgets and the number of votes."""
        prompt = self._prompt
        return fingerprint(
            [prompt.fingerprint, prompt.params, self._votes, REQUESTS_PER_VOTE, prompt_budget.FINGERPRINT]
        )

    async def verdict(self, question: JudgeQuestion, asker: Asker, ctx: Context) -> Verdict:
        """Return the majority of the valid votes. Invalid if no vote is valid, or in a tie.

        Parts and votes are requested concurrently. If one part has no valid verdict, the whole question has
        none. Raises ModelError if a request got no reply at all.
        """
        parts = self._prompt.split(question)
        ballots = await ctx.map(lambda part: self._collect_votes(part, asker, ctx), parts)
        return _join_parts(ballots)

    async def _collect_votes(self, part: JudgeQuestion, asker: Asker, ctx: Context) -> list[Verdict]:
        params = dict(self._prompt.params)
        if self._prompt.wants_json and SCHEMA in asker.can:
            params["response_format"] = response_format(self._prompt.schema(part))
        messages = self._prompt.messages(part)
        request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)
        votes: list[Verdict] = [invalid("the judge was not asked")] * self._votes
        # Second requests are sent after all first replies have arrived. Equal requests are numbered in their
        # order, and a replay must number them in the same way.
        for _ in range(REQUESTS_PER_VOTE):
            open_votes = [number for number, vote in enumerate(votes) if not vote.valid]
            if not open_votes:
                break
            verdicts = await ctx.map(lambda _: self._vote(part, request, asker), open_votes)
            for number, vote in zip(open_votes, verdicts, strict=True):
                votes[number] = vote
        return votes

    async def _vote(self, part: JudgeQuestion, request: Request, asker: Asker) -> Verdict:
        try:
            response = await asker.ask(request)
        except ModelError as error:
            return invalid(refusal_reason(error))
        return self._read(response, part, request)

    def _read(self, response: Response, part: JudgeQuestion, request: Request) -> Verdict:
        prompt = "\n".join(message["content"] for message in request.messages or [])
        try:
            labels, reason = self._prompt.read_text(response.text, prompt, part)
        except ValueError as error:
            return invalid(unreadable_reply(response, str(error)))
        return Verdict(labels, reason)


def _join_parts(ballots: list[list[Verdict]]) -> Verdict:
    """Return one verdict with the labels of all parts. Its `votes` are those that are valid in every part."""
    parts = [_majority(ballot) for ballot in ballots]
    if len(parts) == 1:
        return parts[0]
    for number, part in enumerate(parts, 1):
        if not part.valid:
            return invalid(f"part {number} of {len(parts)}: {part.reason}")
    votes: list[tuple[str, ...]] = []
    for vote_parts in zip(*ballots, strict=True):
        if len(ballots[0]) > 1 and all(vote.valid for vote in vote_parts):
            votes += [tuple(chain.from_iterable(vote.labels for vote in vote_parts))]
    stable: bool | None = True
    if any(part.stable is False for part in parts):
        stable = False
    elif any(part.stable is None for part in parts):
        stable = None
    return Verdict(
        tuple(chain.from_iterable(part.labels for part in parts)),
        "\n".join(part.reason for part in parts),
        sure=tuple(chain.from_iterable(part.sure for part in parts)),
        votes=tuple(votes),
        stable=stable,
    )


def _majority(ballot: list[Verdict]) -> Verdict:
    """Return the most frequent label for each item. `sure` is the share of valid votes for that label.

    `stable` is None if only one of several votes is valid, since it cannot be compared.
    """
    votes = [vote for vote in ballot if vote.valid]
    if len(ballot) == 1 or not votes:
        return ballot[0]
    vote_labels = tuple(vote.labels for vote in votes)
    leaders = [Counter(column).most_common(2) for column in zip(*vote_labels, strict=True)]
    if any(len(top) > 1 and top[0][1] == top[1][1] for top in leaders):
        reason = "no verdict: two labels have the same number of votes"
        return Verdict(reason=reason, status="invalid", votes=vote_labels, stable=False)
    labels = tuple(top[0][0] for top in leaders)
    reason = next((vote.reason for vote in votes if vote.labels == labels), votes[0].reason)
    stable = len(set(vote_labels)) == 1 if len(vote_labels) > 1 else None
    sure = tuple(top[0][1] / len(votes) for top in leaders)
    return Verdict(labels, reason, sure=sure, votes=vote_labels, stable=stable)


def judge_from_spec(spec: RunSpec, judge_prompt: str = "", default: JudgeSetup | None = None) -> Judge | None:
    """Return the judge that --judge names, or None. Ignores the environment: judging must be requested.

    `default` is the setup of a judge model without --judge-prompt.
    """
    setup = setup_of(judge_prompt, spec.judge, OFFLINE)
    if setup is None and spec.judge != OFFLINE:
        setup = default
    if spec.judge:
        return Judge(judge_name(spec.judge), spec.votes, params=spec.judge_kwargs, setup=setup)
    if spec.votes > 1:
        raise UsageError("--votes is the number of judge calls per verdict; name a judge with --judge")
    return None


def answer_scorer_id(judge: Judge, judged: Any) -> str:
    """Return the id of a scorer that only asks the judge.

    It changes with the judge, the judge's own endpoint, and `judged`, the texts that the judge sees. It does not
    depend on other metrics, so their changes cause no judge calls.
    """
    return f"{JUDGE}@{fingerprint([judge.fingerprint(AnswerQuestion.kind), judge.endpoint, judged])}"


async def judge_answer(
    judge: Judge, question: str, references: Sequence[str], response: str, ctx: Context, rule: str = ""
) -> Verdict:
    """Return the verdict on an answer that is right if it agrees with any of the references.

    `rule` is that of `AnswerQuestion`. A model gets all references in one question. `offline` compares words, so it
    judges them one by one.
    """
    alternatives = references
    if judge.name != OFFLINE and len(references) != 1:
        lines = ["Any one of these is a right answer:", *(f"- {reference}" for reference in references)]
        alternatives = ["\n".join(lines)]
    verdicts = [
        await judge.verdict(AnswerQuestion(question, reference, response, rule=rule), ctx) for reference in alternatives
    ]
    return next((verdict for verdict in verdicts if verdict.labels == (CORRECT,)), verdicts[0])


def answer_value(verdict: Verdict) -> tuple[ScoreStatus, float | None]:
    """Return status and value of the score: 1 for Correct, 0 for other labels, None for an invalid verdict."""
    if not verdict.valid:
        return verdict.status, None
    return verdict.status, float(verdict.labels == (CORRECT,))


def answer_data(verdict: Verdict) -> dict[str, Any]:
    """Return the data that the score stores: the label, and with several votes their counts and stability."""
    data: dict[str, Any] = {}
    if verdict.labels:
        data["label"] = verdict.labels[0]
    if verdict.votes:
        labels = [vote[0] for vote in verdict.votes]
        data["votes"] = [[label, labels.count(label)] for label in dict.fromkeys(labels)]
        data["stable"] = verdict.stable
    return data
