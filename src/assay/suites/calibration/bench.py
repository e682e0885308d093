"""The judge that is calibrated: what it is asked about a row, and what it said."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol

from assay.core.errors import UsageError
from assay.core.judges import JudgeInfo
from assay.core.protocols import Context
from assay.scoring.judges.rubric import RubricJudge
from assay.scoring.panel import OFFLINE, Panel
from assay.scoring.questions import CORRECT, AnswerQuestion, Verdict
from assay.store.judges import panel_judge, rubric_judge
from assay.suites.calibration.row import Row

METRIC = "accepted"
_ROLE = "judge"


class Said(NamedTuple):
    """One verdict. `accepted` is none where it is invalid, and the reason says why."""

    accepted: bool | None
    reason: str
    label: str = ""
    sure: float | None = None


class Bench(Protocol):
    """A judge of one kind of rows."""

    identity: JudgeInfo
    roles: dict[str, Any]
    endpoint: str | None
    """Where this judge alone is asked, if it has a place of its own: another one is asked anew."""

    async def said(self, row: Row, response: str, ctx: Context) -> Said:
        """Of one row. Raises ModelError where the judge could not be asked."""
        ...


class AnswerBench:
    """Judges answers to questions, as every suite with answers does."""

    def __init__(self, name: str, votes: int) -> None:
        self._panel = Panel(name, votes)
        self.identity = panel_judge(self._panel, [METRIC])
        self.roles: dict[str, Any] = self._panel.role
        self.endpoint = self._panel.endpoint

    async def said(self, row: Row, response: str, ctx: Context) -> Said:
        """Correct is accepted; whatever else an answer is called is not."""
        matter = AnswerQuestion(row.question, row.reference or "", response, row.evidence)
        verdict = await self._panel.verdict(matter, ctx)
        if not verdict.valid:
            return Said(None, verdict.reason)
        label = verdict.labels[0]
        return Said(label == CORRECT, verdict.reason, label, goodness(verdict))


class RubricBench:
    """Judges texts by rubrics, as pipelines do: asked once."""

    def __init__(self, name: str, votes: int) -> None:
        if name == OFFLINE:
            raise UsageError("these rows have a rubric, which only a model can judge; name one with --judge")
        if votes > 1:
            raise UsageError("a rubric is judged once wherever it decides: leave --votes away")
        self._judge = RubricJudge()
        self.identity = rubric_judge(name, self._judge.fingerprint, [METRIC])
        self.roles: dict[str, Any] = {_ROLE: name}
        self.endpoint: str | None = None

    async def said(self, row: Row, response: str, ctx: Context) -> Said:
        """Passed is accepted."""
        verdict = await self._judge.judge(ctx.model(_ROLE), row.rubric, response, row.reference)
        return Said(verdict.passed, verdict.reason)


def bench_for(rows: Sequence[Row], judge: str, votes: int) -> Bench:
    """The judge that rows of this kind need; a file has one kind."""
    return RubricBench(judge, votes) if rows[0].rubric else AnswerBench(judge, votes)


def goodness(verdict: Verdict) -> float | None:
    """How good the answer is from 0 to 1, by the share of votes for it or the judge's own measure."""
    if verdict.votes:
        return sum(labels[0] == CORRECT for labels in verdict.votes) / len(verdict.votes)
    return verdict.sure[0] if verdict.sure else None
