"""Rules of pipeline files."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.scoring.expectations import Rule, apply_rules, lookup, rule_of, rule_problems
from assay.scoring.expectations.checks import MISSING
from assay.scoring.expectations.rules import estimated_tokens


def holds(rule: dict[str, Any], output: Any) -> bool | None:
    [check] = apply_rules([rule_of(rule)], {"output": output})
    return check.passed


@pytest.mark.parametrize(
    ("rule", "good", "bad"),
    [
        ({"kind": "max_chars", "max_chars": 3}, "abc", "abc "),
        ({"kind": "max_chars", "max": 3}, "abc", "abcd"),
        ({"kind": "max_chars", "value": 0}, "", "a"),
        ({"kind": "max_tokens", "max_tokens": 2}, "two words", "three words here"),
        ({"kind": "max_tokens", "max": 2}, "你好", "你好吗"),
        ({"kind": "non_empty"}, "a", " "),
        ({"kind": "non_empty", "trim": False}, " ", ""),
        ({"kind": "allowed_values", "values": ["yes", "no"]}, " yes ", "Yes"),
        ({"kind": "allowed_values", "allowed_values": ["yes"], "ignore_case": True}, "YES", "yess"),
        ({"kind": "allowed_values", "value": ["yes"], "trim": False}, "yes", "yes "),
        ({"kind": "allowed_values", "values": [1, True]}, "true", "2"),
        ({"kind": "contains_any", "keywords": ["a", "b"]}, "xb", "xB"),
        ({"kind": "contains_any", "keywords": ["STRASSE"], "ignore_case": True}, "die Straße", "Gasse"),
        ({"kind": "regex_match", "pattern": "^a"}, "ab", "ba"),
        ({"kind": "regex_match", "pattern": "(?x) ^a", "ignore_case": True}, "AB", "BA"),
        ({"kind": "starts_with", "prefix": "a"}, " ab", "ba"),
        ({"kind": "starts_with", "value": "A", "ignore_case": True}, "ab", "ba"),
        ({"kind": "starts_with", "value": "a", "trim": False}, "ab", " ab"),
        ({"kind": "ends_with", "suffix": "b"}, "ab\n", "ba"),
        ({"kind": "ends_with", "value": " B", "ignore_case": True}, "a b", "ab"),
    ],
)
def test_every_kind_under_every_name(rule: dict[str, Any], good: Any, bad: Any) -> None:
    """The value may stand under `value` or under the kind's own names."""
    assert rule_problems([rule]) == []
    assert (holds(rule, good), holds(rule, bad)) == (True, False)


def test_a_rule_gives_a_check_with_its_id() -> None:
    """All rules are checked, in their order, and remarks beside them change nothing."""
    rules = [
        rule_of({"id": 7, "kind": "max_chars", "max": 2, "target": "a", "action": "mark_bad"}),
        rule_of({"id": "who", "kind": "allowed_values", "values": ["x"], "target": "b.c[1]"}),
        rule_of({"id": "gone", "kind": "non_empty", "target": "b.d"}),
    ]
    checks = apply_rules(rules, {"a": "abc", "b": {"c": [0, "x"]}})
    assert [(c.path, c.kind, c.expected, c.passed, c.why, c.rule) for c in checks] == [
        ("a", "max_chars", 2, False, "3 characters, at most 2 are allowed", "7"),
        ("b.c[1]", "allowed_values", ["x"], True, "", "who"),
        ("b.d", "missing", None, False, "there is no output b.d; there are: a, b", "gone"),
    ]


def test_a_rule_without_a_target_means_the_output() -> None:
    """The caller decides which output that is."""
    [check] = apply_rules([Rule("non_empty")], {"output": "x", "other": ""})
    assert (check.path, check.passed) == ("output", True)


