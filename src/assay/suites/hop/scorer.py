"""Scores rows: 1 where every expected field is right, 0 where one is not or there is no result.

A field is right if it is equal, near, in the same band, or within a distance, as the contract says.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.hop_result import file_text
from assay.core.protocols import Context, Scorer, View
from assay.core.types import End, Record, Score
from assay.scoring.expectations import MISSING, Check, Matching, compare, same_number
from assay.store.hop.audit import Audit, read_audit
from assay.suites.hop.contract import OutputField, fits, read_truth, strip_texts
from assay.suites.hop.rows import HopRow

METRIC = "correct"
OUTSIDE = "(no band)"
_EXACTLY = Matching()


class RowVerdict(Struct, frozen=True, omit_defaults=True):
    """The checks of one row, and the bands of its banded fields: (expected, actual) by field.

    `near` has the fields of which a number is expected: whether the actual one lies within 1 of it.
    """

    checks: list[Check]
    bands: dict[str, tuple[str, str]] = {}
    near: dict[str, bool] = {}

    @property
    def wrong(self) -> list[Check]:
        """The checks that failed."""
        return [check for check in self.checks if not check.passed]

    @property
    def correct(self) -> bool | None:
        """None where nothing is expected."""
        return not self.wrong if self.checks else None


class ScoreData(RowVerdict, frozen=True, kw_only=True):
    """What a score keeps: the verdict, the row's id, and what was expected in sixteen digits."""

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
        audit = audit_case(view.end, result_text(view.records))
        verdict = check_row(row.expected, None if audit.failed else audit.fields, self._fields)
        wrong, correct = verdict.wrong, verdict.correct
        return [
            Score(
                *case.head,
                self.id,
                METRIC,
                status="not_applicable" if correct is None else "scored",
                value=None if correct is None else float(correct),
                reason=audit.error or (wrong[0].why if wrong else ""),
                data=ScoreData(verdict.checks, verdict.bands, verdict.near, id=row.id, gold=row.gold),
                expected=row.expected or None,
            )
        ]

    def verdict(self, row: HopRow, scores: list[Score]) -> RowVerdict:
        """The verdict of a row that was scored; a row that was not is not as expected."""
        if scores:
            return msgspec.convert(scores[0].data, ScoreData)
        return check_row(row.expected, None, self._fields)


def result_text(records: list[Record]) -> str | None:
    """What the function returned, as result files hold it; None where there is no answer."""
    for record in reversed(records):
        if record.kind == "answer":
            return file_text(record.data["status"], record.data["result"])
    return None


def audit_case(end: End | None, text: str | None) -> Audit:
    """What came of a case, as it is read from the file that is written of it."""
    if end is not None and end.status == "ok":
        # Most results are plain objects, and need none of the rules.
        if text and text[0] == "{" and '"result"' not in text:
            return Audit({}, msgspec.json.decode(text))
        record: dict[str, Any] = {"hop_result": text, "hop_stats": {"status": "OK"}}
    else:
        error = "it did not run"
        if end is not None:
            error = end.failure.message if end.failure else ""
        record = {"hop_result": None, "hop_stats": {"status": "ERROR", "error": error}}
    audit = read_audit(record)
    assert audit is not None
    return audit


# Fields


def check_row(expected: Mapping[str, Any], result: Any, fields: Mapping[str, OutputField]) -> RowVerdict:
    """Every expected field against the result. A field that is missing is wrong."""
    checks: list[Check] = []
    bands: dict[str, tuple[str, str]] = {}
    near: dict[str, bool] = {}
    for name, written in expected.items():
        value = result.get(name, MISSING) if isinstance(result, dict) else MISSING
        field = fields.get(name)
        wanted = read_truth(written) if field is not None and field.type == "bool" else strip_texts(written)
        actual = _read_like(wanted, value)
        checks += _check_field(name, wanted, actual, field)
        if field is not None and field.bands:
            bands[name] = _band(field, wanted), _band(field, actual)
        if fits(wanted, "float"):
            near[name] = _is_within(wanted, actual, 1)
    return RowVerdict(checks, bands, near)


def _check_field(name: str, wanted: Any, actual: Any, field: OutputField | None) -> list[Check]:
    if actual is MISSING:
        return [Check(name, "missing", passed=False, expected=wanted, why="the result has no such field")]
    if field is not None and field.compare == "bands":
        expected_band, actual_band = _band(field, wanted), _band(field, actual)
        why = ""
        if expected_band != actual_band or expected_band == OUTSIDE:
            why = f"expected {expected_band}, found {actual_band}"
        return [Check(name, "bands", not why, wanted, actual, why)]
    if field is not None and field.compare == "within":
        distance = field.within or 0
        near = _is_within(wanted, actual, distance)
        why = "" if near else f"{actual!r} is not within {distance:g} of {wanted!r}"
        return [Check(name, "within", near, wanted, actual, why)]
    matching = _EXACTLY
    if field is not None and field.compare == "tolerance":
        matching = Matching(tolerance=field.tolerance or 0.0)
    return compare(_as_plain_text(wanted), actual, matching, name)


def _as_plain_text(value: Any) -> Any:
    """A text that begins like a rule of testsets (`contains:` …) is a plain text here."""
    if isinstance(value, str):
        return f"equals:{value}"
    if isinstance(value, dict):
        return {key: _as_plain_text(item) for key, item in value.items()}
    return [_as_plain_text(item) for item in value] if isinstance(value, list) else value


def _read_like(wanted: Any, actual: Any) -> Any:
    """Operators return truths as texts: "True" is true where a truth is expected."""
    if isinstance(actual, str):
        return read_truth(actual) if isinstance(wanted, bool) else actual.strip()
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return {key: _read_like(wanted.get(key), value) for key, value in actual.items()}
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        return list(map(_read_like, wanted, actual))
    return actual


def _is_within(wanted: Any, actual: Any, distance: float) -> bool:
    """Whether two numbers are at most so far apart. A value that is no number is far from everything."""
    return fits(wanted, "float") and fits(actual, "float") and same_number(wanted, actual, distance)


def _band(field: OutputField, value: Any) -> str:
    """The name of the band that holds a value."""
    return (None if value is MISSING else field.band_of(value)) or OUTSIDE
