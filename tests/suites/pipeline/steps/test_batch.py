"""A step over many items."""

from __future__ import annotations

from typing import Any

import pytest

from support.pipeline_project import PipelineProject, computes, orders, says

NAMES: list[dict[str, Any]] = [{"name": "a"}, {"name": "b"}, {"name": "c"}]


def test_the_first_mapped_list_fans_out(lab: PipelineProject) -> None:
    """Other values go to every item, also if they are lists."""
    made = computes("made", "{'one': ['x', 'y'], 'two': [1, 2, 3]}")
    mapping = {"word": "text", "each": "made.one", "all": "made.two"}
    step = says("step", "{{ word }} {{ each }} {{ item }} {{ all | length }}", batch_mode=True, input_mapping=mapping)
    ran = lab.of(made, step, batch_items=NAMES)
    assert ran.output("step") == ["hello x x 3", "hello y y 3"]
    assert ran.row["steps"]["step"]["items"] == 2


def test_without_a_mapped_list_the_batch_items_fan_out(lab: PipelineProject) -> None:
    """The fields of an item are values of their own; a list that the test gives as a setting is no batch."""
    step = says("step", "{{ text }} {{ name }} {{ keywords | length }}", batch_mode=True)
    ran = lab.of(step, batch_items=NAMES, step_inputs={"step": {"keywords": ["k"]}})
    assert ran.output("step") == ["hello a 1", "hello b 1", "hello c 1"]


def test_a_mapped_value_is_not_lost_under_a_field_of_the_item(lab: PipelineProject) -> None:
    """What is given by name wins over the item's fields, these over the inputs of the pipeline."""
    mapping = {"name": "inputs.title", "rows": "batch_items"}
    step = says("step", "{{ name }} {{ item.name }} {{ text }} {{ level }}", batch_mode=True, input_mapping=mapping)
    items = [{"name": "a", "text": "own", "level": 1}]
    inputs = {"title": "T", "text": "hello"}
    ran = lab.of(step, inputs=inputs, batch_items=items, step_inputs={"step": {"level": 9}})
    assert ran.output("step") == ["T a own 9"]


def test_no_items_is_a_batch_of_none(lab: PipelineProject) -> None:
    """An empty list is not an absent one."""
    ran = lab.of(says("step", "{{ name }}", batch_mode=True), batch_items=[])
    assert ran.output("step") == []
    assert ran.row["steps"]["step"]["items"] == 0


def test_a_batch_without_a_list_fails_and_says_so(lab: PipelineProject) -> None:
    """It would otherwise pass with nothing done."""
    ran = lab.of(says("step", "{{ text }}", batch_mode=True))
    assert ran.row["reason"].startswith("step step: the step runs over a list, but has none")
    assert ran.calls() == []


def test_with_item_puts_an_output_together_with_its_item(lab: PipelineProject) -> None:
    """The output's keys win; an output that is no object stays as it is."""
    step = says("step", "{{ reply }}", batch_mode=True, with_item=True, output_parser="json")
    items = [{"id": 1, "reply": '{"ok": true, "id": 2}'}, {"id": 3, "reply": "[1]"}]
    output = lab.of(step, batch_items=items).output("step")
    assert output == [{"id": 2, "reply": '{"ok": true, "id": 2}', "ok": True}, [1]]


@pytest.mark.parametrize(
    ("settings", "most"),
    [
        ({}, 9),
        ({"max_workers": 2}, 2),
        ({"batch_size": 3}, 3),
        ({"batch_size": 4, "max_workers": 3}, 3),
        ({"concurrent": False}, 1),
        ({"max_workers": 50}, 9),
    ],
)
@pytest.mark.parametrize("by", ["file", "test"])
def test_no_more_items_run_at_once_than_is_said(
    lab: PipelineProject, settings: dict[str, Any], most: int, by: str
) -> None:
    """Unsaid, all do, as far as the model's permits go. A test may say it as well as the file."""
    step = orders("step", "crowd {{ name }}", batch_mode=True, **(settings if by == "file" else {}))
    items = [{"name": str(n)} for n in range(9)]
    ran = lab.of(step, batch_items=items, step_inputs={"step": settings if by == "test" else {}})
    assert max(map(int, ran.output("step"))) == most


