"""Whether an answer is right, as a judge says: a score that other scorers stand beside."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from assay.core.errors import UsageError
from assay.core.hashing import fingerprint
from assay.core.protocols import Context
from assay.core.spec import RunSpec
from assay.core.types import JUDGE, ScoreStatus
from assay.scoring.judging.matters import CORRECT, Answered, Verdict
from assay.scoring.judging.panel import OFFLINE, Panel, judge_named

_ALTERNATIVES = "Any one of these is a right answer:"


def panel_of(spec: RunSpec) -> Panel | None:
    """The judge that --judge names; the environment names none here."""
    if spec.judge:
        return Panel(judge_named(spec.judge), spec.votes)
    if spec.votes > 1:
        raise UsageError("--votes says how often a judge is asked; name a judge with --judge")
    return None


def scorer_id(panel: Panel, judged: Any) -> str:
    """Of a scorer that only judges, so that another metric asks no judge again.

    Changes with the judge, its endpoint where it has one of its own, and with what it is shown.
    """
    return f"{JUDGE}@{fingerprint([panel.fingerprint(Answered.kind), panel.endpoint, judged])}"


async def verdict_of(
    panel: Panel, question: str, references: Sequence[str], response: str, ctx: Context
) -> Verdict:
    """Of one answer, which is right if any of the references is met. Nobody is asked about an empty one.

    A model is asked once and shown all references; `offline` compares words, so it takes them one by one.
    """
    shown = references if panel.name == OFFLINE else [_alternatives(references)]
    said = [await panel.verdict(Answered(question, one, response), ctx) for one in shown]
    return next((one for one in said if one.labels == (CORRECT,)), said[0])


def _alternatives(references: Sequence[str]) -> str:
    if len(references) == 1:
        return references[0]
    return "\n".join([_ALTERNATIVES, *(f"- {one}" for one in references)])


def value_of(verdict: Verdict) -> tuple[ScoreStatus, float | None]:
    """1 for Correct, 0 for any other label; an invalid verdict is no number."""
    return verdict.status, float(verdict.labels == (CORRECT,)) if verdict.valid else None


def data_of(verdict: Verdict) -> dict[str, Any]:
    """The label, and how the votes went where there were several."""
    told: dict[str, Any] = {"label": verdict.labels[0]} if verdict.labels else {}
    if verdict.votes:
        cast = [vote[0] for vote in verdict.votes]
        told["votes"] = [[label, cast.count(label)] for label in dict.fromkeys(cast)]
        told["stable"] = verdict.stable
    return told
