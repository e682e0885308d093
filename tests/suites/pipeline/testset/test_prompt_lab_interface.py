"""The names of Prompt Lab's `src/testset_loader.py`: a script needs only another import line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay import TestCase, TestsetLoader, filter_by_tags, load_testset, load_testset_dict, validate_testset

PLAIN = {"id": "plain", "tags": ["critical"], "text": "a"}
STEPS = {
    "id": "steps",
    "tags": ["slow", "critical"],
    "custom": 7,
    "inputs": {"text": "b"},
    "step_inputs": {"clean": {"mode": "strict"}, "say": {}},
    "intermediate_expectations": {"clean": {"text": "b"}, "end": "x"},
    "evaluation_config": {"strict_mode": True, "tolerance": 1, "ignore_fields": ["time"]},
}
BATCH = {"id": "batch", "batch_items": [{"n": 1}, {"n": 2}], "expected_aggregation": {"count": 2}}
ALL = {
    "id": "all",
    "step_inputs": {"say": {"n": 1}},
    "batch_items": [{"n": 1}],
    "intermediate_expectations": {"say": 1},
}


@pytest.fixture
def cases() -> list[TestCase]:
    return [TestCase.from_dict(dict(record)) for record in (PLAIN, STEPS, BATCH, ALL)]


def test_every_method_of_a_case_returns_what_the_reference_says() -> None:
    """Values of the case, and the defaults of a case without them."""
    steps, plain = TestCase.from_dict(STEPS), TestCase.from_dict(PLAIN)
    assert (steps.get_input("text"), steps.get_input("custom"), steps.get_input("id")) == ("b", 7, "steps")
    assert (steps.get_input("none"), steps.get_input("none", default=3)) == (None, 3)
    assert steps.get_step_input("clean", "mode") == "strict"
    assert steps.get_step_input("clean", "none", default=1) == 1
    assert steps.get_step_input("nowhere", "mode") is None
    assert steps.get_intermediate_expectation("clean") == {"text": "b"}
    assert steps.get_intermediate_expectation("nowhere") is None
    assert steps.get_all_step_ids() == ["clean", "end", "say"]
    assert (steps.is_strict_mode(), steps.get_tolerance(), steps.get_ignore_fields()) == (True, 1.0, ["time"])
    assert (plain.is_strict_mode(), plain.get_tolerance(), plain.get_ignore_fields()) == (False, 0.0, [])
    assert (steps.has_step_inputs(), plain.has_step_inputs()) == (True, False)
    assert (steps.has_intermediate_expectations(), plain.has_intermediate_expectations()) == (True, False)
    batch = TestCase.from_dict(BATCH)
    assert (batch.has_expected_aggregation(), plain.has_expected_aggregation()) == (True, False)
    assert (batch.get_batch_size(), plain.get_batch_size()) == (2, 0)


def test_cases_are_selected_and_grouped_by_feature(cases: list[TestCase]) -> None:
    """`complex` has all three features, `simple` none."""
    plain, steps, batch, everything = cases
    assert TestsetLoader.get_batch_test_cases(cases) == [batch, everything]
    assert TestsetLoader.get_step_input_test_cases(cases) == [steps, everything]
    assert TestsetLoader.get_intermediate_evaluation_test_cases(cases) == [steps, everything]
    assert TestsetLoader.group_by_pipeline_features(cases) == {
        "simple": [plain],
        "multi_step": [steps, everything],
        "batch_processing": [batch, everything],
        "intermediate_evaluation": [steps, everything],
        "complex": [everything],
    }


def test_data_of_steps_and_batches_is_collected(cases: list[TestCase]) -> None:
    """Keys are missing where a case has no such value; averages of nothing are 0."""
    steps = cases[1]
    assert TestsetLoader.extract_step_data(steps, "clean") == {
        "inputs": {"mode": "strict"},
        "expected": {"text": "b"},
    }
    assert TestsetLoader.extract_step_data(steps, "end") == {"expected": "x"}
    assert TestsetLoader.extract_step_data(steps, "nowhere") == {}
    assert TestsetLoader.organize_batch_data(cases) == {
        "total_test_cases": 2,
        "total_batch_items": 3,
        "average_batch_size": 1.5,
        "test_cases": cases[2:],
    }
    assert TestsetLoader.organize_batch_data([])["average_batch_size"] == 0
    assert TestsetLoader.get_pipeline_structure(cases) == {
        "total_steps": 3,
        "all_step_ids": ["clean", "end", "say"],
        "steps_with_inputs": ["clean", "say"],
        "steps_with_expectations": ["clean", "end", "say"],
        "has_batch_processing": True,
        "has_intermediate_evaluation": True,
    }


def test_the_functions_of_the_module_are_the_methods(tmp_path: Path) -> None:
    """Loaded as cases or as records, with the arguments' names of the original."""
    path = tmp_path / "a_b.jsonl"
    path.write_text('{"id": "x", "text": "t", "expected_output": "r"}\n')
    (case,) = load_testset(file_path=str(path))
    assert case == TestCase("x", inputs={"text": "t"}, expected_outputs={"output": "r"})
    assert load_testset_dict(file_path=path) == [
        {"id": "x", "inputs": {"text": "t"}, "expected_outputs": {"output": "r"}}
    ]
    assert validate_testset(test_cases=[case]) == []
    assert validate_testset([case, case]) == [f"{path}:1 $.id: duplicate id 'x', first used in case 1"]