def test_outputs_stand_in_the_order_of_the_items(lab: PipelineProject) -> None:
    """However late each of them comes."""
    step = orders("step", "sleep {{ pause }}", batch_mode=True, with_item=False)
    second = computes("second", "[item['pause'] for item in inputs['batch_items']]")
    ran = lab.of(step, second, batch_items=[{"pause": 0.02}, {"pause": 0.0}, {"pause": 0.01}])
    assert ran.output("second") == [0.02, 0.0, 0.01]
    echo = says("echo", "{{ n }}", batch_mode=True, output_parser="number")
    assert lab.of(echo, batch_items=[{"n": n} for n in range(20)]).output("echo") == list(range(20))


def test_a_failed_item_costs_itself(lab: PipelineProject) -> None:
    """It is null and named; a refusal is one; an item that is null is not asked about."""
    step = orders("step", "{{ order }}", batch_mode=True, output_parser="number", input_mapping={"rows": "made"})
    made = computes("made", "[{'order': 'say 1'}, {'order': 'say x'}, None, {'order': 'refuse'}, {'order': 'say 5'}]")
    ran = lab.of(made, step)
    assert ran.row["result"] == "not_evaluated"
    assert ran.output("step") == [1, None, None, None, 5]
    failed = ran.row["steps"]["step"]["failed_items"]
    assert [one["item"] for one in failed] == [1, 2, 3]
    assert [one["error"] for one in failed] == [
        "the reply contains no number: 'x'",
        "the item is null, probably because it failed in an earlier step",
        "I will not",
    ]
    assert len(ran.calls()) == 4
    assert ran.entry().tables[0].note == "step: 3 of 5 items failed"


def test_a_batch_of_which_every_item_failed_has_failed(lab: PipelineProject) -> None:
    """The first item's reason stands for all."""
    ran = lab.of(says("step", "{{ name }}", batch_mode=True, output_parser="json"), batch_items=NAMES)
    assert ran.row["reason"] == "step step: all 3 items failed; the first: the reply contains no JSON: 'a'"
    assert ran.row["steps"]["step"]["kind"] == "failed_items"


def test_in_a_batch_each_item_has_its_own_retries(lab: PipelineProject) -> None:
    """Only the item that failed is asked again."""
    step = orders("step", "{{ order }}", batch_mode=True, output_parser="number", retry=2)
    items = [{"order": "say 1"}, {"order": "nth x|y|3"}, {"order": "nth x|y|z|4"}]
    ran = lab.of(step, batch_items=items)
    assert ran.output("step") == [1, 3, None]
    assert ran.row["steps"]["step"]["calls"] == 7
    assert ran.row["steps"]["step"]["attempts"] == 3


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"batch_size": 0}, "batch_size is a whole number from 1 on, not 0"),
        ({"max_workers": "4"}, "max_workers is a whole number from 1 on, not '4'"),
        ({"concurrent": 1}, "concurrent is true or false, not 1"),
    ],
)
def test_a_wrong_setting_of_a_test_fails_that_step(lab: PipelineProject, told: dict[str, Any], why: str) -> None:
    """Nothing is asked for it."""
    ran = lab.of(says("step", batch_mode=True), batch_items=NAMES, step_inputs={"step": told})
    assert ran.row["reason"] == f"step step: {why}"
    assert ran.calls() == []


def test_a_slow_item_costs_itself(lab: PipelineProject) -> None:
    """The step's timeout is that of each item."""
    step = orders("step", "sleep {{ pause }}", batch_mode=True, timeout=1.0)
    ran = lab.of(step, batch_items=[{"pause": 30}, {"pause": 0}])
    assert ran.output("step") == [None, "slept"]
    (failed,) = ran.row["steps"]["step"]["failed_items"]
    assert failed == {"item": 0, "error": "it took longer than its timeout of 1 s"}
