"""The judge of a run: a model that is asked by versioned prompts, or `offline`, which asks no model.

    panel = Panel(judge_name(spec.judge), votes=3)
    verdict = await panel.verdict(AnswerQuestion(question, reference, response), ctx)

`judge_answer` and the functions below it serve the suites that judge answers beside their other scores.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

from assay.core import registry
from assay.core.connect import CHAT, SCHEMA, Role, response_format
from assay.core.errors import ModelError, UsageError
from assay.core.hashing import file_sha256, fingerprint
from assay.core.protocols import Asker, Context
from assay.core.spec import RunSpec
from assay.core.types import JUDGE, Request, Response, ScoreStatus
from assay.scoring import prompt_budget
from assay.scoring.json_text import read_reply
from assay.scoring.judge_prompt import JudgePrompt, refusal_reason, unreadable_reply
from assay.scoring.questions import (
    CORRECT,
    KINDS,
    AnswerQuestion,
    JudgeQuestion,
    Verdict,
    invalid,
    trivial_verdict,
)

OFFLINE = "offline"
ROLE = "judge"
TRIES = 2
"""How often one vote is asked for before it is invalid."""

_MODEL_VARIABLES = ("OPENAI_MODEL_JUDGE", "JUDGE_MODEL", "OPENAI_MODEL")
_URL_VARIABLE, _KEY_VARIABLE = "OPENAI_BASE_URL_JUDGE", "OPENAI_API_KEY_JUDGE"


class Panel:
    """Judges every kind of question. Reports call it `name`; `id` tells it from any other judge."""

    def __init__(self, name: str, votes: int = 1, base_url: str | None = None) -> None:
        self.name = name
        self._base_url = base_url
        self._file_hash = judge_file_hash(name)
        if name == OFFLINE:
            # It is deterministic: a second vote would be the same.
            self.votes = 1
            self._judges: dict[str, ModelJudge] = {}
        else:
            self.votes = votes
            self._judges = {kind: ModelJudge(registry.find("judge", kind).build(), votes) for kind in KINDS}

    async def verdict(self, question: JudgeQuestion, ctx: Context) -> Verdict:
        """The verdict on one question. Raises ModelError where the judge could not be asked at all."""
        if (trivial := trivial_verdict(question)) is not None:
            return trivial
        if self.name == OFFLINE:
            # Imported here: its rules take longer to load than most commands take to start.
            from assay.scoring import offline

            return offline.verdict(question)
        return await self._judges[question.kind].verdict(question, ctx.model(ROLE), ctx)

    def fingerprint(self, kind: str) -> str:
        """Changes with the judge's model, its prompt for this kind, its parameters and its votes."""
        if self.name == OFFLINE:
            from assay.scoring import offline

            return offline.FINGERPRINT
        return fingerprint([self.name, self._file_hash, self._judges[kind].fingerprint])

    @property
    def id(self) -> str:
        """Name and fingerprint over all kinds."""
        return f"{self.name}@{fingerprint([self.fingerprint(kind) for kind in KINDS])}"

    @property
    def reply_identity(self) -> str:
        """Identifies who replies, whatever the prompt: the model, and the code of a `python/` judge.

        Scorers with equal reply identity can share logged replies.
        """
        return f"{self.name}@{fingerprint([self.name, self._file_hash])}"

    @property
    def roles(self) -> dict[str, Role]:
        """The judge's role, marked `score`; none for `offline`. It may have an endpoint and a key of its own."""
        if self.name == OFFLINE:
            return {}
        key = _KEY_VARIABLE if os.environ.get(_KEY_VARIABLE) else ""
        role = Role(self.name, self.endpoint, key, needs=frozenset({CHAT}), mark="score")
        return {ROLE: role}

    @property
    def endpoint(self) -> str | None:
        """The judge's own endpoint. Without one it is asked where the run's model is."""
        if self.name == OFFLINE:
            return None
        return self._base_url or os.environ.get(_URL_VARIABLE) or None


def judge_name(flag: str | None, environ: Mapping[str, str] = os.environ) -> str:
    """The judge that --judge names, else the environment, else `offline`. A bare name is an OpenAI model."""
    if flag:
        return flag if "/" in flag or flag == OFFLINE else f"openai/{flag}"
    for variable in _MODEL_VARIABLES:
        if name := environ.get(variable):
            return name if name == OFFLINE else with_provider(name)
    return OFFLINE


def with_provider(name: str) -> str:
    """A model name of the environment with its provider. `meta-llama/Llama-3` has none: it becomes openai."""
    provider, slash, _ = name.partition("/")
    return name if slash and provider in registry.names("model") else f"openai/{name}"


def judge_file_hash(name: str) -> str:
    """The hash of the file of a `python/` or `script/` judge; empty for any other judge."""
    provider, _, file = name.partition("/")
    path = Path(file.rpartition(":")[0] if provider == "python" else file)
    if provider not in {"python", "script"} or not path.is_file():
        return ""
    return registry.identity(file) if provider == "python" else file_sha256(path)


