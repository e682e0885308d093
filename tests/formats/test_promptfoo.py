"""Results of promptfoo become runs with its counts. The files were written by promptfoo 0.120.27 (`eval -o`)."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.runner import api
from assay.runner.results import Run

GOLDEN = Path(__file__).parents[1] / "golden" / "promptfoo"
FILES = sorted(path.name for path in GOLDEN.iterdir())
SUBJECTS = ["parrot · Answer: {{question}}", "parrot · loud prompt", "answers · Answer: {{question}}"]


def imported(path: Path, tmp_path: Path) -> Run:
    return assay.import_results(path, str(tmp_path / f"from-{path.name}"))


@pytest.fixture
def output() -> dict[str, Any]:
    value: dict[str, Any] = json.loads((GOLDEN / "out.json").read_bytes())
    return value


@pytest.mark.parametrize("name", FILES)
def test_counts_are_those_of_promptfoo(name: str, tmp_path: Path, output: dict[str, Any]) -> None:
    run = imported(GOLDEN / name, tmp_path)
    assert run.report is not None
    assert [entry.name for entry in run.report.entries] == [*SUBJECTS, "answers · loud prompt"]
    for entry, prompt in zip(run.report.entries, output["results"]["prompts"], strict=True):
        counts = prompt["metrics"]
        passed = entry.metric("pass")
        assert passed is not None
        assert passed.numerator == counts["testPassCount"]
        assert passed.denominator == counts["testPassCount"] + counts["testFailCount"]
        assert passed.left_out.get("error", 0) == counts["testErrorCount"]
        score = entry.metric("score")
        assert score is not None
        assert score.value == pytest.approx(counts["score"] / passed.denominator)
        for metric, total in counts["namedScores"].items():
            named = entry.metric(metric)
            assert named is not None
            assert named.value == pytest.approx(total / counts["namedScoresCount"][metric])


def test_all_three_files_give_the_same_cases(tmp_path: Path) -> None:
    runs = [imported(GOLDEN / name, tmp_path) for name in FILES]
    cases = [[(c.key, c.subject, c.label, c.answers, c.tags, [*c.scores.items()]) for c in run.cases()] for run in runs]
    without_index = [
        [(*case[:5], [(name, score.value, score.reason) for name, score in case[5]]) for case in each] for each in cases
    ]
    assert without_index[0] == without_index[1] == without_index[2]
    assert len(cases[0]) == 16


def test_case_has_its_variables_prompt_tokens_cost_and_reasons(tmp_path: Path) -> None:
    run = imported(GOLDEN / "out.json", tmp_path)
    cases = {(case.label, case.subject): case for case in run.cases()}
    wrong = cases["sum", SUBJECTS[0]]
    assert wrong.inputs == {"question": "2+2", "gold": "4"}
    assert wrong.scores["pass"].reason == 'Expected output "Answer: 2+2" to equal "4"'
    assert wrong.scores["right"].value == 0.0
    assert wrong.scores["not-contains"].value == 1.0
    assert wrong.tags == ("level=easy", "category=sums")
    right = cases["sum", SUBJECTS[2]]
    (call,) = right.calls
    assert call.request is not None
    assert call.request.prompt == "Answer: 2+2"
    assert call.response is not None
    assert (call.response.text, call.response.cost, call.seconds) == ("4", 0.002, 0.003)
    costs = [each.response.cost for case in run.cases() for each in case.calls if each.response]
    assert run.summary.cost == pytest.approx(sum(cost for cost in costs if cost is not None))
    assert call.response.usage is not None
    assert (call.response.usage.input, call.response.usage.output) == (8, 4)
    failed = cases["broken", SUBJECTS[2]]
    assert (failed.status, failed.error_message) == ("infra_error", "provider_error: API error: 500 broken")


def test_providers_of_one_file_pair_in_compare(tmp_path: Path) -> None:
    run = imported(GOLDEN / "out.json", tmp_path)
    names = [f"{run.folder}@{subject}" for subject in (SUBJECTS[0], SUBJECTS[2])]
    (row,) = [row for row in api.compare(*names).comparisons[0].rows if row.metric == "pass"]
    # The second provider has no answer to one of the four tests.
    assert (row.n, row.new) == (3, 1.0)
    assert row.base == pytest.approx(2 / 3)


def test_file_of_version_2_has_no_numbers_of_tests(tmp_path: Path, output: dict[str, Any]) -> None:
    summary = output["results"]
    for result in summary["results"]:
        for key in ("testIdx", "promptIdx", "failureReason"):
            del result[key]
        result["provider"] = result["provider"]["id"]
    path = tmp_path / "old.json"
    path.write_text(json.dumps({"version": 2, "results": summary["results"], "stats": summary["stats"]}))
    run = imported(path, tmp_path)
    statuses = [case.status for case in run.cases()]
    assert (statuses.count("ok"), statuses.count("infra_error")) == (14, 2)
