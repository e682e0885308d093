"""Logs of Inspect become runs with Inspect's own numbers. The logs were written by inspect_ai with its mock model."""

from __future__ import annotations

import json
import shutil
import zipfile
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.files.read import decode_json
from assay.files.zip_files import ZipArchive
from assay.formats.inspect.results import value_to_float
from assay.runner import api
from assay.runner.results import Run

from support.commands import typed

GOLDEN = Path(__file__).parents[1] / "golden" / "inspect"
LOGS = sorted(path.name for path in GOLDEN.iterdir())


def raw_log(path: Path) -> dict[str, Any]:
    """The header of a log as plain values, read without the code under test where that is possible."""
    if path.suffix == ".json":
        value: dict[str, Any] = json.loads(path.read_bytes())
        return value
    with ZipArchive(path) as archive:
        header: dict[str, Any] = decode_json(archive.read("header.json"), "header.json")
    return header


def imported(name: str, tmp_path: Path) -> Run:
    return assay.import_results(GOLDEN / name, str(tmp_path / name))


@pytest.mark.parametrize("name", LOGS)
def test_numbers_are_those_of_the_log(name: str, tmp_path: Path) -> None:
    run = imported(name, tmp_path)
    results = raw_log(GOLDEN / name)["results"]["scores"]
    several = len({result.get("reducer") for result in results}) > 1
    checked = 0
    for result in results:
        title = result["name"] if result["name"] == result["scorer"] else f"{result['scorer']}.{result['name']}"
        part = result["reducer"] if several else ""
        main = "accuracy" if "accuracy" in result["metrics"] else "mean"
        metric = run.metric(title, filter=part)
        assert metric.value == result["metrics"][main]["value"]
        assert metric.stderr == result["metrics"]["stderr"]["value"]
        assert metric.denominator == result.get("scored_samples", metric.denominator)
        checked += 1
        if "std" in result["metrics"]:
            assert run.metric(f"{title}.std", filter=part).value == result["metrics"]["std"]["value"]
    assert checked == len(results) > 0
    assert run.report is not None
    assert [notice for notice in run.report.notices if "its samples give" in notice] == []


def test_epochs_are_repeats_of_a_case_and_reducers_are_parts(tmp_path: Path) -> None:
    run = imported("epochs.eval", tmp_path)
    cases = list(run.cases())
    assert [case.label for case in cases] == ["q1", "q2", "q3", "q4", "q5"]
    first = cases[0]
    assert len(first.answers) == 3
    assert first.scores["match,mean"].data["repeats"] == [1.0, 1.0, 0.0]
    assert first.scores["match,mean"].value == pytest.approx(2 / 3)
    assert first.scores["match,at_least_2"].value == 1.0
    assert first.gold == {"target": "4"}
    assert first.inputs is not None
    assert first.inputs["input"] == "What is 2+2?"
    # A letter that means half a point, a dict of two numbers, and a score that is NaN.
    assert cases[3].scores["letters,mean"].value == 0.5
    assert {"several.right,mean", "several.length,mean"} <= set(first.scores)
    unscored = cases[2].scores["number,mean"]
    assert (unscored.value, unscored.status, unscored.reason) == (None, "not_applicable", "cannot say")
    assert run.report is not None
    slices = {each.name: each.metrics[0] for each in run.report.entries[0].slices}
    assert slices["geo"].value == pytest.approx(2 / 3)
    assert slices["geo"].denominator == 2


def test_prompts_replies_tokens_and_times_are_kept(tmp_path: Path) -> None:
    run = imported("tools.eval", tmp_path)
    second = list(run.cases())[1]
    first_call, last_call = second.calls
    assert first_call.response is not None
    assert first_call.response.data["tool_calls"][0]["arguments"] == {"x": 1, "y": 1}
    assert last_call.request is not None
    assert [message["role"] for message in last_call.request.messages or ()] == ["user", "assistant", "tool"]
    assert last_call.response is not None
    assert (last_call.response.text, last_call.response.finish) == ("2", "stop")
    assert last_call.response.usage is not None
    assert last_call.response.usage.input == 41
    assert second.seconds > 0


@pytest.mark.parametrize("name", ["tools.json", "tools-chunked.eval"])
def test_all_shapes_of_a_log_give_the_same_cases(name: str, tmp_path: Path) -> None:
    """The JSON log is of another run of the same task. The other archive has its samples in pieces of four items."""
    archive, other = imported("tools.eval", tmp_path), imported(name, tmp_path)
    assert [case.key for case in archive.cases()] == [case.key for case in other.cases()]
    assert [[call.request for call in case.calls] for case in archive.cases()] == [
        [call.request for call in case.calls] for case in other.cases()
    ]


@pytest.mark.parametrize("name", ["errors.eval", "errors-0.3.100.json"])
def test_errors_are_left_out(name: str, tmp_path: Path) -> None:
    run = imported(name, tmp_path)
    cases = {case.label: case for case in run.cases()}
    failed = cases["q2"]
    assert failed.error is not None
    assert "the tool broke" in failed.error.message
    assert failed.status == "infra_error"
    assert run["includes"].left_out == {"error": 1}
    assert run["includes"].denominator == 4


