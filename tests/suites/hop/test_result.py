"""What a function may return, and how it is written."""

from __future__ import annotations

import enum
import json
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.suites.hop.result import MAX_BYTES, BadResult, HopResult, HopStatus, read_result


class Theirs(enum.Enum):
    OK = 1
    UNCERTAIN = "UNCERTAIN"
    SURE = "SURE"


ODD_TEXT = '{ "b":1.0,\t"a" : [1e2, "\\u00e9é"],"a":2 }'


@pytest.mark.parametrize(
    ("value", "told"),
    [
        ({"b": 1, "a": "é"}, ("OK", '{"b": 1, "a": "é"}')),
        (ODD_TEXT, ("OK", ODD_TEXT)),
        ('  {"a": 1}\n', ("OK", '  {"a": 1}\n')),
        ("null", ("OK", "null")),
        ('"text"', ("OK", '"text"')),
        ("[]", ("OK", "[]")),
        ([1, "OK"], ("OK", '[1, "OK"]')),
        (["a", "b"], ("OK", '["a", "b"]')),
        (3, ("OK", "3")),
        (("OK", {"a": 1}), ("OK", '{"a": 1}')),
        (("OK", "True"), ("OK", '"True"')),
        (("FAIL", ODD_TEXT), ("FAIL", ODD_TEXT)),
        (["UNCERTAIN", [1]], ("UNCERTAIN", "[1]")),
        ((HopStatus.LACK_OF_INFO, None), ("LACK_OF_INFO", "null")),
        ((Theirs.OK, {}), ("OK", "{}")),
        ((Theirs.UNCERTAIN, {}), ("UNCERTAIN", "{}")),
        (("FAIL", "the verifier says no"), ("FAIL", '"the verifier says no"')),
        (("FAIL", ""), ("FAIL", '""')),
        (("OK", ("FAIL", 1)), ("OK", '["FAIL", 1]')),
        (["OK", 1, 2], ("OK", '["OK", 1, 2]')),
        (["GOOD", 1], ("OK", '["GOOD", 1]')),
        ({"n": 10**30}, ("OK", '{"n": 1' + "0" * 30 + "}")),
        ({1: "a"}, ("OK", '{"1": "a"}')),
    ],
    ids=lambda value: str(value)[:40],
)
def test_json_results_are_written(value: Any, told: tuple[str, str]) -> None:
    """JSON text byte for byte, other values by json.dumps; the parsed value is what the text says."""
    found = read_result(value)
    assert (found.status, found.text) == told
    assert found.value == json.loads(found.text)


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def circle() -> Any:
    value: list[Any] = []
    value.append(value)
    return value


async def coroutine() -> dict[str, int]:
    return {}


@pytest.mark.parametrize(
    ("value", "why"),
    [
        (None, "it returned nothing"),
        (
            ("WAT", {"x": 1}),
            r"it returned the status 'WAT'; return \(status, result\) with the status OK, FAIL, UNCERTAIN, LACK_OF_INFO",
        ),
        (("ok", {"x": 1}), "it returned the status 'ok'"),
        ((True, {"x": 1}), "it returned the status of the type bool"),
        ((Theirs.SURE, {"x": 1}), "it returned the status of the type Theirs"),
        (("OK", {"x": 1}, 3), "it returned a tuple of 3"),
        ((), "it returned a tuple of 0"),
        (("x" * 1000, 1), "it returned the status 'xxx"),
        ({"a": float("nan")}, "the result is no JSON: Out of range float values"),
        ({"a": [float("inf")]}, "the result is no JSON"),
        (b"{}", "bytes is not JSON serializable"),
        ({"a": b"x"}, "bytes is not JSON serializable"),
        ({1, 2}, "set is not JSON serializable"),
        (object(), "object is not JSON serializable"),
        ({(1, 2): 1}, "keys must be"),
        ('{"a": ', "text that is not JSON"),
        ("NaN", "text that is not JSON"),
        ("1e999", "text that is not JSON"),
        ('"\\ud800"', "text that is not JSON"),
        ("Paris", "text that is not JSON"),
        ("", "text that is not JSON"),
        ("{'a': 1}", "text that is not JSON"),
        (("OK", '{"a": '), "text that is not JSON"),
        (("FAIL", b"x"), "bytes is not JSON serializable"),
        ({"a": "\ud800"}, "half a character"),
        ("\ud800", "half a character"),
        (("FAIL", "\ud800"), "half a character"),
        (nested(101), "nested deeper than 100"),
        ("[" * 101 + "]" * 101, "nested deeper than 100"),
        (nested(100_000), "nested deeper than 100"),
        ("[" * 100_000 + "]" * 100_000, "nested deeper than 100"),
        (circle(), "Circular reference"),
        ({"a": "x" * MAX_BYTES}, "bytes; at most 8,000,000 are kept"),
        (json.dumps("é" * 4_000_000, ensure_ascii=False), "the result has 8,000,002 bytes"),
        (("FAIL", "x" * 10_000_000), "at most 8,000,000"),
    ],
    ids=range(35),
)
def test_results_that_are_not_json_are_refused_with_the_reason(value: Any, why: str) -> None:
    """Nothing of it is guessed, and the message is short."""
    with pytest.raises(BadResult, match=why) as raised:
        read_result(value)
    assert len(str(raised.value)) < 400


def test_the_bounds_themselves_are_allowed() -> None:
    """A hundred deep, and eight megabytes."""
    assert read_result(nested(100)).status == "OK"
    assert len(read_result("x" * (MAX_BYTES - 2) and json.dumps("x" * (MAX_BYTES - 2))).text) == MAX_BYTES


def test_a_coroutine_is_named() -> None:
    """A call without `await` is named, also inside a result; Python does not warn about it."""
    for value in (coroutine(), {"said": coroutine()}, ["OK", {"list": [1, coroutine()]}]):
        with pytest.raises(BadResult, match=r"the result is coroutine\(…\), a call without `await`"):
            read_result(value)


@given(
    st.recursive(
        st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
        lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
        max_leaves=20,
    )
)
def test_a_value_and_its_text_mean_the_same(value: Any) -> None:
    """Any JSON in a dict, as an object or as text of any style."""
    as_object = read_result({"x": value})
    text = json.dumps({"x": value}, indent=1)
    assert as_object == HopResult("OK", json.dumps({"x": value}, ensure_ascii=False), {"x": value})
    assert read_result(text) == HopResult("OK", text, {"x": value})
