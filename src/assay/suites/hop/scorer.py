"""Judges rows: 1 where every expected field is right, 0 where one is not or there is no result."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from assay.core.hop_result import file_text
from assay.core.protocols import Context, Scorer, View
from assay.core.types import End, Record, Score
from assay.store.hop.audit import Audit, read_audit
from assay.suites.hop.analysis import Seen, retries_of
from assay.suites.hop.comparing import Verdict, judge
from assay.suites.hop.contract import OutputField
from assay.suites.hop.row import HopRow

METRIC = "correct"


class Judged(Verdict, frozen=True, kw_only=True):
    """What a score keeps: the verdict, the row, and what was expected in sixteen digits."""

    id: int | str
    gold: str


class HopScorer(Scorer):
    """One score a row; null where nothing is expected of it."""

    def __init__(self, scorer_id: str, fields: Mapping[str, OutputField]) -> None:
        self.id = scorer_id
        self._fields = fields

    async def score(self, view: View, ctx: Context) -> list[Score]:
        """The row's verdict, with every check."""
        case, row = view.case, view.case.gold
        audit = _audit(view.end, result_text(view.records))
        verdict = judge(row.expected, None if audit.failed else audit.fields, self._fields)
        wrong, correct = verdict.wrong, verdict.correct
        return [
            Score(
                *case.head,
                self.id,
                METRIC,
                status="not_applicable" if correct is None else "scored",
                value=None if correct is None else float(correct),
                reason=audit.error or (wrong[0].why if wrong else ""),
                data=Judged(verdict.checks, verdict.bands, verdict.near, id=row.id, gold=row.gold),
            )
        ]

    def verdict(self, row: HopRow, scores: list[Score]) -> Verdict:
        """What this scorer said of a row; one that was not judged is not as expected."""
        if scores:
            return msgspec.convert(scores[0].data, Judged)
        return judge(row.expected, None, self._fields)


def seen_of(row: HopRow, profile: str, end: End | None, records: list[Record]) -> Seen:
    """A row of a run, as the analysis takes it."""
    text = result_text(records)
    audit = _audit(end, text)
    steps = [record.data for record in records if record.kind == "step"]
    return Seen(
        profile=profile,
        tag=row.tag,
        difficulty=row.difficulty or "",
        id=row.id,
        ok=not audit.failed,
        outcome=audit.outcome or "OK",
        error=audit.error or "",
        said=audit.raw or "",
        text=None if audit.failed else text,
        seconds=end.seconds if end else None,
        retries=sum(map(retries_of, steps)),
        path=steps,
    )


def _audit(end: End | None, text: str | None) -> Audit:
    """What came of a row, as it is read from the file that is written of it."""
    return _answered(text) if end is not None and end.status == "ok" else _failed(end)


def _answered(text: str | None) -> Audit:
    """What the file's row would be read as; most results are plain objects, and need no rule."""
    if text and text[0] == "{" and '"result"' not in text:
        return Audit({}, msgspec.json.decode(text))
    return _read({"hop_result": text, "hop_stats": {"status": "OK"}})


def _failed(end: End | None) -> Audit:
    error = end.failure.message if end and end.failure else "" if end else "it did not run"
    return _read({"hop_result": None, "hop_stats": {"status": "ERROR", "error": error}})


def _read(record: dict[str, Any]) -> Audit:
    audit = read_audit(record)
    assert audit is not None
    return audit


def result_text(records: list[Record]) -> str | None:
    """What the function returned, as JSON text; where it said more than OK, the pair of both."""
    for record in reversed(records):
        if record.kind == "answer":
            return file_text(record.data["status"], record.data["result"])
    return None
