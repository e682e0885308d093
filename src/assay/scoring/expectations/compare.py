"""Compares an output with its expectation, leaf by leaf, in the order of the expectation.

`Matching` has the options of the comparison (`strict_mode`, `tolerance`, `ignore_fields`). A prefix of an expected
text selects another check than equality: `contains:`, `regex:`, `judge:` or the name of a rule. `equals:` means the
rest of the text literally; it is for texts that begin with one of these words.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Collection, Iterator
from functools import lru_cache
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

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
from assay.scoring.expectations.rules import Rule, rule_problem, rule_value, rule_verdict
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

# Relative rounding errors that count as equal: of the two numbers (a float has about 1.1e-16) and of the tolerance.
_NOISE = 1e-15
_TOLERANCE_NOISE = 1e-9
# Named, because a bare True as an argument says little.
_PASSED, _FAILED = True, False


class Matching(Struct, frozen=True):
    """Options of a comparison.

    By default the output may have more keys than the expectation, and JSON inside a text is parsed. With
    `strict` the keys must be the same, and texts are not parsed. A name in `ignore` applies at any depth; a
    dotted name is a path from the root without list indexes. A name with a dot before it is a key of the root.
    """

    strict: bool = False
    tolerance: float = 0.0
    ignore: frozenset[str] = frozenset()

    def within(self, names: Collection[str], *values: Any) -> Matching:
        """Return the options for a value that has these names, so that paths may begin with one of them.

        Such a path is not changed if one of the values has a key of that name: it then begins with the key.
        """
        keys = {key for value in values if isinstance(value, dict) for key in value}
        added = set()
        for path in self.ignore:
            name, _, rest = path.partition(".")
            if rest and name in names and name not in keys:
                added.add(rest if "." in rest else f".{rest}")
        return replace(self, ignore=self.ignore | added) if added else self

    def below(self, *values: Any) -> Matching:
        """Return the options for objects of named values, so that paths may also begin inside of any of them."""
        keys = {key for value in values if isinstance(value, dict) for key in value}
        paths = [path for path in self.ignore if "." in path and path.partition(".")[0] not in keys]
        return (
            replace(self, ignore=self.ignore | {f"{key}.{path}" for key in keys for path in paths}) if paths else self
        )


def compare(expected: Any, actual: Any, matching: Matching, path: str = "") -> list[Check]:
    """Return one check for every leaf of the expectation, and in strict mode for every unexpected key.

    Lists must have the same length and order in both modes. `path` is the path of the compared value.
    """
    comparison = _JsonComparison(matching)
    try:
        comparison.value(expected, actual, path, "")
    except RecursionError:  # the values are left out, because they could not be written as JSON either
        return [Check(path, "type", _FAILED, why="it is nested too deeply to be compared")]
    return comparison.checks


class _JsonComparison:
    """Collects the checks of one expectation. A `trail` is a path without list indexes, as in `ignore`."""

    __slots__ = ("checks", "matching")

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.checks: list[Check] = []

    def value(self, expected: Any, actual: Any, path: str, trail: str) -> None:
        if isinstance(expected, str) and actual == expected and ":" not in expected:  # fast path for most leaves
            self.checks.append(Check(path, "equal", _PASSED, expected, actual))
        elif isinstance(expected, dict):
            self._object(expected, actual, path, trail)
        elif actual is MISSING:
            self._fail(path, "missing", expected, MISSING, "the output has no such value")
        elif isinstance(expected, list):
            self._list(expected, actual, path, trail)
        elif isinstance(expected, str):
            self.checks.append(prefix_check(expected, actual, path) or _text(expected, actual, path))
        else:
            self.checks.append(_scalar(expected, actual, path, self.matching.tolerance))

    def _object(self, expected: dict[str, Any], actual: Any, path: str, trail: str) -> None:
        wanted = self._without_ignored(expected, trail)
        count_before = len(self.checks)
        if self._is_all_ignored(expected, wanted):
            self._add_ignored(actual, path)
            return
        actual = self._parse_text(actual)
        if not isinstance(actual, dict):
            self._wrong_type(expected, actual, path)
            return
        self._compare_keys(wanted, actual, path, trail)
        if self.matching.strict:
            self._refuse_extra_keys(wanted, actual, path, trail)
        if len(self.checks) == count_before and expected:
            self._add_ignored(actual, path)
        elif len(self.checks) == count_before:
            self.checks.append(Check(path, "equal", _PASSED, expected, actual))

    def _compare_keys(self, wanted: dict[str, Any], actual: dict[str, Any], path: str, trail: str) -> None:
        for key, value in wanted.items():
            key_path = child_path(path, key)
            key_trail = f"{trail}.{key}" if trail else key
            if key in actual:
                self.value(value, actual[key], key_path, key_trail)
            elif isinstance(value, dict) and self._is_all_ignored(value, self._without_ignored(value, key_trail)):
                self._add_ignored(MISSING, key_path)
            else:
                self._add_missing(value, actual, key_path)

    def _is_all_ignored(self, expected: dict[str, Any], wanted: dict[str, Any]) -> bool:
        """Return whether all keys of an object are ignored. Without `strict` it may then be missing."""
        return bool(expected) and not wanted and not self.matching.strict

    def _add_missing(self, value: Any, actual: dict[str, Any], path: str) -> None:
        why = f"the key is missing; there are: {name_list(actual)}" if actual else "the key is missing; there is none"
        self._fail(path, "missing", value, MISSING, why)

    def _refuse_extra_keys(self, wanted: dict[str, Any], actual: dict[str, Any], path: str, trail: str) -> None:
        for key, value in self._without_ignored(actual, trail).items():
            if key not in wanted:
                why = f"the key is not expected; strict mode allows only: {name_list(wanted) or 'no key'}"
                self._fail(child_path(path, key), "extra", MISSING, value, why)

    def _list(self, expected: list[Any], actual: Any, path: str, trail: str) -> None:
        actual = self._parse_text(actual)
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

    def _parse_text(self, actual: Any) -> Any:
        """Return the object or list that a model wrote as JSON text. Other values are returned unchanged."""
        if not isinstance(actual, str) or self.matching.strict:
            return actual
        try:
            parsed = read_json(actual)
        except ValueError:
            return actual
        return parsed if isinstance(parsed, (dict, list)) else actual

    def _why_not_parsed(self, actual: str) -> str:
        if self.matching.strict:
            return "strict mode does not parse texts as JSON"
        try:
            read_json(actual)
        except ValueError as error:
            return f"it is not JSON ({error})"
        return "as JSON it is neither an object nor a list"

    def _wrong_type(self, expected: dict[str, Any] | list[Any], actual: Any, path: str) -> None:
        if actual is MISSING:
            self._fail(path, "missing", expected, MISSING, "the output has no such value")
            return
        why = f"expected {container_text(expected)}, found "
        if isinstance(actual, str):
            why += f"the text {short_text(actual)}; {self._why_not_parsed(actual)}"
        else:
            why += container_text(actual) if isinstance(actual, (dict, list, tuple)) else short_text(actual)
        self._fail(path, "type", expected, actual, why)

    def _without_ignored(self, value: dict[str, Any], trail: str) -> dict[str, Any]:
        ignore = self.matching.ignore
        if not ignore:
            return value
        return {key: item for key, item in value.items() if key not in ignore and f"{trail}.{key}" not in ignore}

    def _add_ignored(self, actual: Any, path: str) -> None:
        why = "every expected field is ignored: nothing was compared"
        self.checks.append(Check(path, "nothing", _PASSED, MISSING, actual, why))

    def _fail(self, path: str, kind: str, expected: Any, actual: Any, why: str) -> None:
        self.checks.append(Check(path, kind, _FAILED, expected, actual, why))


def _text(expected: str, actual: Any, path: str) -> Check:
    """Compare texts. They must be exactly equal in both modes."""
    if isinstance(actual, str) and actual == expected:
        return Check(path, "equal", _PASSED, expected, actual)
    kind = "type" if isinstance(actual, (dict, list, tuple)) else "equal"
    return Check(path, kind, _FAILED, expected, actual, unequal(expected, actual))


def _scalar(expected: Any, actual: Any, path: str, tolerance: float) -> Check:
    """Compare numbers, true, false and null. 5 equals 5.0, and true does not equal 1."""
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
    """Return the check that the prefix of an expected text selects, or None if it has no prefix."""
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
    follows, why = rule_verdict(rule, actual, path)
    return Check(path, word, follows, rest if word == "contains" else rule_value(rule), actual, why)


def expectation_problems(expected: Any, path: str = "") -> list[tuple[str, str]]:
    """Return (path, message) of every prefix that cannot be used, such as `max_chars:many`."""
    return list(_prefix_problems(expected, path))


def _prefix_problems(expected: Any, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(expected, str):
        word, colon, rest = expected.partition(":")
        if colon and word in PREFIXES and (message := _prefix_problem(word, rest)):
            yield path, f"{message}. To expect this text literally, write `{EQUALS}:{word}:…`"
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
        return f"{word}: the value after the colon is missing"
    problem = rule_problem(_prefix_rule(word, rest))
    return f"{word}: {problem}" if problem else ""


@lru_cache(maxsize=4096)
def _prefix_rule(word: str, rest: str) -> Rule:
    """Return the rule of a prefix. An invalid value stays a text; `rule_problem` reports it."""
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
    """Read the three fields about comparing from `evaluation_config`. Other fields concern the suite."""
    for path, message in matching_problems(evaluation_config):
        raise UsageError(f"{path}: {message}")
    return Matching(
        strict=bool(evaluation_config.get("strict_mode")),
        tolerance=float(evaluation_config.get("tolerance") or 0.0),
        ignore=frozenset(evaluation_config.get("ignore_fields") or ()),
    )


def matching_problems(evaluation_config: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (path, message) of all problems in these fields. Null counts as not set."""
    problems = []
    strict, tolerance = evaluation_config.get("strict_mode"), evaluation_config.get("tolerance")
    if strict is not None and not isinstance(strict, bool):
        problems.append(("strict_mode", f"expected true or false, found {strict!r}"))
    if tolerance is not None and not (is_number(tolerance) and 0 <= tolerance <= sys.float_info.max):
        problems.append(("tolerance", f"expected a number of at least 0, found {tolerance!r}"))
    return problems + _ignore_problems(evaluation_config.get("ignore_fields"))