def test_one_tag_may_be_a_text(cases: list[TestCase]) -> None:
    """It is not split into letters, neither for including nor for excluding."""
    assert filter_by_tags(cases, include_tags="critical") == cases[:2]
    assert filter_by_tags(cases, include_tags="critical", exclude_tags="slow") == cases[:1]
    assert filter_by_tags(cases, include_tags=["slow", "other"]) == cases[1:2]
    assert filter_by_tags(cases, include_tags=None, exclude_tags=None) == cases


@pytest.mark.parametrize("text", ['{"id": 1', "", '{"id": 1, "tags": 5}\n'])
def test_a_wrong_file_is_a_value_error(text: str, tmp_path: Path) -> None:
    """As in the original's error handling."""
    path = tmp_path / "a_b.jsonl"
    path.write_text(text)
    with pytest.raises(ValueError, match=r"a_b\.jsonl"):
        load_testset(path)
    with pytest.raises(ValueError, match="tags"):
        TestCase.from_dict({"id": 1, "tags": 5})


@pytest.mark.parametrize("wrong", [{"tags": 123}, {"expected_outputs": []}, {"evaluation_config": "strict"}])
def test_a_record_of_wrong_types_is_a_value_error(wrong: dict[str, Any]) -> None:
    """Prompt Lab builds such a case. The page on pipelines says so."""
    with pytest.raises(ValueError, match=next(iter(wrong))):
        TestCase.from_dict({"id": "a", **wrong})


def test_a_missing_file_is_a_file_not_found_error(tmp_path: Path) -> None:
    """And no ValueError, so that the order of a script's `except` blocks does not matter."""
    with pytest.raises(FileNotFoundError, match=r"none\.jsonl: there is no such file") as raised:
        load_testset(tmp_path / "none.jsonl")
    assert not isinstance(raised.value, ValueError)


def test_records_of_v1_without_ids_get_their_line_numbers(tmp_path: Path) -> None:
    """In a testset of an agent. A v2 record still needs an id."""
    path = tmp_path / "agents" / "mood" / "testsets" / "a_b.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text('// agents\n{"text": "a", "expected": "x"}\n\n{"text": "b"}\n{"id": "own", "text": "c"}\n')
    assert [(case.id, case.inputs["text"]) for case in load_testset(path)] == [
        (2, "a"),
        (4, "b"),
        ("own", "c"),
    ]
    assert [case.id for case in TestsetLoader.iterate(path)] == [2, 4, "own"]
    path.write_text('{"inputs": {"text": "a"}}\n')
    with pytest.raises(ValueError, match=r"a_b\.jsonl:1: the id is missing; every case needs a unique id"):
        load_testset(path)
