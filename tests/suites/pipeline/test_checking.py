"""`assay check` for pipelines and testsets, and the checks before a run."""

from __future__ import annotations

from pathlib import Path

import pytest

import assay
from assay.core.errors import InputError
from assay.suites.pipeline.check import is_pipeline
from assay.suites.pipeline.suite import PipelineSuite

from support.pipeline_project import PipelineProject, case, says, typed
from support.suite_files import problems_of


@pytest.mark.parametrize(
    ("name", "text", "is_one"),
    [
        ("p.yaml", "steps: [{id: a}]", True),
        ("p.yml", "steps: []", True),
        ("p.yaml", "task: x\n", False),
        ("p.yaml", "steps: 3", False),
        ("p.yaml", "steps: [", False),
        ("p.json", "steps: []", False),
    ],
)
def test_a_pipeline_is_known_by_its_steps(lab: PipelineProject, name: str, text: str, is_one: bool) -> None:
    """A file that cannot be read is not recognised."""
    lab.write(name, text)
    assert is_pipeline(lab.folder / name) is is_one
    assert is_pipeline(lab.folder / "absent.yaml") is False


def test_a_testset_is_checked_against_its_pipeline(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """Unknown steps are warnings, by id or by output key; the exit code is 0."""
    lab.pipeline(says("one", output_key="first"))
    lab.tests(case("a", step_inputs={"one": {}, "first": {}, "two": {"x": 1}}, intermediate_expectations={"three": 1}))
    result = problems_of(PipelineSuite, lab.folder / "tests.jsonl", lab.folder / "p.yaml")
    warned = [problem.message for problem in result if problem.level == "warning"]
    assert len(warned) == 2
    assert "'two'" in warned[0] + warned[1]
    assert "'three'" in warned[0] + warned[1]
    done = typed(capsys, "check", "tests.jsonl", "--pipeline", "p.yaml")
    assert done.code == 0
    (lab.folder / "p.yaml").rename(lab.folder / "p.txt")
    assert [one for one in problems_of(PipelineSuite, lab.folder / "tests.jsonl") if one.level == "warning"] == []


def test_a_broken_pipeline_is_reported_instead_of_its_testset(lab: PipelineProject) -> None:
    """The testset cannot be checked against it."""
    lab.write("p.yaml", "steps: [")
    lab.tests(case("a"))
    (problem,) = problems_of(PipelineSuite, lab.folder / "tests.jsonl", lab.folder / "p.yaml")
    assert "p.yaml" in problem.where


def test_code_and_judges_are_no_faults_of_a_testset(lab: PipelineProject) -> None:
    """A run may allow the code and name a judge."""
    lab.tests(case("a", step_inputs={"s": {"code": "x"}}, expected_outputs={"one": "judge:x"}))
    assert [one for one in problems_of(PipelineSuite, lab.folder / "tests.jsonl") if one.level == "error"] == []


def test_invalid_expectations_are_found_before_the_run(lab: PipelineProject) -> None:
    """All at once: patterns, rules and conditions, in every field."""
    lab.pipeline(says("one"))
    lab.tests(
        case("a", expected_outputs={"one": {"deep": ["regex:("]}}),
        case("b", expected_aggregation="regex:["),
        case("c", intermediate_expectations={"one": "regex:*"}),
        case("d", evaluation_config={"rules": [{"kind": "max_char", "value": 3}]}),
        case("e", conditions="1 +"),
        case("f", step_inputs={"one": {"code": "x"}}),
        case("g", expected_outputs={"one": "judge:polite"}),
    )
    with pytest.raises(InputError) as refused:
        assay.run(lab.spec())
    places = [problem.where.split()[0] for problem in refused.value.problems]
    assert sorted(set(places)) == [f"tests.jsonl:{line}" for line in range(1, 8)]
    assert not (lab.folder / "out").exists()


def test_a_testset_of_an_agent_without_ids_gets_one_warning(lab: PipelineProject) -> None:
    """Prompt Lab's agents have such sets. The line numbers are the ids, and no two records may have the same."""
    path = Path("agents/mood/testsets/agent_v1.jsonl")
    path.parent.mkdir(parents=True)
    lab.write(str(path), '{"text": "a"}\n{"text": "b"}\n{"id": 2, "text": "c"}\n')
    warning, error = [problem for problem in problems_of(PipelineSuite, path) if problem.level != "advice"]
    assert warning.level == "warning"
    assert str(warning).startswith(f"{path}:1: the id is missing, here and in 1 more; the line number is used")
    assert str(error) == f"{path}:3 $.id: duplicate id '2', first used on line 2"


def test_a_record_of_a_pipeline_needs_an_id_in_both_formats(lab: PipelineProject) -> None:
    """The format document requires it."""
    lab.write("greet_basic.jsonl", '{"text": "a"}\n{"inputs": {"text": "b"}}\n')
    assert [str(problem) for problem in problems_of(PipelineSuite, Path("greet_basic.jsonl"))] == [
        f"greet_basic.jsonl:{line}: the id is missing; every case needs a unique id" for line in (1, 2)
    ]


@pytest.mark.parametrize(
    "step", ["code_file: gone.js", "language: javascript, code_file: gone.js", "code_file: gone.py"]
)
def test_a_missing_code_file_is_one_problem(lab: PipelineProject, step: str) -> None:
    lab.write("flow.yaml", f"steps:\n  - {{id: a, type: code, {step}}}\n")
    (problem,) = problems_of(PipelineSuite, Path("flow.yaml"))
    assert str(problem).startswith("flow.yaml:2: steps.0.code_file: there is no file 'gone.")
