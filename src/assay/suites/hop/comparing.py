"""Whether an output field is what was expected of it: equal, near, in the same band, or within a distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from assay.scoring.expectations import MISSING, Check, Matching, compare
from assay.suites.hop.contract import OutputField, fits

_TRUTHS = {"true": True, "false": False}
OUTSIDE = "(no band)"


class Verdict(NamedTuple):
    """The checks of one row, and the bands of its banded fields: (expected, actual) by field."""

    checks: list[Check]
    bands: dict[str, tuple[str, str]]
    distances: dict[str, float]

    @property
    def correct(self) -> bool | None:
        """None where nothing is expected."""
        return all(check.passed for check in self.checks) if self.checks else None


def judge(expected: Mapping[str, Any], result: Any, fields: Mapping[str, OutputField]) -> Verdict:
    """Every expected field against the result. A field that is missing is a mismatch."""
    checks: list[Check] = []
    bands: dict[str, tuple[str, str]] = {}
    distances: dict[str, float] = {}
    for name, wanted in expected.items():
        actual = result.get(name, MISSING) if isinstance(result, dict) else MISSING
        field = fields.get(name)
        checks += _checks(name, wanted, actual, field)
        if field is not None and field.bands:
            bands[name] = band(field, wanted), band(field, actual)
        if (distance := _distance(wanted, actual)) is not None:
            distances[name] = distance
    return Verdict(checks, bands, distances)


def _checks(name: str, wanted: Any, actual: Any, field: OutputField | None) -> list[Check]:
    if actual is MISSING:
        return [Check(name, "missing", passed=False, expected=wanted, why="the result has no such field")]
    if field is not None and field.compare == "bands":
        one, two = band(field, wanted), band(field, actual)
        why = "" if one == two and one != OUTSIDE else f"expected {one}, found {two}"
        return [Check(name, "bands", not why, wanted, actual, why)]
    if field is not None and field.compare == "within":
        distance = _distance(wanted, actual)
        near = distance is not None and distance <= (field.within or 0)
        why = "" if near else f"{actual!r} is not within {field.within or 0:g} of {wanted!r}"
        return [Check(name, "within", near, wanted, actual, why)]
    tolerance = field.tolerance if field is not None and field.compare == "tolerance" else None
    return compare(_plain(wanted), _like(wanted, actual), Matching(tolerance=tolerance or 0.0), name)


def _plain(value: Any) -> Any:
    """Texts are compared without the space around them; a text with a prefix stays a plain text here."""
    return f"equals:{value.strip()}" if isinstance(value, str) else value


def _like(wanted: Any, actual: Any) -> Any:
    """An operator says truths as texts: "True" is true where a truth is expected."""
    if isinstance(actual, str):
        if isinstance(wanted, bool):
            return _TRUTHS.get(actual.strip().lower(), actual)
        return actual.strip()
    return actual


def _distance(wanted: Any, actual: Any) -> float | None:
    if not all(fits(value, "float") for value in (wanted, actual)):
        return None
    return float(abs(wanted - actual))


def band(field: OutputField, value: Any) -> str:
    """The name of the band that holds a value."""
    return (None if value is MISSING else field.band_of(value)) or OUTSIDE
