"""Compares an output with its expectation, leaf by leaf, in the order of the expectation.

`Matching` says how closely (`strict_mode`, `tolerance`, `ignore_fields`). An expected text may say by a prefix how
to compare: `contains:`, `regex:`, `judge:` and the names of rules; `equals:` takes what follows literally, for
texts that begin with one of these words.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct

from assay.core.errors import UsageError
from assay.scoring.expectations.checks import (
    MISSING,
    Check,
    child_path,
    container_text,
    counted,
    name_list,
    short_text,
    unequal,
)
from assay.scoring.expectations.rules import Rule, rule_problem, rule_value, rule_violation
from assay.scoring.json_text import read_json

EQUALS, JUDGE = "equals", "judge"
RULES = frozenset(
    {
        "contains",
        "regex",
        "max_chars",
        "non_empty",
        "allowed_values",
        "contains_any",
        "starts_with",
        "ends_with",
    }
)
PREFIXES = RULES | {EQUALS, JUDGE}

# Half a unit in the last place of two numbers and of the tolerance, with room to spare.
_NOISE = 1e-15
_TOLERANCE_NOISE = 1e-9
# The results of a check by name, since a bare True says little.
_PASSED, _FAILED = True, False


class Matching(Struct, frozen=True):
    """Lenient: the expectation is part of the output. Strict: the same keys, and nothing is read out of text.

    A bare name in `ignore` holds at any depth, a dotted one is a path from the root without list indexes.
    """

    strict: bool = False
    tolerance: float = 0.0
    ignore: frozenset[str] = frozenset()


def compare(expected: Any, actual: Any, matching: Matching, path: str = "") -> list[Check]:
    """One check for every leaf of the expectation, and in strict mode for every key it does not have.

    Lists have the same length and order in both modes. `path` is where the compared value stands.
    """
    comparison = _JsonComparison(matching)
    try:
        comparison.value(expected, actual, path, "")
    except RecursionError:  # the values are left out: what is this deep cannot be written either
        return [Check(path, "type", _FAILED, why="it is nested too deeply to be compared")]
    return comparison.checks


class _JsonComparison:
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
            self.checks.append(prefix_check(expected, actual, path) or _text(expected, actual, path))
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
            place = child_path(path, key)
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
            f"the key is missing; there are: {name_list(actual)}"
            if actual
            else "the key is missing; there is none"
        )
        self._fail(path, "missing", value, MISSING, why)

    def _extra(self, wanted: dict[str, Any], actual: dict[str, Any], path: str, trail: str) -> None:
        for key, value in self._heeded(actual, trail).items():
            if key not in wanted:
                why = f"the key is not expected; strict mode wants only: {name_list(wanted) or 'no key'}"
                self._fail(child_path(path, key), "extra", MISSING, value, why)

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
            for index, value in enumerate(expected):
                self.value(value, actual[index], f"{path}[{index}]", trail)

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
        why = f"expected {container_text(expected)}, found "
        if isinstance(actual, str):
            why += f"the text {short_text(actual)}; {self._unread(actual)}"
        else:
            why += container_text(actual) if isinstance(actual, (dict, list, tuple)) else short_text(actual)
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


# Prefixes of expected texts.


def prefix_check(expected: str, actual: Any, path: str) -> Check | None:
    """The check that the prefix asks for; None where the text has none and is itself what is expected."""
    word, colon, rest = expected.partition(":")
    if not colon or word not in PREFIXES:
        return None
    if word == EQUALS:
        passed = isinstance(actual, str) and actual == rest
        return Check(path, "equal", passed, rest, actual, "" if passed else unequal(rest, actual))
    if why := _prefix_problem(word, rest):
        return Check(path, word, passed=False, expected=rest, actual=actual, why=why)
    if word == JUDGE:
        return Check(path, JUDGE, None, rest.strip(), actual)
    rule = _prefix_rule(word, rest)
    why = rule_violation(rule, actual)
    return Check(path, word, not why, rest if word == "contains" else rule_value(rule), actual, why)


def expectation_problems(expected: Any, path: str = "") -> list[tuple[str, str]]:
    """(path, message) of every prefix that cannot be used, such as a bad pattern or a limit in words."""
    return list(_prefix_problems(expected, path))


def _prefix_problems(expected: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(expected, str):
        word, colon, rest = expected.partition(":")
        if colon and word in PREFIXES and (message := _prefix_problem(word, rest)):
            yield path, f"{message}; a text that begins like this is written `{EQUALS}:{word}:…`"
    elif isinstance(expected, dict):
        for key, value in expected.items():
            yield from _prefix_problems(value, child_path(path, key))
    elif isinstance(expected, list):
        for index, value in enumerate(expected):
            yield from _prefix_problems(value, f"{path}[{index}]")


def _prefix_problem(word: str, rest: str) -> str:
    if word == EQUALS or (word == JUDGE and rest.strip()):
        return ""
    if not rest.strip() and word != "non_empty":
        return f"{word}: something is needed after the colon"
    problem = rule_problem(_prefix_rule(word, rest))
    return f"{word}: {problem}" if problem else ""


@lru_cache(maxsize=4096)
def _prefix_rule(word: str, rest: str) -> Rule:
    """What cannot be read as a value is left as it is: `rule_problem` names it."""
    if word == "contains":
        return Rule("contains_any", (rest,))
    if word == "regex":
        return Rule("regex_match", rest)
    if word in ("allowed_values", "contains_any"):
        return Rule(word, tuple(value.strip() for value in rest.split("|")))
    if word == "non_empty":
        return Rule(word, rest.strip() or None)
    return Rule(word, _number(rest.strip()) if word == "max_chars" else rest)


def _number(text: str) -> int | str:
    return int(text) if text.isdecimal() and len(text) < 19 else text


# `evaluation_config` of a testset, and numbers.


def matching_of(evaluation_config: dict[str, Any]) -> Matching:
    """The three fields that say how to compare; the others belong to whoever runs the comparison."""
    for path, message in matching_problems(evaluation_config):
        raise UsageError(f"{path}: {message}")
    return Matching(
        strict=bool(evaluation_config.get("strict_mode")),
        tolerance=float(evaluation_config.get("tolerance") or 0.0),
        ignore=frozenset(evaluation_config.get("ignore_fields") or ()),
    )


def matching_problems(evaluation_config: dict[str, Any]) -> list[tuple[str, str]]:
    """What is wrong with these fields; null is the same as leaving one out."""
    problems = []
    strict, tolerance = evaluation_config.get("strict_mode"), evaluation_config.get("tolerance")
    if strict is not None and not isinstance(strict, bool):
        problems.append(("strict_mode", f"true or false, not {strict!r}"))
    if tolerance is not None and not (is_number(tolerance) and 0 <= tolerance <= sys.float_info.max):
        problems.append(("tolerance", f"a number that is not negative, not {tolerance!r}"))
    return problems + _ignore_problems(evaluation_config.get("ignore_fields"))


def _ignore_problems(names: Any) -> list[tuple[str, str]]:
    if names is None:
        return []
    if not isinstance(names, (list, tuple)):
        return [("ignore_fields", f"a list of names, not {names!r}")]
    return [
        (
            f"ignore_fields[{index}]",
            "a name such as `timestamp`, or a path without indexes: `items.timestamp`",
        )
        for index, name in enumerate(names)
        if not isinstance(name, str) or not name.strip() or "[" in name
    ]


def is_number(value: Any) -> bool:
    """True and false are no numbers."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def same_number(expected: float, actual: float, tolerance: float) -> bool:
    """Inclusive: 0.90 is within 0.05 of 0.85, although the difference of the floats is a little more.

    Without a tolerance only equal numbers are the same; NaN never is. The slack grows with the size of the
    numbers as their rounding does and no faster, so that milliseconds since 1970 are told apart.
    """
    if expected == actual:
        return True
    if not tolerance:
        return False
    try:
        difference = abs(expected - actual)
        rounded = isinstance(difference, float)
        slack = _NOISE * max(abs(expected), abs(actual)) if rounded else 0.0
    except OverflowError:  # an integer beyond every float
        return False
    return difference < math.inf and difference <= tolerance * (1 + _TOLERANCE_NOISE) + slack


def number_why(expected: float, actual: float, tolerance: float) -> str:
    """The sentence for two numbers that are not the same."""
    if tolerance:
        return f"{actual} differs from {expected} by more than {tolerance}"
    if isinstance(actual, float) and same_number(expected, actual, 1e-9 * abs(actual)):
        return f"expected {expected}, found {actual}; for numbers that are rounded set a tolerance"
    return f"expected {expected}, found {actual}"
