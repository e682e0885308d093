"""The built-in ways to aggregate."""

from __future__ import annotations

import statistics
from typing import Any

import pytest

from assay.language.conditions import Expression
from assay.suites.pipeline.steps.aggregate_step import concat, filter_items, group, stats, summary
from assay.suites.pipeline.steps.runner import StepError


def test_concat_takes_text_then_output_then_result_then_all() -> None:
    """What is no text is written as JSON, a failed item as null."""
    items = [
        {"output": "o", "text": "t"},
        {"result": "r", "output": "o"},
        {"result": 5},
        {"x": "é"},
        "s",
        None,
    ]
    assert concat(items, " | ") == 't | o | 5 | {"x": "é"} | s | null'


def test_concat_of_nothing_is_an_empty_text() -> None:
    """The separator stands between items only."""
    assert concat([], "\n") == ""
    assert concat(["a"], "\n") == "a"


def test_stats_are_those_of_the_numbers() -> None:
    """The deviation is that of a sample; nulls, texts and absent fields do not count."""
    items = [{"n": 1}, {"n": 2}, {"n": 4.5}, {"n": None}, {"n": "9"}, {}, None]
    actual = stats(items, ["n"], distribution=False)
    assert actual == {
        "total_items": 7,
        "fields": {
            "n": {
                "count": 3,
                "sum": 7.5,
                "mean": 2.5,
                "min": 1,
                "max": 4.5,
                "median": 2,
                "stdev": statistics.stdev([1, 2, 4.5]),
            }
        },
    }


def test_one_number_has_no_deviation() -> None:
    """From two on there is a median and a deviation."""
    assert stats([{"n": 2}], ["n"], distribution=False)["fields"]["n"] == {
        "count": 1,
        "sum": 2,
        "mean": 2.0,
        "min": 2,
        "max": 2,
    }


@pytest.mark.parametrize("items", [[], [None], [{"m": 1}], ["text", 3]])
def test_a_field_that_nobody_has_is_counted_as_none(items: list[Any]) -> None:
    """An empty list has its total of 0 and no mean."""
    assert stats(items, ["n"], distribution=True) == {
        "total_items": len(items),
        "fields": {"n": {"count": 0, "distribution": {}}},
    }


def test_truths_are_no_numbers() -> None:
    """Alone they have a rate; among numbers they do not count."""
    truths = [{"ok": True}, {"ok": False}, {"ok": True}, {"ok": None}]
    assert stats(truths, ["ok"], distribution=False)["fields"]["ok"] == {"count": 3, "true": 2, "rate": 2 / 3}
    mixed = [{"n": True}, {"n": 3}, {"n": False}, {"n": 5}]
    assert stats(mixed, ["n"], distribution=False)["fields"]["n"]["sum"] == 8
    assert stats(mixed, ["n"], distribution=False)["fields"]["n"]["count"] == 2


def test_a_distribution_counts_every_value() -> None:
    """Texts as they are, the rest as JSON, in order of appearance."""
    items = [{"v": "b"}, {"v": "a"}, {"v": "b"}, {"v": 1}, {"v": True}, {"v": [1]}, {"v": None}, {}]
    actual = stats(items, ["v"], distribution=True)["fields"]["v"]["distribution"]
    assert list(actual.items()) == [("b", 2), ("a", 1), ("1", 1), ("true", 1), ("[1]", 1)]


def test_stats_and_group_need_to_know_of_what() -> None:
    """Else the step fails and says what is missing."""
    with pytest.raises(StepError, match="`stats` needs `fields`"):
        stats([{"n": 1}], [], distribution=False)
    with pytest.raises(StepError, match="`group` needs `group_by`"):
        group([{"n": 1}], "")


@pytest.mark.parametrize(
    ("condition", "expected_indices"),
    [
        ("item.score > 0.7 and item.verified", [0]),
        ("score > 0.7", [0, 1]),
        ("verified == true", [0, 2]),
        ("score is null", [3, 4]),
        ("item is not null and score < 1", [0, 1, 2]),
    ],
)
def test_a_filter_keeps_what_its_condition_holds_for(condition: str, expected_indices: list[int]) -> None:
    """Fields with or without `item.`; what is missing is null, and no order holds with it."""
    items = [
        {"score": 0.9, "verified": True},
        {"score": 0.8},
        {"score": 0.1, "verified": True},
        {"x": 1},
        None,
    ]
    assert filter_items(items, Expression(condition)) == [items[index] for index in expected_indices]


def test_a_group_keeps_the_order_of_appearance() -> None:
    """Items without the field stand under null, numbers under their text."""
    items = [{"c": "b", "i": 0}, {"c": "a", "i": 1}, {"c": "b", "i": 2}, {"c": 1}, {"i": 4}, None]
    actual = group(items, "c")
    assert list(actual) == ["b", "a", "1", "null"]
    assert [item["i"] for item in actual["b"]] == [0, 2]
    assert actual["null"] == [{"i": 4}, None]
    assert group([], "c") == {}


def test_a_summary_counts_what_worked() -> None:
    """A failed item is null, says so, or holds an error; zeros count in the mean."""
    items = [
        {"score": 0},
        {"score": 1},
        {"error": "x"},
        {"success": False, "score": 5},
        None,
        "text",
        {"score": True},
    ]
    assert summary(items, [], "score") == {
        "total_count": 7,
        "success_count": 4,
        "failure_count": 3,
        "average_score": 2.0,
        "success_rate": 4 / 7,
    }


def test_a_summary_of_nothing_has_no_rate() -> None:
    """Null rather than a made-up number."""
    assert summary([], ["total_count", "success_rate", "average_score"], "score") == {
        "total_count": 0,
        "success_rate": None,
        "average_score": None,
    }
    with pytest.raises(StepError, match="there is no summary field 'total'"):
        summary([], ["total"], "score")


@pytest.mark.parametrize("values", [[1e308, 1e308], [10**400, 1]])
def test_numbers_that_have_no_sum_fail_the_step(values: list[Any]) -> None:
    """Not the case: nothing of ours breaks, and JSON has no infinity."""
    items = [{"x": value} for value in values]
    with pytest.raises(StepError, match="too large"):
        stats(items, ["x"], distribution=False)
