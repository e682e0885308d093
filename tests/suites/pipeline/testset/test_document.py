"""Every example of the format's document, as printed there."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import TestCase, TestsetLoader
from assay.suites.pipeline.testset.scan import check_testset

SPEC = Path(__file__).parents[3] / "golden" / "pipeline" / "spec"


def only(name: str) -> TestCase:
    """The one case of an example."""
    (case,) = TestsetLoader.load_testset(SPEC / f"{name}.jsonl")
    return case


@pytest.mark.parametrize("path", sorted(SPEC.glob("*.jsonl")), ids=lambda path: path.stem)
def test_an_example_is_one_case_without_errors(path: Path) -> None:
    """Compact and pretty-printed examples load without problems."""
    assert len(TestsetLoader.load_testset(path)) == 1
    assert check_testset(path) == []


def test_there_are_eleven_examples() -> None:
    """All fenced blocks but the one with `{...}` in it; one has a comment inside."""
    assert len(list(SPEC.glob("*.jsonl"))) == 11
    assert "\n  // " in (SPEC / "example_4_complex.jsonl").read_text()


@pytest.mark.parametrize(("old", "new"), [("example_1_v1", "example_1_v2"), ("version_v1", "version_v2")])
def test_a_v1_record_equals_its_stated_v2_form(old: str, new: str) -> None:
    """The document says what each v1 example means."""
    assert only(old) == only(new)
    assert only(old).expected_outputs == only(new).raw_data["expected_outputs"]


def test_the_fields_come_as_the_document_lists_them() -> None:
    """The nine fields of example 4, each with its own value."""
    case = only("example_4_complex")
    assert case.id == "complex_pipeline_full_features"
    assert case.tags == ["complex", "multi-step", "batch", "aggregation"]
    assert case.inputs == {"dataset_id": "customer_feedback_2024_q1", "analysis_type": "comprehensive"}
    assert list(case.step_inputs)[:2] == ["load_data", "preprocess_batch"]
    assert case.batch_items is not None
    assert [item["category"] for item in case.batch_items] == ["service", "logistics", "product"]
    assert case.expected_outputs["areas_for_improvement"] == []
    assert case.expected_aggregation["total_feedback"] == 3
    assert case.intermediate_expectations["preprocess_batch"]["items_processed"] == 3
    assert case.evaluation_config["tolerance"] == 0.05
    assert (case.line, case.where) == (1, f"{SPEC / 'example_4_complex.jsonl'}:1")


def test_code_in_a_testset_is_found() -> None:
    """Example 4 has code for a step; the others have none."""
    assert only("example_4_complex").code_paths() == ["$.step_inputs.aggregate_insights.code"]
    assert only("example_2_multi_step").code_paths() == []


def test_custom_fields_survive() -> None:
    """They are inputs, annotations are not, and `raw_data` has both."""
    case = only("custom_fields")
    assert case.inputs == {"custom_field": "custom_value"}
    assert case.raw_data["metadata"] == {"author": "test_team"}


def test_what_is_evaluated_by_default() -> None:
    """Final outputs always, aggregations if one is expected, steps only if switched on."""
    batch, steps, simple = only("example_3_batch"), only("example_2_multi_step"), only("example_1_v1")
    assert (batch.should_evaluate_aggregation(), simple.should_evaluate_aggregation()) == (True, False)
    assert (steps.should_evaluate_intermediate(), batch.should_evaluate_intermediate()) == (True, False)
    assert simple.should_evaluate_final()
    assert (batch.has_batch_data(), simple.has_batch_data()) == (True, False)
    assert TestCase("a", batch_items=[]).has_batch_data()
