"""An aggregate step: which list it takes, what a test may set, how its result is shaped."""

from __future__ import annotations

from typing import Any

import pytest

from support.pipeline_project import PipelineProject, PipelineResult, computes

ITEMS = [{"n": 1, "who": "a"}, {"n": 3, "who": "b"}]


def aggregated(lab: PipelineProject, told: dict[str, Any] | None = None, **settings: Any) -> PipelineResult:
    """One aggregate step over the test's batch items."""
    step = {"id": "sum", "type": "aggregate", "strategy": "concat", **settings}
    return lab.of(step, batch_items=ITEMS, step_inputs={"sum": told or {}})


def test_without_a_mapping_it_takes_the_batch_items(lab: PipelineProject) -> None:
    """Where no batch step stands above it."""
    assert aggregated(lab, strategy="group", group_by="who").output("sum") == {"a": ITEMS[:1], "b": ITEMS[1:]}


def test_without_a_mapping_it_takes_what_the_nearest_batch_gives(lab: PipelineProject) -> None:
    """Also where other steps stand between."""
    each = computes("each", "inputs['n'] * 10", batch_mode=True)
    ran = lab.of(each, computes("other", "1"), {"id": "sum", "type": "aggregate"}, batch_items=ITEMS)
    assert ran.output("sum") == "10\n30"


def test_a_mapping_names_its_list(lab: PipelineProject) -> None:
    """`items`, or the only name that is mapped."""
    made = computes("made", "{'rows': ['x', 'y']}")
    for name in ("items", "things"):
        step = {"id": "sum", "type": "aggregate", "separator": "-", "input_mapping": {name: "made.rows"}}
        assert lab.of(made, step).output("sum") == "x-y"


def test_what_is_no_list_fails_the_step(lab: PipelineProject) -> None:
    """And says what it is."""
    step = {"id": "sum", "type": "aggregate", "input_mapping": {"items": "text"}}
    assert "the step aggregates the list 'items', but that value is str" in lab.of(step).row["reason"]
    assert (
        "the list 'batch_items', but that value is missing" in lab.of({"id": "sum", "type": "aggregate"}).row["reason"]
    )


def test_the_result_takes_the_shape_that_is_said(lab: PipelineProject) -> None:
    """Names of the testset, from paths into the statistics; a list is entered by its index."""
    shape = {"total": "total_items", "mean_n": "fields.n.mean", "seen": "fields.who.distribution"}
    settings: dict[str, Any] = {"strategy": "stats", "fields": ["n", "who"], "include_distribution": True}
    assert aggregated(lab, output=shape, **settings).output("sum") == {
        "total": 2,
        "mean_n": 2.0,
        "seen": {"a": 1, "b": 1},
    }
    first = aggregated(lab, strategy="filter", condition="n > 2", output={"who": "[0].who"})
    assert first.output("sum") == {"who": "b"}


def test_a_shape_that_is_not_there_fails_the_step(lab: PipelineProject) -> None:
    """The message names what there is."""
    ran = aggregated(lab, strategy="stats", fields=["n"], output={"x": "fields.m.mean"})
    assert "result.fields has no 'm'; it has: n" in ran.row["reason"]


@pytest.mark.parametrize(
    ("told", "output"),
    [
        ({"separator": "; "}, '{"n": 1, "who": "a"}; {"n": 3, "who": "b"}'),
        ({"strategy": "filter", "condition": "n > 2"}, ITEMS[1:]),
        ({"aggregation_strategy": "filter", "condition": "n > 2"}, ITEMS[1:]),
        ({"strategy": "group", "group_by": "n"}, {"1": ITEMS[:1], "3": ITEMS[1:]}),
        (
            {"strategy": "summary", "score_field": "n", "summary_fields": ["average_score"]},
            {"average_score": 2},
        ),
        (
            {"unknown": 1, "strategy": "stats", "fields": ["who"]},
            {"total_items": 2, "fields": {"who": {"count": 2}}},
        ),
    ],
)
def test_a_test_may_set_how_it_is_aggregated(lab: PipelineProject, told: dict[str, Any], output: Any) -> None:
    """Under the names that the pipeline has for it; what is no setting is a value."""
    assert aggregated(lab, told).output("sum") == output


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"strategy": "sum"}, "there is no strategy 'sum'; known: concat, stats"),
        ({"fields": "n"}, "fields is a list of names, not 'n'"),
        ({"separator": 1}, "separator is a text, not 1"),
        ({"include_distribution": "yes"}, "include_distribution is true or false, not 'yes'"),
        ({"strategy": "filter", "condition": "__import__('os')"}, "condition: "),
        ({"strategy": "filter"}, "condition: the condition is empty"),
        ({"strategy": "custom"}, "the strategy `custom` needs code"),
    ],
)
def test_a_wrong_setting_of_a_test_fails_that_step(lab: PipelineProject, told: dict[str, Any], why: str) -> None:
    """Only that test is concerned, and it is told why."""
    ran = aggregated(lab, told)
    assert ran.row["result"] == "errored"
    assert ran.row["reason"].startswith(f"step sum: {why}")


def test_failed_items_reach_the_aggregation_as_null(lab: PipelineProject) -> None:
    """They count in the total and in nothing else."""
    each = {
        "id": "each",
        "template": "say {{ n }}",
        "batch_mode": True,
        "output_parser": "json",
        "with_item": True,
    }
    total = {"id": "sum", "type": "aggregate", "strategy": "summary"}
    ran = lab.of(each, total, batch_items=[{"n": "[1]"}, {"n": "no"}, {"n": "{}"}])
    assert ran.output("each") == [[1], None, {"n": "{}"}]
    assert ran.output("sum")["total_count"] == 3
    assert ran.output("sum")["failure_count"] == 1


def test_own_code_aggregates(lab: PipelineProject) -> None:
    """`def aggregate(items)` of the pipeline file gets the list."""
    code = "def aggregate(items):\n    return {'total': sum(item['n'] for item in items)}\n"
    assert aggregated(lab, strategy="custom", code=code).output("sum") == {"total": 4}
