"""Judges rows: 1 where every expected field is right, 0 where one is not or there is no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.protocols import Context, View
from assay.core.types import End, Record, Score
from assay.suites.hop.analysis import NO_TAG, Seen
from assay.suites.hop.comparing import judge
from assay.suites.hop.contract import OutputField
from assay.suites.hop.row import HopRow, gold_digest

METRIC = "correct"


class HopScorer:
    """One score a row; null where nothing is expected of it."""

    def __init__(self, scorer_id: str, fields: Mapping[str, OutputField]) -> None:
        self.id = scorer_id
        self._fields = fields

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """The row's verdict, with every check."""
        case, row = view.case, view.case.gold
        seen = seen_of(row, case.subject, view.end, view.records)
        verdict = judge(row.expected, seen.result, self._fields)
        correct = verdict.correct
        return [
            Score(
                case.index,
                case.key,
                case.set,
                case.subject,
                self.id,
                METRIC,
                status="not_applicable" if correct is None else "scored",
                value=None if correct is None else float(correct),
                reason=seen.error or next((c.why for c in verdict.checks if not c.passed), ""),
                data={
                    "gold": gold_digest(row.expected),
                    "checks": [msgspec.to_builtins(check) for check in verdict.checks],
                },
            )
        ]


def seen_of(row: HopRow, profile: str, end: End | None, records: list[Record]) -> Seen:
    """A row of a run, as the analysis takes it."""
    answer: dict[str, Any] = next((r.data for r in records if r.kind == "answer"), {})
    steps = [r.data for r in records if r.kind == "step"]
    error = end.failure.message if end and end.failure else "" if end else "it did not run"
    return Seen(
        profile=profile,
        tag=row.tag or NO_TAG,
        difficulty=row.difficulty or "",
        id=row.id,
        ok=end is not None and end.status == "ok",
        outcome=answer.get("status", "OK"),
        error=error,
        result=msgspec.json.decode(answer["result"]) if answer else None,
        expected=row.expected,
        seconds=end.seconds if end else None,
        retries=sum(step.get("retry_count") or 0 for step in steps),
        path=steps,
    )
