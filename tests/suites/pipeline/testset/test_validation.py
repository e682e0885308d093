"""Problems of records, and the report of files with many of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from assay import TestCase, TestsetLoader
from assay.core.errors import InputError, Problem
from assay.suites.pipeline.testset.scan import check_testset, is_testset
from assay.suites.pipeline.testset.validation import MemoryRecord, check_record

GOLDEN = Path(__file__).parents[3] / "golden" / "pipeline"


def test_thirty_faults_in_one_file_are_all_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each with its line and path."""
    monkeypatch.chdir(GOLDEN)
    wanted = (GOLDEN / "thirty_faults.expected").read_text().splitlines()
    wanted = [line.strip() for line in wanted if line.startswith("  thirty_faults")]
    assert sorted(map(str, check_testset(Path("thirty_faults.jsonl")))) == sorted(wanted)
    assert len(wanted) >= 30


def test_errors_refuse_a_file_and_warnings_do_not() -> None:
    """The loader raises all errors at once."""
    with pytest.raises(InputError) as caught:
        TestsetLoader.load_testset(GOLDEN / "thirty_faults.jsonl")
    assert {problem.level for problem in caught.value.problems} == {"error"}
    assert len(caught.value.problems) >= 30


@pytest.mark.parametrize(
    ("record", "level", "path"),
    [
        ({"evaluation_config": {"rules": [], "tolerance": 0}}, None, ""),
        ({"evaluation_config": {"tolerance": 10**400}}, None, ""),
        ({"evaluation_config": {"tolerance": float("inf")}}, "error", "$.evaluation_config.tolerance"),
        ({"evaluation_config": {"tolerance": "0.1"}}, "error", "$.evaluation_config.tolerance"),
        ({"evaluation_config": {"ignore_fields": ["a", 1]}}, "error", "$.evaluation_config.ignore_fields[1]"),
        ({"evaluation_config": {"evaluate_final": 1}}, "error", "$.evaluation_config.evaluate_final"),
        ({"evaluation_config": {"odd one": 1}}, "warning", '$.evaluation_config["odd one"]'),
        ({"intermediate_expectations": {"a": 5}}, None, ""),
        ({"expected_aggregation": 5}, None, ""),
        ({"batch_items": []}, "advice", "$.batch_items"),
        ({"batch_items": [{}] * 20, "expected_aggregation": 1}, None, ""),
        ({"batch_items": [{}] * 21, "expected_aggregation": 1}, "advice", "$.batch_items"),
        ({"parameters": {"a": 1}}, "error", "$.parameters.a"),
        ({"parameters": {"a": list(range(101)), "b": list(range(100))}}, "error", "$.parameters"),
        (
            {"parameters": None, "depends_on": None, "conditions": None, "performance_baseline": None},
            None,
            "",
        ),
        ({"depends_on": ["a", 1.5]}, "error", "$.depends_on[1]"),
        ({"conditions": 5}, "error", "$.conditions"),
        ({"performance_baseline": {"max_seconds": 1.5, "max_tokens": 9, "steps": {"s": {}}}}, None, ""),
        ({"performance_baseline": {"max_tokens": -1}}, "error", "$.performance_baseline.max_tokens"),
        ({"performance_baseline": {"steps": []}}, "error", "$.performance_baseline.steps"),
        (
            {"performance_baseline": {"steps": {"s": {"steps": 1}}}},
            "error",
            "$.performance_baseline.steps.s.steps",
        ),
        ({"expected_output": 1, "expected_outputs": {"output": 1}}, None, ""),
        ({"expected_mood": 1, "expected_outputs": {"mood": 2}}, "warning", "$.expected_mood"),
    ],
)
def test_a_fault_has_a_level_and_a_path(record: dict[str, Any], level: str | None, path: str) -> None:
    """Wrong types are errors, doubtful values warnings, possible improvements advice."""
    problems: list[Problem] = []
    check_record({"id": "a", **record}, frozenset(), MemoryRecord(), problems)
    result = [(problem.level, problem.where) for problem in problems]
    assert result == ([(level, path)] if level else [])


def test_steps_that_the_pipeline_does_not_have_are_warnings(tmp_path: Path) -> None:
    """In every field that names a step; without a pipeline there is no check."""
    path = tmp_path / "a_b.jsonl"
    path.write_text(
        '{"id": 1, "step_inputs": {"one": {}, "x": {}}, "intermediate_expectations": {"y": 1},'
        ' "performance_baseline": {"steps": {"z": {}}}}\n'
    )
    assert check_testset(path) == []
    result = check_testset(path, frozenset({"one"}))
    assert {problem.level for problem in result} == {"warning"}
    assert [problem.where.partition(" ")[2] for problem in result] == [
        "$.step_inputs.x",
        "$.intermediate_expectations.y",
        "$.performance_baseline.steps.z",
    ]


@pytest.mark.parametrize(
    ("name", "advised"),
    [("sentiment_basic", False), ("a_b_v1", False), ("sentiment", True), ("my set_v1", True)],
)
def test_unusual_file_names_get_advice(tmp_path: Path, name: str, advised: bool) -> None:
    """Short names of the document's own tree are accepted."""
    path = tmp_path / f"{name}.jsonl"
    path.write_text('{"id": 1}')
    assert [problem.level for problem in check_testset(path)] == (["advice"] if advised else [])


@pytest.mark.parametrize("text", ["", "\n// nothing\n"])
def test_a_file_without_a_case_is_an_error(tmp_path: Path, text: str) -> None:
    path = tmp_path / "a_b.jsonl"
    path.write_text(text)
    with pytest.raises(InputError, match="there is no test case"):
        TestsetLoader.load_testset(path)


def test_very_many_problems_are_counted(tmp_path: Path) -> None:
    """A file of ten thousand faults fills neither the memory nor the screen."""
    path = tmp_path / "a_b.jsonl"
    path.write_text('{"inputs": {}}\n' * 1500)
    result = check_testset(path)
    assert len(result) == 1001
    assert result[-1].message == "and 500 more errors"


def test_cases_in_memory_can_be_validated() -> None:
    """Duplicates and dependencies too; valid cases give an empty list."""
    assert TestsetLoader.validate_testset([TestCase("a"), TestCase("b", tags=["t"])]) == []
    tied = TestCase.from_dict({"id": "c", "depends_on": ["c", "d"]})
    wrong = [TestCase(1), TestCase("1", batch_items={"a": 1}), tied]  # type: ignore[arg-type]
    assert TestsetLoader.validate_testset(wrong) == [
        "case 2 $.batch_items: must be a list of objects, not an object",
        "case 2 $.id: duplicate id '1', first used in case 1",
        "c $.depends_on: there is no case 'd'",
        "these cases wait for each other: c → c",
    ]


@pytest.mark.parametrize(
    ("record", "is_one"),
    [
        ('{"id": 1, "inputs": {}}', True),
        ('{"inputs": "q", "targets": "a"}', False),
        ('{"text": "q", "expected_output": "a"}', True),
        ('{"id": 1, "question": "q", "answer": "a"}', False),
        ('{\n"batch_items": []}', True),
        ("", False),
    ],
)
def test_a_testset_is_recognised_by_its_first_record(tmp_path: Path, record: str, is_one: bool) -> None:
    """Data files of tasks are not; below `testsets` every file is a testset."""
    path = tmp_path / "data.jsonl"
    path.write_text(record)
    assert is_testset(path) is is_one
    inside = tmp_path / "testsets" / "unit" / "data.jsonl"
    inside.parent.mkdir(parents=True)
    inside.write_text(record)
    assert is_testset(inside)
