"""Scores rows: 1 if every expected field is right, 0 if a field is wrong or there is no result.

The contract decides when a field is right: equal, within a tolerance, in the same band, or within a distance.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.protocols import Context, Scorer, ScorerInput
from assay.core.types import End, Record, Score
from assay.scoring.expectations import MISSING, Check, Matching, compare, same_number, unequal
from assay.suites.hop.contract import OutputField, parse_bool, strip_texts
from assay.suites.hop.field_types import fits
from assay.suites.hop.result import file_text
from assay.suites.hop.rows import HopRow
from assay.suites.hop.store.audit import Audit, read_audit

METRIC = "correct"
OUTSIDE = "(no band)"
NOT_RUN = "it did not run"
"""The error of a row in the result file of a run that was stopped before it."""
_EXACT_MATCHING = Matching()
_WRONG_BOOL = {value: unequal(not value, value) for value in (True, False)}


class RowVerdict(Struct, frozen=True, omit_defaults=True):
    """The checks of one row.

    `bands` has (expected, actual) for each field with bands. `near` has, for each field with an expected
    number, True if the actual number is at most 1 away.
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
        """True if no check failed, or None if the row has no expected values."""
        for check in self.checks:
            if not check.passed:
                return False
        return True if self.checks else None


class ScoreData(RowVerdict, frozen=True, kw_only=True):
    """The data of a score: the verdict, the row's id, and the fingerprint of its expected values."""

    id: int | str
    gold: str


class HopScorer(Scorer):
    """Gives one score per row. A row without expected values is not applicable."""

    def __init__(self, scorer_id: str, fields: Mapping[str, OutputField]) -> None:
        self.id = scorer_id
        self._fields = fields
        self.on_result: Callable[[ScorerInput, Audit, str | None], object] | None = None
        """Called with each row that has ended, and its result as text."""

    async def score(self, given: ScorerInput, ctx: Context) -> list[Score]:
        return self.score_at_once(given)

    def score_at_once(self, given: ScorerInput) -> list[Score]:
        case = given.case
        row = case.gold
        text = result_text(given.records)
        audit = audit_case(given.end, text)
        if self.on_result is not None:
            self.on_result(given, audit, text)
        verdict = check_row(row.expected, None if audit.failed else audit.fields, self._fields)
        return [row_score(case.head, self.id, row, audit, verdict)]

    def verdict(self, row: HopRow, scores: list[Score]) -> RowVerdict:
        """Return the verdict in a row's score. A row without a score fails all its checks."""
        if scores:
            return msgspec.convert(scores[0].data, ScoreData)
        return check_row(row.expected, None, self._fields)


def row_score(head: tuple[int, str, str, str], scorer: str, row: HopRow, audit: Audit, verdict: RowVerdict) -> Score:
    """Return the score of a row, with every check in its data. `head` is the case's."""
    correct = verdict.correct
    return Score(
        *head,
        scorer,
        METRIC,
        status="not_applicable" if correct is None else "scored",
        value=None if correct is None else float(correct),
        reason=audit.error or (verdict.wrong[0].why if correct is False else ""),
        data=ScoreData(verdict.checks, verdict.bands, verdict.near, id=row.id, gold=row.gold),
        expected=row.expected or None,
    )


def result_text(records: list[Record]) -> str | None:
    """Return the function's result as it is written to files, or None if there is no answer."""
    for record in reversed(records):
        if record.kind == "answer":
            return file_text(record.data["status"], record.data["result"])
    return None


def audit_case(end: End | None, text: str | None) -> Audit:
    """Return the result of a case, by the rules for result files.

    A run and a later `--analyse` of its file therefore give the same numbers.
    """
    if end is not None and end.status == "ok":
        # Fast path: most results are plain objects without wrappers.
        if text and text[0] == "{" and '"result"' not in text:
            try:
                return Audit({}, msgspec.json.decode(text))
            except msgspec.DecodeError:
                pass  # the text of an imported row may be something else than JSON
        record: dict[str, Any] = {"hop_result": text, "hop_stats": {"status": "OK"}}
    else:
        error = NOT_RUN
        if end is not None:
            error = end.failure.message if end.failure else ""
        record = {"hop_result": None, "hop_stats": {"status": "ERROR", "error": error}}
    audit = read_audit(record)
    assert audit is not None
    return audit


