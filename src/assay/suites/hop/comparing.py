"""Whether an output field is what was expected of it: equal, near, in the same band, or within a distance."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from msgspec import Struct

from assay.scoring.expectations import MISSING, Check, Matching, compare, same_number
from assay.suites.hop.contract import OutputField, fits

_TRUTHS = {"true": True, "false": False}
OUTSIDE = "(no band)"
_EXACTLY = Matching()


class Verdict(Struct, frozen=True, omit_defaults=True):
    """The checks of one row, and the bands of its banded fields: (expected, actual) by field.

    `near` has the fields of which a number is expected: whether what came lies within one of it.
    """

    checks: list[Check]
    bands: dict[str, tuple[str, str]] = {}
    near: dict[str, bool] = {}

    @property
    def wrong(self) -> list[Check]:
        """What is not as expected."""
        return [check for check in self.checks if not check.passed]

    @property
    def correct(self) -> bool | None:
        """None where nothing is expected."""
        return not self.wrong if self.checks else None


def judge(expected: Mapping[str, Any], result: Any, fields: Mapping[str, OutputField]) -> Verdict:
    """Every expected field against the result. A field that is missing is a mismatch."""
    checks: list[Check] = []
    bands: dict[str, tuple[str, str]] = {}
    near: dict[str, bool] = {}
    for name, given in expected.items():
        found = result.get(name, MISSING) if isinstance(result, dict) else MISSING
        field = fields.get(name)
        wanted = truth(given) if field is not None and field.type == "bool" else _stripped(given)
        actual = _like(wanted, found)
        checks += _checks(name, wanted, actual, field)
        if field is not None and field.bands:
            bands[name] = band(field, wanted), band(field, actual)
        if fits(wanted, "float"):
            near[name] = _within(wanted, actual, 1)
    return Verdict(checks, bands, near)


def _checks(name: str, wanted: Any, actual: Any, field: OutputField | None) -> list[Check]:
    if actual is MISSING:
        return [Check(name, "missing", passed=False, expected=wanted, why="the result has no such field")]
    if field is not None and field.compare == "bands":
        one, two = band(field, wanted), band(field, actual)
        why = "" if one == two and one != OUTSIDE else f"expected {one}, found {two}"
        return [Check(name, "bands", not why, wanted, actual, why)]
    if field is not None and field.compare == "within":
        near = _within(wanted, actual, field.within or 0)
        why = "" if near else f"{actual!r} is not within {field.within or 0:g} of {wanted!r}"
        return [Check(name, "within", near, wanted, actual, why)]
    return compare(_plain(wanted), actual, _matching(field), name)


def _matching(field: OutputField | None) -> Matching:
    if field is None or field.compare != "tolerance":
        return _EXACTLY
    return Matching(tolerance=field.tolerance or 0.0)


def _stripped(value: Any) -> Any:
    """Texts are compared without the space around them, at any depth."""
    if isinstance(value, str):
        return value.strip()
    if isinstance(value, dict):
        return {key: _stripped(item) for key, item in value.items()}
    return [_stripped(item) for item in value] if isinstance(value, list) else value


def _plain(value: Any) -> Any:
    """A text that begins like a rule of other testsets (`contains:` …) is a plain text here."""
    if isinstance(value, str):
        return f"equals:{value}"
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return [_plain(item) for item in value] if isinstance(value, list) else value


def truth(value: Any) -> Any:
    """A truth that is written as a text, as the text means it; every other value as `_stripped` has it."""
    text = _stripped(value)
    return _TRUTHS.get(text.lower(), text) if isinstance(text, str) else text


def _like(wanted: Any, actual: Any) -> Any:
    """An operator says truths as texts: "True" is true where a truth is expected."""
    if isinstance(actual, str):
        return truth(actual) if isinstance(wanted, bool) else actual.strip()
    if isinstance(wanted, dict) and isinstance(actual, dict):
        return {key: _like(wanted.get(key), value) for key, value in actual.items()}
    if isinstance(wanted, list) and isinstance(actual, list) and len(wanted) == len(actual):
        return list(map(_like, wanted, actual))
    return actual


def _within(wanted: Any, actual: Any, most: float) -> bool:
    """Whether two numbers are at most so far apart; what is no number is far from everything."""
    return fits(wanted, "float") and fits(actual, "float") and same_number(wanted, actual, most)


def band(field: OutputField, value: Any) -> str:
    """The name of the band that holds a value."""
    return (None if value is MISSING else field.band_of(value)) or OUTSIDE
