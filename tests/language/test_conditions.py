"""Conditions read like Python and reach nothing but the item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings, strategies as st

from assay.language.conditions import MAX_SOURCE, Expression, ExpressionProblem

HOSTILE = Path(__file__).parents[1] / "golden" / "expressions" / "hostile.txt"
ITEM: dict[str, Any] = {
    "score": 0.8,
    "count": 3,
    "verified": True,
    "name": "Ada",
    "tags": ["a", "b"],
    "inner": {"deep": [{"x": None}]},
    "zero": 0,
    "none": None,
}
NAMES = {"item": ITEM, "rating": 4, "verified": True, "category": "a", "name": "Ada"}


def hostile() -> list[str]:
    lines = HOSTILE.read_text("utf-8").split("\n")[1:]
    return [json.loads(line[5:]) if line.startswith("json:") else line for line in lines if line]


HOLD = [
    "item.score > 0.7 and item.verified",
    "verified == true and rating >= 4",
    'category in ["a","b"]',
    "item.x is None",
    "item.name is not None",
    "item.none is null",
    "item.verified == True",
    "item.verified != 1",
    "item.zero != false",
    "item.count == 3.0",
    "item.tags == ['a', 'b']",
    "item['name'] == \"Ada\"",
    "item.tags[0] == 'a' and item.tags[-1] == 'b'",
    "item.inner.deep[0].x is null",
    "0 < item.score < 1 <= item.count",
    "not item.zero and not item.nothing",
    "item.nothing or item.name",
    "'d' in item.name and 'name' in item",
    "'c' not in item.tags",
    "null in [null, 1]",
    "true not in [1]",
    "item.count * 2 + 1 == 7 and item.count % 2 == 1 and item.count / 2 == 1.5 and item.count - 1 == 2",
    "-item.count < -2 and item.count > -1",
    "item.name < 'B'",
    "(item.score > 1 or item.score > 0.5) and not (item.score > 0.9)",
    "item.nothing == null and item.nothing.more.of[3].it == null",
    "item.nothing != 1",
    "  item.verified  ",
    "(item.verified\n and item.count)",
    "item.verified # a remark",
    "item['__typename'] == null",
]
DO_NOT = [
    "item.nothing > 1",
    "item.nothing <= 1",
    "item.nothing < null",
    "item.name > 1",
    "item.verified > 0",
    "item.verified >= true",
    "item.tags > []",
    "item.verified == 1",
    "1 in item.name",
    "1 not in item.name",
    "'a' in item.nothing",
    "'a' not in item.nothing",
    "'a' in item.count",
    "0 in item.tags",
    "item.name + 'x'",
    "item.name * 3",
    "item.tags * 1000000",
    "item.name % 3",
    "item.verified + 1",
    "item.count / 0",
    "item.count % 0",
    "-item.name",
    "item.tags.a",
    "item.tags[9]",
    "item.tags['a']",
    "item[0]",
    "item.name[0]",
    "item.keys",
    "item.name.upper",
    "nothing",
    "null",
    "[]",
]


@pytest.mark.parametrize("source", HOLD)
def test_conditions_that_hold(source: str) -> None:
    """Names, fields, order, equality as in JSON, lists, and numbers."""
    assert Expression(source).holds(NAMES)


@pytest.mark.parametrize("source", DO_NOT)
def test_conditions_on_missing_values_or_wrong_types_do_not_hold(source: str) -> None:
    """Null, kinds that have no order, and sums of what is no number are never true, and never raise."""
    assert not Expression(source).holds(NAMES)


def test_there_are_many_different_hostile_expressions() -> None:
    assert len(set(hostile())) >= 400


@pytest.mark.parametrize("source", hostile(), ids=range(len(hostile())))
def test_hostile_expressions_are_refused(source: str) -> None:
    """Whatever could reach beyond the item does not even become an expression."""
    with pytest.raises(ExpressionProblem):
        Expression(source)


@pytest.mark.parametrize(
    ("source", "words"),
    [
        ("item.a and len(item.b)", ["column 12", "a call is not allowed", "'len(item.b)'", "allowed are"]),
        ("  é == f(1)", ["column 8", "'f(1)'"]),
        ("item.a ** 2", ["column 1", "operator Pow"]),
        ("(item.a and\n  item.__b)", ["line 2 column 3", "two underscores"]),
        ("item.a ==", ["column ", "invalid syntax"]),
        ("item.class == 1", ["column 6", 'written ["class"]']),
        ("x in ('a', 'b')", ["column 6", "write a list"]),
        ("x is 1", ["column 6", "write =="]),
        ("x == 123456789012345678901234", ["column 6", "64 bits"]),
        ("not " * 60 + "x", ["nested deeper than 50"]),
        ("", ["empty"]),
        ("x" * (MAX_SOURCE + 1), ["2,001 characters", "at most 2,000"]),
    ],
)
def test_a_refusal_names_the_column_the_piece_and_what_is_allowed(source: str, words: list[str]) -> None:
    with pytest.raises(ExpressionProblem) as caught:
        Expression(source)
    assert [word for word in words if word not in str(caught.value)] == []


def test_it_says_which_names_it_reads() -> None:
    """Bare names only: fields and the words true, false, null are none."""
    found = Expression("item.a > limit and category in ['x'] or true == null").names
    assert found == {"item", "limit", "category"}


def test_objects_of_python_are_never_looked_into() -> None:
    """A dot and a bracket read dictionaries and lists; anything else is null."""

    class Secret:
        key = "secret"

        def __getitem__(self, _at: object) -> str:
            return "secret"

    names = {"item": Secret(), "f": len}
    for source in ("item.key", "item['key']", "item[0]", "f.name", "item.key.more"):
        assert Expression(source).value(names) is None


def test_numbers_do_not_grow_without_bound() -> None:
    """A result of more than 64 bits, or infinite, is null, also when the data holds such numbers."""
    big = {"a": 2**63, "b": 1e308, "huge": 10**5000}
    for source in ("a * a", "b * 10", "b * 10 - b * 10", "huge + 1", "-huge", "huge * 0.5", "huge / 2"):
        assert Expression(source).value(big) is None, source
    assert Expression("a + 1").value(big) == 2**63 + 1
    assert Expression("huge > 1 and huge > b").holds(big)


def test_data_nested_without_end_does_not_raise() -> None:
    """A comparison that goes too deep is null."""
    one: list[Any] = []
    two: list[Any] = []
    for _ in range(100_000):
        one, two = [one], [two]
    assert Expression("a == b").value({"a": one, "b": two}) is None
    assert not Expression("a in b").holds({"a": one, "b": [two]})
    while one:
        one, two = one[0], two[0]  # taken apart by hand: to free them at once goes as deep


TOKENS = st.sampled_from(
    [
        "item",
        ".",
        "a",
        "b",
        "[",
        "]",
        "(",
        ")",
        "0",
        "1",
        "-1",
        "2.5",
        "'a'",
        '"__x__"',
        "and",
        "or",
        "not",
        "in",
        "is",
        "None",
        "null",
        "true",
        "false",
        "==",
        "!=",
        "<",
        "<=",
        ">",
        ">=",
        "+",
        "-",
        "*",
        "/",
        "%",
        "**",
        ",",
        ":",
        "lambda",
        "if",
        "else",
        "for",
        ":=",
        "{",
        "}",
        "__class__",
        "f''",
        "b''",
        "1j",
        "~",
        "@",
        "...",
        "\\",
        "#",
        "\n",
    ]
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63) | st.floats(allow_nan=False) | st.text("ab_", max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from("ab0"), inner, max_size=3),
    max_leaves=8,
)


@settings(max_examples=500, deadline=None)
@given(st.lists(TOKENS, max_size=14).map(" ".join), JSON)
def test_any_text_is_refused_or_gives_a_json_value(source: str, item: Any) -> None:
    """Random words of the language and of Python: nothing but ExpressionProblem is raised."""
    try:
        expression = Expression(source)
    except ExpressionProblem:
        return
    value = expression.value({"item": item, "a": 1})
    assert type(value) in {dict, list, str, int, float, bool, type(None)}
    msgspec.json.encode(value)


OPERATORS = ("==", "!=", "<", "<=", ">", ">=", "in", "not in", "+", "-", "*", "/", "%", "and", "or")


@settings(max_examples=300, deadline=None)
@given(st.sampled_from(OPERATORS), JSON, JSON)
def test_every_operator_takes_every_pair_of_values(operator: str, one: Any, two: Any) -> None:
    """Evaluation never raises for what the data holds, and JSON stays JSON."""
    value = Expression(f"a {operator} b").value({"a": one, "b": two})
    msgspec.json.encode(value)
    if operator in OPERATORS[:8]:
        assert type(value) is bool