class ModelJudge:
    """Asks a model about one kind of question, with a number of votes.

    Replies are held to a JSON schema where the endpoint can do that, read strictly, and asked again once.
    """

    def __init__(self, prompt: JudgePrompt[Any], votes: int) -> None:
        self._prompt = prompt
        self._votes = votes

    @property
    def fingerprint(self) -> str:
        """Changes with the prompt, the parameters, the budgets and the number of votes."""
        prompt = self._prompt
        return fingerprint([prompt.fingerprint, prompt.params, self._votes, TRIES, prompt_budget.FINGERPRINT])

    async def verdict(self, question: JudgeQuestion, asker: Asker, ctx: Context) -> Verdict:
        """The majority of the valid votes; invalid where no vote is valid, or without a majority.

        Parts and votes are asked side by side. A part without a verdict leaves the whole question without
        one. Raises ModelError where a vote got no reply at all.
        """
        parts = self._prompt.parts(question)
        ballots = await ctx.map(lambda part: self._collect_votes(part, asker, ctx), parts)
        return _join_parts(ballots)

    async def _collect_votes(self, part: JudgeQuestion, asker: Asker, ctx: Context) -> list[Verdict]:
        params = dict(self._prompt.params)
        if SCHEMA in asker.can:
            params["response_format"] = response_format(self._prompt.schema(part))
        messages = self._prompt.messages(part)
        request = Request(model=asker.name, endpoint=asker.endpoint, messages=messages, params=params)
        votes: list[Verdict] = [invalid("it was not asked")] * self._votes
        # Unreadable replies are asked again in rounds and not one by one: a replay must meet equal requests
        # in the same order.
        for _ in range(TRIES):
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
        asked = "\n".join(message["content"] for message in request.messages or [])
        try:
            labels, reason = self._prompt.read(read_reply(response.text, asked), part)
        except ValueError as error:
            return invalid(unreadable_reply(response, str(error)))
        return Verdict(labels, reason)


def _join_parts(ballots: list[list[Verdict]]) -> Verdict:
    """One verdict for the parts in a row. Its `votes` are those that are valid in every part."""
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
    """The most frequent label for each thing. `sure` is the share of valid votes for that label.

    One valid vote among several says nothing about stability.
    """
    votes = [vote for vote in ballot if vote.valid]
    if len(ballot) == 1 or not votes:
        return ballot[0]
    cast = tuple(vote.labels for vote in votes)
    leaders = [Counter(column).most_common(2) for column in zip(*cast, strict=True)]
    if any(len(top) > 1 and top[0][1] == top[1][1] for top in leaders):
        reason = "no verdict: as many votes for one label as for another"
        return Verdict(reason=reason, status="invalid", votes=cast, stable=False)
    labels = tuple(top[0][0] for top in leaders)
    reason = next((vote.reason for vote in votes if vote.labels == labels), votes[0].reason)
    stable = len(set(cast)) == 1 if len(cast) > 1 else None
    sure = tuple(top[0][1] / len(votes) for top in leaders)
    return Verdict(labels, reason, sure=sure, votes=cast, stable=stable)


def panel_from_spec(spec: RunSpec) -> Panel | None:
    """The judge that --judge names. Environment variables do not count: these suites judge only on demand."""
    if spec.judge:
        return Panel(judge_name(spec.judge), spec.votes)
    if spec.votes > 1:
        raise UsageError("--votes says how often a judge is asked; name a judge with --judge")
    return None


def answer_scorer_id(panel: Panel, judged: Any) -> str:
    """The id of a scorer that only judges, so that a change of another metric asks no judge again.

    It changes with the judge, with an endpoint of its own, and with `judged`: what the judge is shown.
    """
    return f"{JUDGE}@{fingerprint([panel.fingerprint(AnswerQuestion.kind), panel.endpoint, judged])}"


async def judge_answer(
    panel: Panel, question: str, references: Sequence[str], response: str, ctx: Context
) -> Verdict:
    """The verdict on an answer that is right if it meets any of the references.

    A model is asked once and sees all references. `offline` compares words, so it takes them one by one.
    """
    alternatives = references
    if panel.name != OFFLINE and len(references) != 1:
        lines = ["Any one of these is a right answer:", *(f"- {reference}" for reference in references)]
        alternatives = ["\n".join(lines)]
    verdicts = [
        await panel.verdict(AnswerQuestion(question, reference, response), ctx) for reference in alternatives
    ]
    return next((verdict for verdict in verdicts if verdict.labels == (CORRECT,)), verdicts[0])


def answer_value(verdict: Verdict) -> tuple[ScoreStatus, float | None]:
    """Status and value of the score: 1 for Correct, 0 for any other label, None for an invalid verdict."""
    if not verdict.valid:
        return verdict.status, None
    return verdict.status, float(verdict.labels == (CORRECT,))


def answer_data(verdict: Verdict) -> dict[str, Any]:
    """What the score keeps of the verdict: the label, and how the votes went where there were several."""
    data: dict[str, Any] = {}
    if verdict.labels:
        data["label"] = verdict.labels[0]
    if verdict.votes:
        labels = [vote[0] for vote in verdict.votes]
        data["votes"] = [[label, labels.count(label)] for label in dict.fromkeys(labels)]
        data["stable"] = verdict.stable
    return data
