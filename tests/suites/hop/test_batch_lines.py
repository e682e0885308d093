"""The forms of HOP's lines: which are inputs, and what of them reaches a function."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.suites.hop.batch_lines import (
    MAX_WRAPPERS,
    expectations,
    function_fields,
    is_meta,
    is_observer_line,
    is_pair,
    normalize_input,
    unwrap,
    view_record,
    without_results,
)

INNER = {"question": "HOP?"}
TABLE: list[tuple[dict[str, Any], bool]] = [
    ({"input": INNER, "result": "{}"}, True),
    ({"input": INNER, "error": "timeout"}, True),
    ({"input": INNER, "result": "{}", "error": "late"}, True),
    ({"input": INNER, "result": None}, True),
    ({"input": {}, "error": ""}, True),
    ({"input": INNER}, False),
    ({"input": "text", "result": "{}"}, False),
    ({"input": [INNER], "result": "{}"}, False),
    ({"input": None, "error": "x"}, False),
    ({"question": "HOP?", "result": "{}"}, False),
    ({"id": 1, "question": "HOP?", "hop_result": "{}", "hop_stats": {}}, False),
    ({"_type": "meta", "profile": "a"}, False),
    ({}, False),
]


@pytest.mark.parametrize(("record", "wrapped"), TABLE, ids=repr)
def test_the_two_rules_of_the_document(record: dict[str, Any], wrapped: bool) -> None:
    """A dict `input` beside `result` or `error` is taken out; anything else is the very same object."""
    assert normalize_input(record) is (record["input"] if wrapped else record)


def test_the_rule_takes_one_level() -> None:
    """Only `unwrap` goes on."""
    inside = view_record(INNER, result="{}")
    outside = view_record(inside, error="late")
    assert normalize_input(outside) is inside
    assert unwrap(outside) is INNER


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
raw_records = st.dictionaries(
    st.sampled_from(["id", "tag", "input", "question", "expected_x", "hop_result"]) | st.text(max_size=5),
    json_values,
).filter(lambda record: normalize_input(record) is record)


@given(raw_records, st.lists(st.booleans(), max_size=5))
def test_unwrapping_undoes_wrapping(record: dict[str, Any], failed: list[bool]) -> None:
    """Whatever the record and however often it was wrapped."""
    wrapped = record
    for fail in failed:
        wrapped = view_record(wrapped, error="late") if fail else view_record(wrapped, result="{}")
    assert unwrap(wrapped) == record


def test_wrappers_without_end_are_refused() -> None:
    """A hundred are taken off, one more is a mistake."""
    record: dict[str, Any] = INNER
    for _ in range(MAX_WRAPPERS):
        record = view_record(record, result="{}")
    assert unwrap(record) == INNER
    with pytest.raises(ValueError, match="more than 100 wrappers"):
        unwrap(view_record(record, result="{}"))


def test_row_keys_of_a_wrapper_are_kept() -> None:
    """id, tag and expectations count at the top first, then inside; an input of the contract stays as it is."""
    record = {"id": 7, "expected_x": 1, "tag": "out", "input": {"tag": "in", "a": 1}, "result": "{}"}
    assert unwrap(record) == {"id": 7, "expected_x": 1, "tag": "out", "a": 1}
    assert unwrap(record, {"tag"}) == {"id": 7, "expected_x": 1, "tag": "in", "a": 1}


def test_lines_that_hold_no_input() -> None:
    """Meta lines by `_type`, observer lines by their shape, not by `type` alone."""
    assert is_meta({"_type": "meta", "profile": "a"})
    assert not is_meta({"type": "meta"})
    for kind in ("run_start", "step", "run_end"):
        assert is_observer_line({"type": kind, "run_id": "r", "timestamp": 1.0})
    assert not is_observer_line({"type": "step", "question": "?"})
    assert not is_observer_line({"type": ["step"], "run_id": "r", "timestamp": 1.0})


ROW = {
    "id": 1,
    "tag": "t",
    "description": "d",
    "difficulty": "easy",
    "expected_score": 4,
    "expected": "gold",
    "hop_result": "{}",
    "hop_stats": {},
    "hop_more": 1,
    "profile": "a",
    "question": "?",
    "context": "c",
}


def test_only_inputs_reach_the_function() -> None:
    """Without a contract all that is no word about the row; with one exactly its fields that are there."""
    assert function_fields(ROW) == {"hop_more": 1, "question": "?", "context": "c"}
    assert function_fields(ROW, {"context": "string", "profile": "string", "gone": "string"}) == {
        "context": "c",
        "profile": "a",
    }


def test_results_of_earlier_batches_are_dropped() -> None:
    """Unless the contract calls them inputs; gold stays in the record and is found."""
    assert ROW.keys() - without_results(ROW).keys() == {"hop_result", "hop_stats", "profile"}
    assert "profile" in without_results(ROW, {"profile"})
    assert expectations(ROW) == {"score": 4}
    assert expectations({"expected_": 1, "expected_x": None}) == {"x": None}
    assert expectations(ROW, {"expected_score"}) == {}


@pytest.mark.parametrize(
    ("value", "pair"),
    [
        (["OK", "{}"], True),
        (["ok", {}], True),
        (["HopStatus.FAIL", "why"], True),
        (["LACK_OF_INFO", None], True),
        (["FAIL", [1]], True),
        (["ODD", '{"a": 1}'], True),
        (["ODD", {}], True),
        (["ok", 3], False),
        (["USA", "UK"], False),
        (["Word", {}], False),
        (["OK"], False),
        (["OK", "{}", 1], False),
        ([1, "{}"], False),
        ({"OK": "{}"}, False),
        ("OK", False),
        (None, False),
    ],
)
def test_pairs_of_status_and_result_are_recognised(value: Any, pair: bool) -> None:
    """A known status and a result; of an unknown one in capitals, an object."""
    assert is_pair(value) is pair
