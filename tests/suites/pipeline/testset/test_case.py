"""The meaning of the keys of v1 and v2 records."""

from __future__ import annotations

from typing import Any

import pytest

from assay import TestCase
from assay.core.errors import InputError, Problem
from assay.files.schema import json_path
from assay.suites.pipeline.testset.validation import MemoryRecord, check_record


def of(**record: Any) -> TestCase:
    """Build the case of a record with an id."""
    return TestCase.from_dict({"id": "a", **record})


@pytest.mark.parametrize("marker", [{}, {"inputs": {"text": "x"}}])
def test_unknown_keys_are_inputs(marker: dict[str, Any]) -> None:
    """In v1 and in v2, because real files mix both; explicit inputs win."""
    case = of(text="loose", lang="en", **marker)
    assert case.inputs == {"text": marker.get("inputs", {}).get("text", "loose"), "lang": "en"}


def test_no_expectation_is_ever_an_input() -> None:
    """Not even if the pipeline declares such an input: the model would see the answer."""
    record = {
        "id": "a",
        "expected": "r",
        "expected_output": 1,
        "expected_mood": "good",
        "expected_": 0,
        "x": 2,
    }
    for more in ({}, {"inputs": {"y": 3}}):
        case = TestCase.from_dict(record | more, frozenset(record))
        assert set(case.inputs) == {"x"} | set(more.get("inputs", {}))
        assert case.expected_outputs == {"output": 1, "mood": "good"}
        assert case.reference == "r"


def test_explicit_expectations_win() -> None:
    """`expected_outputs.output` wins over `expected_output`."""
    case = of(expected_output="a", expected_outputs={"output": "b", "n": 1})
    assert case.expected_outputs == {"output": "b", "n": 1}


RESERVED = {
    "description": "d",
    "metadata": {"m": 1},
    "parameters": {"lang": ["en", "de"]},
    "depends_on": "b",
    "conditions": "true",
    "performance_baseline": {"max_seconds": 1},
}


def test_annotations_and_reserved_keys_are_no_inputs() -> None:
    """They are read from the record."""
    case = of(**RESERVED)
    assert case.inputs == {}
    assert (case.parameters, case.depends_on) == (RESERVED["parameters"], ["b"])
    assert (case.conditions, case.performance_baseline) == ("true", {"max_seconds": 1})


def test_a_pipeline_may_declare_inputs_of_these_names() -> None:
    """In a v1 record they are only inputs then; in a v2 record they keep their meaning."""
    record = {"id": "a", "description": "d", "conditions": 5, "parameters": "p"}
    declared = frozenset({"description", "conditions", "parameters"})
    case = TestCase.from_dict(record, declared)
    assert case.inputs == {"description": "d", "conditions": 5, "parameters": "p"}
    assert (case.parameters, case.conditions, case.depends_on) == (None, None, [])
    newer = TestCase.from_dict({"id": "a", "inputs": {}, "description": "d"}, declared)
    assert newer.inputs == {}


@pytest.mark.parametrize(
    ("record", "tags", "inputs"),
    [
        ({"tag": "t", "x": 1}, ["t"], {"x": 1}),
        ({"tag": "t", "tags": ["u"]}, ["u"], {"tag": "t"}),
        ({"tag": 5}, [], {"tag": 5}),
        ({"tags": "one"}, ["one"], {}),
    ],
)
def test_a_single_tag_is_a_list_of_one(record: dict[str, Any], tags: list[str], inputs: dict[str, Any]) -> None:
    """HOP's `tag`, or `tags` as a text."""
    case = of(**record)
    assert (case.tags, case.inputs) == (tags, inputs)


@pytest.mark.parametrize("name", [0, 7, "7", "case-1"])
def test_an_id_keeps_its_type(name: str | int) -> None:
    """Ids are compared as text; 0 is an id."""
    case = TestCase.from_dict({"id": name})
    assert case.id == name
    assert type(case.id) is type(name)
    assert case.key == str(name)


def test_null_is_allowed_for_two_fields() -> None:
    """`batch_items` and `expected_aggregation` are null by default; no other field may be."""
    assert of(batch_items=None, expected_aggregation=None) == TestCase("a")
    with pytest.raises(InputError, match=r"\$.inputs: must be an object, not null\n\$.tags: must be a list"):
        of(inputs=None, tags=None)


def test_place_and_record_do_not_matter_for_equality() -> None:
    """Two cases are equal if their fields are."""
    assert TestCase.of({"id": "a", "x": 1}, "f:3") == TestCase("a", inputs={"x": 1})
    assert TestCase("a") != TestCase("b")


@pytest.mark.parametrize("key", ["expectedOutput", "Expected_output", "EXPECTED", "expected-output", "expected_"])
@pytest.mark.parametrize("more", [{}, {"inputs": {"q": 1}}])
def test_keys_that_start_with_expected_are_no_inputs(key: str, more: dict[str, Any]) -> None:
    """An unsupported one is reported, kept, and hidden from the pipeline."""
    record = {"id": "a", "text": "x", key: "the answer", **more}
    case = TestCase.from_dict(record)
    assert "the answer" not in case.inputs.values()
    assert case.expected_outputs == {}
    problems: list[Problem] = []
    check_record(record, frozenset(), MemoryRecord(), problems)
    assert [(problem.where, problem.level) for problem in problems] == [(json_path((key,)), "warning")]
    assert case.to_dict()[key] == "the answer"
    assert TestCase.from_dict(case.to_dict()) == case
