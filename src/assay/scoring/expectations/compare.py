"""Compares an output with its expectation, leaf by leaf, in the order of the expectation."""

from __future__ import annotations

from typing import Any

from assay.scoring.expectations.checks import MISSING, Check
from assay.scoring.expectations.matching import Matching, is_number, number_why, same_number
from assay.scoring.expectations.paths import below
from assay.scoring.expectations.prefixes import prefixed
from assay.scoring.expectations.texts import container, counted, listed, shown, unequal
from assay.scoring.json_text import read_json

# The results of a check by name, since a bare True says little.
_PASSED, _FAILED = True, False


def compare(expected: Any, actual: Any, matching: Matching, path: str = "") -> list[Check]:
    """One check for every leaf of the expectation, and in strict mode for every key it does not have.

    Lists have the same length and order in both modes. `path` is where the compared value stands.
    """
    comparison = _Comparison(matching)
    try:
        comparison.value(expected, actual, path, "")
    except RecursionError:  # the values are left out: what is this deep cannot be written either
        return [Check(path, "type", _FAILED, why="it is nested too deeply to be compared")]
    return comparison.checks


class _Comparison:
    """Gathers the checks of one expectation. A trail is a path as `ignore` has it: names without indexes."""

    __slots__ = ("checks", "matching")

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.checks: list[Check] = []

    def value(self, expected: Any, actual: Any, path: str, trail: str) -> None:
        if isinstance(expected, str) and actual == expected and ":" not in expected:  # most leaves, and fast
            self.checks.append(Check(path, "equal", _PASSED, expected, actual))
        elif isinstance(expected, dict):
            self._object(expected, actual, path, trail)
        elif actual is MISSING:
            self._fail(path, "missing", expected, MISSING, "there is nothing to compare")
        elif isinstance(expected, list):
            self._list(expected, actual, path, trail)
        elif isinstance(expected, str):
            self.checks.append(prefixed(expected, actual, path) or _text(expected, actual, path))
        else:
            self.checks.append(_scalar(expected, actual, path, self.matching.tolerance))

    def _object(self, expected: dict[str, Any], actual: Any, path: str, trail: str) -> None:
        wanted, before = self._heeded(expected, trail), len(self.checks)
        if self._says_nothing(expected, wanted):
            self._nothing(actual, path)
            return
        actual = self._read(actual)
        if not isinstance(actual, dict):
            self._wrong_type(expected, actual, path)
            return
        self._keys(wanted, actual, path, trail)
        if self.matching.strict:
            self._extra(wanted, actual, path, trail)
        if len(self.checks) == before and expected:
            self._nothing(actual, path)
        elif len(self.checks) == before:
            self.checks.append(Check(path, "equal", _PASSED, expected, actual))

    def _keys(self, wanted: dict[str, Any], actual: dict[str, Any], path: str, trail: str) -> None:
        for key, value in wanted.items():
            place = below(path, key)
            names = f"{trail}.{key}" if trail else key
            if key in actual:
                self.value(value, actual[key], place, names)
            elif isinstance(value, dict) and self._says_nothing(value, self._heeded(value, names)):
                self._nothing(MISSING, place)
            else:
                self._missing(value, actual, place)

    def _says_nothing(self, expected: dict[str, Any], wanted: dict[str, Any]) -> bool:
        """Everything in it is ignored. In lenient mode such an object need not even be there."""
        return bool(expected) and not wanted and not self.matching.strict

    def _missing(self, value: Any, actual: dict[str, Any], path: str) -> None:
        why = (
            f"the key is missing; there are: {listed(actual)}"
            if actual
            else "the key is missing; there is none"
        )
        self._fail(path, "missing", value, MISSING, why)

    def _extra(self, wanted: dict[str, Any], actual: dict[str, Any], path: str, trail: str) -> None:
        for key, value in self._heeded(actual, trail).items():
            if key not in wanted:
                why = f"the key is not expected; strict mode wants only: {listed(wanted) or 'no key'}"
                self._fail(below(path, key), "extra", MISSING, value, why)

    def _list(self, expected: list[Any], actual: Any, path: str, trail: str) -> None:
        actual = self._read(actual)
        if not isinstance(actual, (list, tuple)):
            self._wrong_type(expected, actual, path)
        elif len(expected) != len(actual):
            why = f"expected {counted(len(expected), 'item')}, found {len(actual)}"
            self._fail(path, "length", expected, actual, why)
        elif not expected:
            self.checks.append(Check(path, "equal", _PASSED, expected, actual))
        else:
            for at, value in enumerate(expected):
                self.value(value, actual[at], f"{path}[{at}]", trail)

    def _read(self, actual: Any) -> Any:
        """Lenient mode reads JSON that a model wrote as text; what cannot be read stays a text."""
        if not isinstance(actual, str) or self.matching.strict:
            return actual
        try:
            read = read_json(actual)
        except ValueError:
            return actual
        return read if isinstance(read, (dict, list)) else actual

    def _unread(self, actual: str) -> str:
        if self.matching.strict:
            return "strict mode reads no JSON out of text"
        try:
            read_json(actual)
        except ValueError as error:
            return f"it is no JSON ({error})"
        return "as JSON it is neither an object nor a list"

    def _wrong_type(self, expected: dict[str, Any] | list[Any], actual: Any, path: str) -> None:
        if actual is MISSING:
            self._fail(path, "missing", expected, MISSING, "there is nothing to compare")
            return
        why = f"expected {container(expected)}, found "
        if isinstance(actual, str):
            why += f"the text {shown(actual)}; {self._unread(actual)}"
        else:
            why += container(actual) if isinstance(actual, (dict, list, tuple)) else shown(actual)
        self._fail(path, "type", expected, actual, why)

    def _heeded(self, value: dict[str, Any], trail: str) -> dict[str, Any]:
        ignore = self.matching.ignore
        if not ignore:
            return value
        return {
            key: item
            for key, item in value.items()
            if key not in ignore and not (trail and f"{trail}.{key}" in ignore)
        }

    def _nothing(self, actual: Any, path: str) -> None:
        why = "every expected field is ignored: nothing was compared"
        self.checks.append(Check(path, "nothing", _PASSED, MISSING, actual, why))

    def _fail(self, path: str, kind: str, expected: Any, actual: Any, why: str) -> None:
        self.checks.append(Check(path, kind, _FAILED, expected, actual, why))


def _text(expected: str, actual: Any, path: str) -> Check:
    """Exactly the same text, in both modes."""
    if isinstance(actual, str) and actual == expected:
        return Check(path, "equal", _PASSED, expected, actual)
    kind = "type" if isinstance(actual, (dict, list, tuple)) else "equal"
    return Check(path, kind, _FAILED, expected, actual, unequal(expected, actual))


def _scalar(expected: Any, actual: Any, path: str, tolerance: float) -> Check:
    """Numbers, true, false and null: 5 is 5.0, and true is not 1."""
    if is_number(expected) and is_number(actual):
        passed = same_number(expected, actual, tolerance)
        why = "" if passed else number_why(expected, actual, tolerance)
        return Check(path, "equal", passed, expected, actual, why)
    if type(expected) is type(actual) and expected == actual:
        return Check(path, "equal", _PASSED, expected, actual)
    kind = "type" if isinstance(actual, (dict, list, tuple)) else "equal"
    return Check(path, kind, _FAILED, expected, actual, unequal(expected, actual))
