"""Expected texts with a prefix."""

from __future__ import annotations

from typing import Any

import pytest

from assay.scoring.expectations import Check, Matching, compare, expectation_problems
from assay.scoring.expectations.rules import SEARCHED


def one(expected: str, actual: Any, *, strict: bool = False) -> Check:
    [check] = compare(expected, actual, Matching(strict=strict))
    return check


@pytest.mark.parametrize("strict", [False, True])
@pytest.mark.parametrize(
    ("expected", "actual", "kind", "passed"),
    [
        ("contains:good", "a good day", "contains", True),
        ("contains:good", "a Good day", "contains", False),
        ("contains: good", "good day", "contains", False),
        ("contains:a|b", "a", "contains", False),
        ("contains:x", {"y": ["x"]}, "contains", True),
        ("contains:é", ["é"], "contains", True),
        ("contains:7", 175, "contains", True),
        ("regex:^[A-Z]+-\\d+$", "AB-12", "regex", True),
        ("regex:\\d", "none", "regex", False),
        ("regex:^12$", 12, "regex", True),
        ("equals:contains:x", "contains:x", "equal", True),
        ("equals:contains:x", "x", "equal", False),
        ("equals:", "", "equal", True),
        ("equals:5", 5, "equal", False),
        ("equals:equals:a", "equals:a", "equal", True),
        ("max_chars:3", "abc", "max_chars", True),
        ("max_chars: 3 ", "abcd", "max_chars", False),
        ("non_empty:", "x", "non_empty", True),
        ("non_empty:", " \n", "non_empty", False),
        ("non_empty:", [], "non_empty", False),
        ("non_empty:", None, "non_empty", False),
        ("non_empty:", 0, "non_empty", True),
        ("allowed_values:a|b | c", "c", "allowed_values", True),
        ("allowed_values:a|b", " b\n", "allowed_values", True),
        ("allowed_values:a|b", "ab", "allowed_values", False),
        ("allowed_values:1|2", 2, "allowed_values", True),
        ("allowed_values:a|", "", "allowed_values", True),
        ("contains_any:sorry | regret", "regret it", "contains_any", True),
        ("contains_any:sorry|regret", "no", "contains_any", False),
        ("starts_with:Dear ", "  Dear Ann", "starts_with", True),
        ("starts_with:Dear ", "Dearest", "starts_with", False),
        ("starts_with: Dear", "Dear Ann", "starts_with", True),
        ("ends_with:end.", "the end.\n", "ends_with", True),
        ("ends_with:end.", "the end", "ends_with", False),
        ("max_chars:3", "max_chars:3", "max_chars", False),
        ("regex:^x", "regex:^x", "regex", False),
        ("unknown:thing", "unknown:thing", "equal", True),
        ("Contains:x", "x", "equal", False),
        (" contains:x", "x", "equal", False),
    ],
)
def test_prefixes(expected: str, actual: Any, kind: str, passed: bool, *, strict: bool) -> None:
    """A prefix means the same in both modes; what has none is itself expected."""
    check = one(expected, actual, strict=strict)
    assert (check.kind, check.passed, bool(check.why)) == (kind, passed, not passed)
    assert check.actual == actual


def test_prefixes_hold_at_any_depth() -> None:
    """In objects and in lists alike."""
    expected = {"a": {"b": ["contains:x", {"c": "regex:^y"}]}, "d": "judge: is it kind?"}
    checks = compare(expected, {"a": {"b": ["axa", {"c": "zy"}]}, "d": "text"}, Matching())
    assert [(c.path, c.kind, c.expected, c.passed) for c in checks] == [
        ("a.b[0]", "contains", "x", True),
        ("a.b[1].c", "regex", "^y", False),
        ("d", "judge", "is it kind?", None),
    ]


@pytest.mark.parametrize(
    ("expected", "actual", "wanted", "why"),
    [
        ("contains:x", "abc", "x", "'x' is not in 'abc'"),
        ("regex:^x", "abc", "^x", "nothing in 'abc' matches '^x'"),
        ("max_chars:2", "abc", 2, "3 characters, at most 2 are allowed"),
        ("non_empty:", " ", None, "it is empty: ' '"),
        ("allowed_values:a|b", "c", ["a", "b"], "'c' is not one of 'a', 'b'"),
        ("contains_any:a|b", "c", ["a", "b"], "none of 'a', 'b' is in 'c'"),
        ("starts_with:a", "ba", "a", "'ba' does not start with 'a'"),
        ("ends_with:a", "ab", "a", "'ab' does not end with 'a'"),
        ("equals:a", "b", "a", "expected 'a', found 'b'"),
    ],
)
def test_a_failed_prefix_says_why(expected: str, actual: str, wanted: Any, why: str) -> None:
    """The check shows what was wanted without the prefix."""
    check = one(expected, actual)
    assert (check.expected, check.why) == (wanted, why)


UNUSABLE = [
    ("regex:(", "regex: '(' is not a regular expression: missing ), unterminated subpattern at position 0"),
    ("regex:a{99999999999999999999}", "is not a regular expression: the repetition number is too large"),
    ("regex:", "regex: the value after the colon is missing"),
    ("contains:", "contains: the value after the colon is missing"),
    ("judge:  ", "judge: the value after the colon is missing"),
    ("starts_with: ", "starts_with: the value after the colon is missing"),
    ("allowed_values:", "allowed_values: the value after the colon is missing"),
    ("contains_any:a||b", "contains_any: expected a list of non-empty texts"),
    ("max_chars:ten", "max_chars: expected a whole number of at least 0, found 'ten'"),
    ("max_chars:-1", "max_chars: expected a whole number of at least 0, found '-1'"),
    ("max_chars:" + "9" * 5000, "max_chars: expected a whole number"),
    ("non_empty:please", "non_empty: expected no value, found 'please'"),
]


@pytest.mark.parametrize(("expected", "message"), UNUSABLE, ids=lambda text: text[:30])
def test_an_unusable_prefix_is_found_before_the_run_and_fails_in_it(expected: str, message: str) -> None:
    """It never passes by accident, and never stops the run."""
    [(path, found)] = expectation_problems({"a": ["fine", {"b": expected}]})
    assert path == "a[1].b"
    assert message in found
    assert f"write `equals:{expected.partition(':')[0]}:…`" in found
    check = one(expected, "")
    assert check.passed is False
    assert message in check.why


def test_every_problem_is_found_at_once() -> None:
    """Usable expectations have none."""
    assert [path for path, _ in expectation_problems({"a": "regex:(", "b.c": ["regex:)"], "d": "max_chars:x"})] == [
        "a",
        '["b.c"][0]',
        "d",
    ]
    assert expectation_problems({"a": "regex:a+", "b": ["judge: x", 5, None, "equals:regex:("], "c": "w:"}) == []
    assert expectation_problems("regex:(", "outputs.x")[0][0] == "outputs.x"


def test_a_pattern_sees_the_first_hundred_thousand_characters() -> None:
    """And the check says so."""
    text = "a" * SEARCHED + "b"
    assert one("regex:b", text).why == "nothing in the first 100,000 of 100,001 characters matches 'b'"
    assert one("regex:b", text[1:]).passed is True
