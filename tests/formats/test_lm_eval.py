"""Results of lm-evaluation-harness become runs with the same numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import assay

GOLDEN = Path(__file__).parents[1] / "golden" / "lm_eval" / "out"


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_numbers_are_those_of_the_results_file(name: str, tmp_path: Path) -> None:
    (results,) = (GOLDEN / name).glob("*/results_*.json")
    run = assay.import_results(results, str(tmp_path))
    assert run.report is not None
    assert run.report.notices == []  # the samples give the same numbers
    numbers = json.loads(results.read_bytes())["results"]
    for entry, metric in run.report.metrics():
        file_value = numbers[entry.name][f"{metric.name},{metric.filter}"]
        file_error = numbers[entry.name][f"{metric.name}_stderr,{metric.filter}"]
        assert (metric.value, metric.stderr) == (file_value, None if file_error == "N/A" else file_error)
    listed = {(entry.name, f"{metric.name},{metric.filter}") for entry, metric in run.report.metrics()}
    in_file = {
        (task, key) for task, values in numbers.items() for key in values if "," in key and "_stderr," not in key
    }
    assert listed == in_file


def test_second_import_finds_the_first(tmp_path: Path) -> None:
    first = assay.import_results(GOLDEN / "b_em", str(tmp_path))
    second = assay.import_results(GOLDEN / "b_em", str(tmp_path))
    assert (first.asked, second.asked) == (True, False)
    assert first.folder == second.folder
    assert [path.name for path in first.folder.parent.iterdir()] == [first.folder.name]


def test_every_case_of_an_imported_run_can_be_read(tmp_path: Path) -> None:
    """The lines of the journal carry the id of the run, so none of them counts as damaged."""
    run = assay.import_results(GOLDEN / "b_em", str(tmp_path))
    assert len(list(run.cases())) == run.summary.total > 0


def test_a_proportion_is_recognised_by_name_and_error_where_the_samples_are_missing(tmp_path: Path) -> None:
    """Its interval is that of a run with samples. Another number from 0 to 1 may exceed 1."""
    numbers = {
        "acc,none": 0.9,
        "acc_stderr,none": (0.9 * 0.1 / 9) ** 0.5,
        "exact_match,none": 0.0,
        "exact_match_stderr,none": 0.0,
        "rouge2_diff,none": 0.0,
        "rouge2_diff_stderr,none": 0.0,
        "bpb,none": 0.9,
        "bpb_stderr,none": 0.2,
    }
    file = {
        "results": {"t": {"alias": "t", **numbers}},
        "configs": {"t": {"task": "t"}},
        "n-samples": {"t": {"original": 10, "effective": 10}},
        "config": {"model": "m"},
    }
    path = tmp_path / "results_2026-01-01T00-00-00.000000.json"
    path.write_text(json.dumps(file))
    report = assay.import_results(path, str(tmp_path / "out")).report
    assert report is not None
    metrics = {metric.name: metric for _, metric in report.metrics()}
    assert metrics["acc"].interval == pytest.approx((0.5958, 0.9821), abs=1e-4)
    assert metrics["exact_match"].interval == pytest.approx((0.0, 0.2775), abs=1e-4)
    assert metrics["rouge2_diff"].interval is None
    assert metrics["bpb"].interval == pytest.approx((0.9 - 0.392, 0.9 + 0.392), abs=1e-3)