# Fields


def check_row(expected: Mapping[str, Any], result: Any, fields: Mapping[str, OutputField]) -> RowVerdict:
    """Compare every expected field with the result. A missing field is wrong."""
    checks: list[Check] = []
    bands: dict[str, tuple[str, str]] = {}
    near: dict[str, bool] = {}
    for name, expected_value in expected.items():
        value = result.get(name, MISSING) if isinstance(result, dict) else MISSING
        field = fields.get(name)
        is_plain = field is None or (field.compare == "equal" and not field.bands)
        if is_plain and type(value) is bool and type(expected_value) is bool:
            # A quick way to the result of `_check_field`, which compares any two values.
            passed = value is expected_value
            checks.append(Check(name, "equal", passed, expected_value, value, "" if passed else _WRONG_BOOL[value]))
            continue
        is_bool = field is not None and field.type == "bool"
        target = parse_bool(expected_value) if is_bool else strip_texts(expected_value)
        actual = _normalise_like(target, value)
        checks += _check_field(name, target, actual, field)
        if field is not None and field.bands:
            bands[name] = _band(field, target), _band(field, actual)
        if fits(target, "float"):
            near[name] = _is_within(target, actual, 1)
    return RowVerdict(checks, bands, near)


def _check_field(name: str, target: Any, actual: Any, field: OutputField | None) -> list[Check]:
    if actual is MISSING:
        return [Check(name, "missing", passed=False, expected=target, why="the result has no such field")]
    if field is not None and field.compare == "bands":
        expected_band = _band(field, target)
        actual_band = _band(field, actual)
        why = ""
        # A value outside all bands is never right, not even if both are outside.
        if expected_band != actual_band or expected_band == OUTSIDE:
            why = f"expected {expected_band}, found {actual_band}"
        return [Check(name, "bands", not why, target, actual, why)]
    if field is not None and field.compare == "within":
        distance = field.within or 0
        near = _is_within(target, actual, distance)
        why = "" if near else f"{actual!r} is not within {distance:g} of {target!r}"
        return [Check(name, "within", near, target, actual, why)]
    matching = _EXACT_MATCHING
    if field is not None and field.compare == "tolerance":
        matching = Matching(tolerance=field.tolerance or 0.0)
    return compare(_as_plain_text(target), actual, matching, name)


def _as_plain_text(value: Any) -> Any:
    """Mark texts as literal. Otherwise `compare` would read a text such as "contains: x" as a testset rule."""
    if isinstance(value, str):
        return f"equals:{value}"
    if isinstance(value, dict):
        return {key: _as_plain_text(item) for key, item in value.items()}
    return [_as_plain_text(item) for item in value] if isinstance(value, list) else value


def _normalise_like(target: Any, actual: Any) -> Any:
    """Strip texts, and turn "True" into true where a bool is expected: hop_judge returns judgements as text."""
    if isinstance(actual, str):
        return parse_bool(actual) if isinstance(target, bool) else actual.strip()
    if isinstance(target, dict) and isinstance(actual, dict):
        return {key: _normalise_like(target.get(key), value) for key, value in actual.items()}
    if isinstance(target, list) and isinstance(actual, list) and len(target) == len(actual):
        return list(map(_normalise_like, target, actual))
    return actual


def _is_within(target: Any, actual: Any, distance: float) -> bool:
    """Return True if both are numbers that differ by at most `distance`."""
    return fits(target, "float") and fits(actual, "float") and same_number(target, actual, distance)


def _band(field: OutputField, value: Any) -> str:
    """Return the name of the band of a value, or OUTSIDE."""
    return (None if value is MISSING else field.band_of(value)) or OUTSIDE