def _ignore_problems(names: Any) -> list[tuple[str, str]]:
    if names is None:
        return []
    if not isinstance(names, (list, tuple)):
        return [("ignore_fields", f"expected a list of names, found {names!r}")]
    return [
        (
            f"ignore_fields[{index}]",
            "expected a name such as `timestamp`, or a path without indexes such as `items.timestamp`",
        )
        for index, name in enumerate(names)
        if not isinstance(name, str) or not name.strip() or "[" in name
    ]


def is_number(value: Any) -> bool:
    """Return whether the value is a number. True and false are not."""
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def same_number(expected: float, actual: float, tolerance: float) -> bool:
    """Return whether two numbers differ by at most the tolerance. Without a tolerance they must be equal.

    0.90 is within 0.05 of 0.85, although the difference of the floats is slightly larger: rounding errors are
    allowed. The allowance is proportional to the numbers, so that milliseconds since 1970 remain distinct. NaN
    equals nothing.
    """
    if expected == actual:
        return True
    if not tolerance:
        return False
    try:
        difference = abs(expected - actual)
        is_float = isinstance(difference, float)
        slack = _NOISE * max(abs(expected), abs(actual)) if is_float else 0.0
    except OverflowError:  # an integer beyond every float
        return False
    return difference < math.inf and difference <= tolerance * (1 + _TOLERANCE_NOISE) + slack


def number_why(expected: float, actual: float, tolerance: float) -> str:
    """Return the message for two different numbers. It suggests a tolerance if they are nearly equal."""
    if tolerance:
        return f"{actual} differs from {expected} by more than {tolerance}"
    if isinstance(actual, float) and same_number(expected, actual, 1e-9 * abs(actual)):
        return f"expected {expected}, found {actual}; set a tolerance to allow rounding errors"
    return f"expected {expected}, found {actual}"
