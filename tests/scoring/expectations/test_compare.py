"""Each rule of comparing, as a table of expectation, output and what the checks say."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest

from assay.scoring.expectations import MISSING, Check, Matching, compare, verdict

LENIENT, STRICT = Matching(), Matching(strict=True)
RIGHT, WRONG = True, False
NOT_READ = "expected an object with 1 key: a, found the text "
BOTH = pytest.mark.parametrize("matching", [LENIENT, STRICT], ids=["lenient", "strict"])


def within(tolerance: float, *, strict: bool = False) -> Matching:
    return Matching(strict=strict, tolerance=tolerance)


def without(*names: str, strict: bool = False) -> Matching:
    return Matching(strict=strict, ignore=frozenset(names))


def said(expected: Any, actual: Any, matching: Matching = LENIENT) -> list[tuple[str, str, bool | None, str]]:
    return [(c.path, c.kind, c.passed, c.why) for c in compare(expected, actual, matching)]


def passes(expected: Any, actual: Any, matching: Matching = LENIENT) -> bool | None:
    return verdict(compare(expected, actual, matching))


def test_a_check_says_where_what_and_why() -> None:
    """Checks stand in the order of the expectation, each with both values, whole."""
    long = "x" * 5000
    assert compare({"b": "positive", "a": {"c": [1, 2]}}, {"a": {"c": [1, 3]}, "b": long}, LENIENT, "out") == [
        Check("out.b", "equal", WRONG, "positive", long, f"expected 'positive', found '{'x' * 79}…"),
        Check("out.a.c[0]", "equal", RIGHT, 1, 1),
        Check("out.a.c[1]", "equal", WRONG, 2, 3, "expected 2, found 3"),
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "lenient", "strict"),
    [
        ({"a": 1}, {"a": 1, "b": 2}, True, False),
        ({"a": {"x": 1}}, {"a": {"x": 1, "y": 2}}, True, False),
        ([{"a": 1}], [{"a": 1, "b": 2}], True, False),
        ({}, {"a": 1}, True, False),
        ({}, {}, True, True),
        ([], [], True, True),
        ([], [1], False, False),
        ([1, 2], [2, 1], False, False),
        ([1, 2], [1, 2, 3], False, False),
        ([1, 2, 3], [1, 2], False, False),
        ({"a": 1, "b": 2}, {"a": 1}, False, False),
        ({"a": None}, {}, False, False),
        ({"a": None}, {"a": None}, True, True),
        ({"a": 1}, '{"a": 1}', True, False),
        ({"a": 1}, '{"a": 1, "b": 2}', True, False),
        ({"a": 1}, '```json\n{"a": 1}\n```', True, False),
        ([1], " [1]\n", True, False),
        ({"a": {"b": 1}}, {"a": '{"b": 1}'}, True, False),
        ({"a": 1}, 'Here it is: {"a": 1}', False, False),
        ({"a": 1}, '{"a": 2, "a": 1}', False, False),
        ({"a": 1}, "5", False, False),
        ({"a": 1}, [1], False, False),
        ({"a": 1}, 5, False, False),
        ("a", "a ", False, False),
        ("a", "A", False, False),
        ("5", 5, False, False),
        (5, "5", False, False),
        ("positive", {"sentiment": "positive"}, False, False),
        ('{"a": 1}', {"a": 1}, False, False),
        ('{"a": 1}', '{"a":1}', False, False),
        (True, 1, False, False),
        (1, True, False, False),
        (0, False, False, False),
        (True, True, True, True),
        (False, None, False, False),
        (5, 5.0, True, True),
        (5.0, 5, True, True),
        (10**400, 1.5, False, False),
        (math.nan, math.nan, False, False),
        (math.inf, math.inf, True, True),
        ("a: b", "a: b", True, True),
        ([1, 2], (1, 2), True, True),
    ],
)
def test_lenient_and_strict(expected: Any, actual: Any, lenient: bool, strict: bool) -> None:
    """Lenient mode allows more keys and parses JSON text. Strict mode requires the same keys and parses nothing."""
    assert passes(expected, actual, LENIENT) is lenient
    assert passes(expected, actual, STRICT) is strict


@pytest.mark.parametrize(
    ("expected", "actual", "matching", "check"),
    [
        ({"c": 1}, {"a": 1, "b": 2}, LENIENT, ("c", "missing", "the key is missing; there are: a, b")),
        ({"c": 1}, {}, LENIENT, ("c", "missing", "the key is missing; there is none")),
        ({"c": 1}, MISSING, LENIENT, ("", "missing", "the output has no such value")),
        ("c", MISSING, STRICT, ("", "missing", "the output has no such value")),
        ("judge: nice", MISSING, LENIENT, ("", "missing", "the output has no such value")),
        ({"a": [1, 2, 3]}, {"a": [1, 2]}, LENIENT, ("a", "length", "expected 3 items, found 2")),
        ([1], [], LENIENT, ("", "length", "expected 1 item, found 0")),
        ({}, {"b": 1}, STRICT, ("b", "extra", "the key is not expected; strict mode allows only: no key")),
        (5, "5", LENIENT, ("", "equal", "expected 5, found the text '5'")),
        (True, 1, LENIENT, ("", "equal", "expected true, found 1")),
        (0.85, 0.9, within(0.01), ("", "equal", "0.9 differs from 0.85 by more than 0.01")),
        (
            0.3,
            0.1 + 0.2,
            LENIENT,
            (
                "",
                "equal",
                "expected 0.3, found 0.30000000000000004; set a tolerance to allow rounding errors",
            ),
        ),
        (
            "positive",
            {"sentiment": "positive"},
            LENIENT,
            ("", "type", "expected 'positive', found an object with 1 key: sentiment"),
        ),
        (5, [5], LENIENT, ("", "type", "expected 5, found a list of 1 item")),
        (
            {"a": 1},
            "yes",
            LENIENT,
            (
                "",
                "type",
                NOT_READ + "'yes'; it is not JSON (Expecting value: line 1 column 1 (char 0))",
            ),
        ),
        (
            {"a": 1},
            '{"a": 1}',
            STRICT,
            (
                "",
                "type",
                NOT_READ + "'{\"a\": 1}'; strict mode does not parse texts as JSON",
            ),
        ),
        (
            [1],
            "5",
            LENIENT,
            (
                "",
                "type",
                "expected a list of 1 item, found the text '5'; as JSON it is neither an object nor a list",
            ),
        ),
        ([1], {"a": 1}, LENIENT, ("", "type", "expected a list of 1 item, found an object with 1 key: a")),
        ([1], 7, LENIENT, ("", "type", "expected a list of 1 item, found 7")),
    ],
)
def test_a_failure_says_why(expected: Any, actual: Any, matching: Matching, check: tuple[str, str, str]) -> None:
    """One failed check, with a sentence that a person can act on."""
    path, kind, why = check
    assert said(expected, actual, matching) == [(path, kind, False, why)]


def test_long_lists_of_keys_are_cut() -> None:
    """A missing key among a hundred names eight of them."""
    [check] = compare({"x": 1}, {f"k{n}": n for n in range(100)}, LENIENT)
    assert check.why.endswith("k6, k7 and 92 more")


@BOTH
@pytest.mark.parametrize(
    ("expected", "actual", "tolerance", "passed"),
    [
        (0.85, 0.90, 0.05, True),
        (0.90, 0.85, 0.05, True),
        (1000000.2, 1000000.3, 0.1, True),
        (3, 3.5, 0.5, True),
        (5, 8, 3, True),
        (5, 9, 3, False),
        (0.85, 0.9001, 0.05, False),
        (-0.05, 0.0, 0.05, True),
        (0.0, 1e-12, 0.0, False),
        (0.1 + 0.2, 0.3, 0.0, False),
        (0.1 + 0.2, 0.3, 1e-9, True),
        (True, 1, 5.0, False),
        (1, True, 5.0, False),
        (math.nan, math.nan, 5.0, False),
        (math.nan, 1.0, 5.0, False),
        (math.inf, 1.0, 5.0, False),
        (math.inf, -math.inf, 5.0, False),
        (1e308, -1e308, 5.0, False),
        (10**400, 1.5, 5.0, False),
        (10**400, 10**400 + 1, 1.0, True),
        (10**17, 10**17 + 50, 1.0, False),
        (1731715200000.0, 1731715200500.0, 1.0, False),
        ("1", "2", 5.0, False),
    ],
    ids=lambda value: str(value)[:20],
)
def test_tolerance_is_absolute_and_inclusive(
    matching: Matching, expected: Any, actual: Any, tolerance: float, passed: bool
) -> None:
    """In both modes, for numbers only, with no more slack than floats need."""
    assert passes(expected, actual, within(tolerance, strict=matching.strict)) is passed


@BOTH
@pytest.mark.parametrize(
    ("names", "expected", "actual", "passed"),
    [
        (["ts"], {"a": 1, "ts": 1}, {"a": 1, "ts": 2}, True),
        (["ts"], {"a": 1, "ts": 1}, {"a": 1}, True),
        (["ts"], {"a": 1}, {"a": 1, "ts": 2}, True),
        (["ts"], {"a": {"b": [{"x": 1, "ts": 1}]}}, {"a": {"b": [{"x": 1, "ts": 2}]}}, True),
        (["items.ts"], {"items": [{"x": 1, "ts": 1}]}, {"items": [{"x": 1, "ts": 2}]}, True),
        (["items.ts"], {"items": [{"x": 1}]}, {"items": [{"x": 1, "ts": 2}]}, True),
        (["items.ts"], {"ts": 1}, {"ts": 2}, False),
        (["items.ts"], {"a": {"items": {"ts": 1}}}, {"a": {"items": {"ts": 2}}}, False),
        (["meta"], {"a": 1, "meta": {"x": 1}}, {"a": 1, "meta": {"x": 2}}, True),
        (["a.b"], {"a": {"b": {"c": 1}, "d": 1}}, {"a": {"b": {"c": 2}, "d": 1}}, True),
        (["a.b"], {"a.b": 1, "c": 1}, {"a.b": 2, "c": 1}, True),
        (["1"], {"a": [1, 2]}, {"a": [1, 3]}, False),
    ],
)
def test_ignored_fields(matching: Matching, names: list[str], expected: Any, actual: Any, passed: bool) -> None:
    """A bare name holds anywhere, a dotted one from the root, list indexes skipped; on both sides."""
    assert passes(expected, actual, without(*names, strict=matching.strict)) is passed


def test_ignored_paths_begin_at_the_compared_value() -> None:
    """Where the value stands in the case does not matter to `ignore_fields`."""
    checks = compare({"m": {"ts": 1, "x": 1}}, {"m": {"ts": 2, "x": 1}}, without("m.ts"), "steps.clean")
    assert [(check.path, check.passed) for check in checks] == [("steps.clean.m.x", True)]


@BOTH
def test_ignoring_everything_compares_nothing(matching: Matching) -> None:
    """It passes and says so."""
    nothing = "every expected field is ignored: nothing was compared"
    ignoring = without("a", strict=matching.strict)
    assert said({"a": 1}, {"a": 2}, ignoring) == [("", "nothing", True, nothing)]
    assert said({"m": {"a": 1}}, {"m": {"a": 2}}, ignoring) == [("m", "nothing", True, nothing)]


def test_an_object_with_only_ignored_keys_may_be_missing() -> None:
    """In lenient mode an object whose keys are all ignored may be missing. Strict mode requires the object."""
    strict = without("a", strict=True)
    for actual in (MISSING, "text", {"b": 1}):
        assert passes({"a": 1}, actual, without("a")) is True
        assert passes({"a": 1}, actual, strict) is False
    assert passes({"m": {"a": 1}}, {}, without("a")) is True
    assert passes({"m": {"a": 1}}, {}, strict) is False
    assert passes({"m": {"a": 1, "b": 1}}, {}, without("a")) is False


@pytest.mark.parametrize(
    ("key", "path"),
    [
        ("a", "a[0]"),
        ("a-b", "a-b[0]"),
        ("名", "名[0]"),
        ("1", "1[0]"),
        ("a.b", '["a.b"][0]'),
        ("a b", '["a b"][0]'),
        ('a"]', '["a\\"]"][0]'),
        ("", '[""][0]'),
    ],
)
def test_paths_are_unambiguous(key: str, path: str) -> None:
    """A key that would be read as something else stands in quotes."""
    assert said({key: [1]}, {key: [1]}) == [(path, "equal", True, "")]


@BOTH
def test_nesting_without_end_is_a_failed_check(matching: Matching) -> None:
    """A value that is nested too deeply fails its case and does not stop the run."""
    deep: Any = 1
    for _ in range(5000):
        deep = [deep]
    [check] = compare(deep, deep, matching)
    assert (check.kind, check.passed, check.why) == ("type", False, "it is nested too deeply to be compared")
    assert msgspec.json.decode(msgspec.json.encode(check), type=Check) == check
    assert passes({"a": 1}, "[" * 100_000, matching) is False


def test_a_check_is_kept_as_json() -> None:
    """JSON distinguishes null from a missing value, and keeps a check without a verdict."""
    checks = [
        Check("a", "missing", WRONG, None, MISSING, "the key is missing"),
        Check("b", "equal", RIGHT, None, None),
        Check("c", "judge", None, "kind", "text"),
    ]
    text = msgspec.json.encode(checks)
    assert text.startswith(b'[{"path":"a","kind":"missing","passed":false,"expected":null,"why":"the key')
    assert b'{"path":"c","kind":"judge","passed":null' in text
    assert msgspec.json.decode(text, type=list[Check]) == checks


@pytest.mark.parametrize(
    ("passed", "expected"),
    [
        ([], None),
        ([None], None),
        ([True, None], None),
        ([True], True),
        ([True, False, None], False),
        ([None, False], False),
    ],
)
def test_the_verdict(passed: list[bool | None], expected: bool | None) -> None:
    """One failed check fails the case. Without checks, or with a missing judge's verdict, the verdict is None."""
    assert verdict(Check("", "equal", value) for value in passed) is expected