def test_limit_that_ended_a_sample_is_recorded(tmp_path: Path) -> None:
    """Inspect scores such a sample, so it is no failure."""
    limited = {case.label: case for case in imported("errors.eval", tmp_path).cases()}["q3"]
    assert limited.error is None
    assert limited.scores["includes"].value == 0.0
    assert limited.scores["includes"].data["ended_by"] == ["the token limit of 3"]


def test_two_logs_of_a_task_pair_in_compare(tmp_path: Path) -> None:
    base, new = imported("plain.eval", tmp_path), imported("other.eval", tmp_path)
    (row,) = [row for row in api.compare(base, new).comparisons[0].rows if row.metric == "match"]
    assert (row.n, row.base, row.new) == (5, base["match"].value, new["match"].value)


def test_log_of_a_killed_evaluation_is_computed_from_its_samples(tmp_path: Path) -> None:
    """Without header.json, the beginning is in the journal of the archive."""
    path = tmp_path / "killed.eval"
    with (
        ZipArchive(GOLDEN / "plain.eval") as archive,
        zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as target,
    ):
        header = decode_json(archive.read("header.json"), "header.json")
        start = {key: header[key] for key in ("version", "eval", "plan")}
        target.writestr("_journal/start.json", json.dumps(start))
        for name in archive.names():
            if name.startswith("samples/") and "q5" not in name:
                target.writestr(name, archive.read(name))
    run = assay.import_results(path, str(tmp_path / "out"))
    assert run["match"].denominator == 4
    assert run.info.imported is not None
    assert "1 of 5 samples" in run.info.imported.missing
    assert run.report is not None
    assert "the log has the status 'started'" in run.report.notices[0]


@pytest.mark.parametrize(
    ("value", "number"),
    [
        ("C", 1.0),
        ("I", 0.0),
        ("P", 0.5),
        ("N", 0.0),
        ("yes", 1.0),
        ("False", 0.0),
        ("0.25", 0.25),
        (True, 1.0),
        (3, 3.0),
        (float("nan"), None),
        (None, None),
        ("GOOD", None),
        ([1, 2], None),
        (10**400, None),
    ],
)
def test_values_count_as_in_inspect(value: Any, number: float | None) -> None:
    assert value_to_float(value) == number


@pytest.mark.parametrize(
    ("begin", "end"),
    [
        ({"event": "span_begin", "type": "scorer", "id": "s"}, {"event": "span_end", "id": "s"}),
        (
            {"event": "step", "action": "begin", "type": "scorer"},
            {"event": "step", "action": "end", "type": "scorer"},
        ),
    ],
    ids=["spans", "steps"],
)
def test_calls_of_a_model_grader_belong_to_the_scorer(
    begin: dict[str, Any], end: dict[str, Any], tmp_path: Path
) -> None:
    """Their replies are no answers of the evaluated model. Logs before 2025-05 have steps in place of spans."""
    log = raw_log(GOLDEN / "tools.json")
    events = log["samples"][0]["events"]
    grader = {
        "event": "model",
        "model": "grader",
        "input": [{"role": "user", "content": "Is it right?"}],
        "output": {"choices": [{"message": {"role": "assistant", "content": "GRADE: C"}}]},
    }
    asks = [event for event in events if event["event"] == "model"]
    log["samples"][0]["events"] = [begin, grader, end, *asks]
    path = tmp_path / "graded.json"
    path.write_text(json.dumps(log))
    case = next(assay.import_results(path, str(tmp_path / "out")).cases())
    assert [call.stage for call in case.calls] == ["inspect@imported", "ask", "ask"]


def test_a_folder_of_logs_becomes_a_run_each(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A broken log is told, and the logs after it are imported. Other files of the folder are not."""
    logs = tmp_path / "logs"
    logs.mkdir()
    for name in ("plain.eval", "tools.json"):
        shutil.copy(GOLDEN / name, logs)
    (logs / "eval-set.json").write_text('{"tasks": []}')
    (logs / "broken.eval").write_bytes(b"PK")
    out = str(tmp_path / "out")
    assert typed("import", str(logs), "--output-dir", out) == 2
    printed = capsys.readouterr()
    assert "broken.eval" in printed.err
    assert printed.out.count("5 cases from inspect results") == 2
    (logs / "broken.eval").unlink()
    assert typed("import", str(logs), "--output-dir", out, "--as", "inspect") == 0
    assert capsys.readouterr().out.count("was imported before") == 2
    with pytest.raises(UsageError, match="each is a run. Pass one of them, such as .*plain.eval"):
        assay.import_results(logs, out)


def test_a_folder_without_logs_gets_a_sentence(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert typed("import", str(tmp_path)) == 2
    assert "inspect: .eval or .json logs, or a folder with them" in capsys.readouterr().err
    assert typed("import", str(tmp_path), "--as", "inspect") == 2
    assert "Expected: .eval or .json logs, or a folder with them" in capsys.readouterr().err