@pytest.mark.parametrize(
    ("rule", "path", "message"),
    [
        (
            {"kind": "max_chrs", "value": 3},
            "[0].kind",
            "there is no rule named 'max_chrs'; did you mean 'max_chars'?",
        ),
        ({"value": 3}, "[0].kind", "there is no rule named 'None'"),
        ({"kind": ["max_chars"]}, "[0].kind", "there is no rule"),
        ("max_chars", "[0]", "a rule is an object"),
        ({"kind": "max_chars"}, "[0].max_chars", "expected a whole number of at least 0, found None"),
        ({"kind": "max_chars", "max": True}, "[0].max", "a whole number"),
        ({"kind": "max_tokens", "max": -1}, "[0].max", "a whole number"),
        ({"kind": "max_chars", "max": "10"}, "[0].max", "a whole number"),
        ({"kind": "max_chars", "max": 1, "value": 2}, "[0].max", "is already given as value"),
        ({"kind": "allowed_values", "values": []}, "[0].values", "expected a list of values"),
        ({"kind": "allowed_values", "values": "a|b"}, "[0].values", "expected a list of values"),
        ({"kind": "allowed_values", "values": [["a"]]}, "[0].values", "expected a list of values"),
        ({"kind": "contains_any", "keywords": [""]}, "[0].keywords", "non-empty texts"),
        ({"kind": "contains_any", "keywords": "a"}, "[0].keywords", "expected a list of non-empty texts"),
        ({"kind": "regex_match", "pattern": "("}, "[0].pattern", "'(' is not a regular expression"),
        ({"kind": "regex_match", "pattern": 5}, "[0].pattern", "expected a pattern"),
        ({"kind": "starts_with", "prefix": ""}, "[0].prefix", "expected a text"),
        ({"kind": "ends_with", "prefix": "x", "value": "y"}, "[0].prefix", "ends_with has no such field"),
        ({"kind": "non_empty", "value": 1}, "[0].value", "expected no value"),
        ({"kind": "non_empty", "ingore_case": True}, "[0].ingore_case", "non_empty has no such field"),
        ({"kind": "non_empty", "enabled": False}, "[0].enabled", "non_empty has no such field"),
        ({"kind": "non_empty", "trim": "yes"}, "[0].trim", "true or false"),
        ({"kind": "non_empty", "target": 5}, "[0].target", "the name of an output"),
    ],
)
def test_a_wrong_rule_is_named(rule: Any, path: str, message: str) -> None:
    """With its place, before anything runs; building it raises the same."""
    [(where, found)] = rule_problems([rule])
    assert where == path
    assert message in found
    with pytest.raises(UsageError):
        rule_of(rule)


def test_all_wrong_rules_are_named_at_once() -> None:
    """None hides another."""
    wrong = [{"kind": "x"}, {"kind": "non_empty"}, {"kind": "max_chars", "trim": 1, "y": 2}]
    assert [path for path, _ in rule_problems(wrong)] == ["[0].kind", "[2].y", "[2].max_chars", "[2].trim"]
    assert rule_problems({"kind": "x"})[0][0] == ""


def test_an_unknown_kind_never_passes() -> None:
    """Even if the rule was not checked before the run."""
    [check] = apply_rules([Rule("max_words", 3)], {"output": "a"})
    assert check.passed is False
    assert "there is no rule named 'max_words'" in check.why


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("", 0),
        ("hello", 1),
        ("hello world", 2),
        ("你好", 2),
        ("你好world", 3),
        ("2024", 1),
        ("a, b; c!!", 4),
        ("слово", 1),
    ],
)
def test_tokens_are_estimated(text: str, tokens: int) -> None:
    """A CJK character is one, a word is one, four other characters are one."""
    assert estimated_tokens(text) == tokens


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("a", {"b": [1, {"c": 2}], "x.y": 3}),
        ("a.b[0]", 1),
        ("a.b[1].c", 2),
        ('a["x.y"]', 3),
        ("p.q", 4),
        ("a.b[2]", MISSING),
        ("a.b.c", MISSING),
        ("a.b[x]", MISSING),
        ("a[0]", MISSING),
        ("a..b", MISSING),
        ("z", MISSING),
    ],
)
def test_a_path_leads_to_a_value(path: str, found: Any) -> None:
    """Keys, indexes and quoted keys; a key that is spelled like the path comes first."""
    assert lookup({"a": {"b": [1, {"c": 2}], "x.y": 3}, "p.q": 4}, path) == found
