"""Result files of HOP become runs with the numbers of the batch that wrote them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import assay
from assay.core.errors import InputError, UsageError
from assay.core.report import Entry, Report, Table
from assay.runner import api
from assay.store.cases import RunCases

from support.hop_batch import Batch, as_lines
from support.pipeline_project import typed

CODE = """
def hop(n, session):
    with session.tracer.trace_step("hop_get", task="double it") as step:
        step.retry_count = n % 3
    if n == 3:
        raise KeyError("gone")
    if n == 4:
        return "UNCERTAIN", {"answer": n * 2, "score": 2}
    if n == 5:
        return "FAIL", "no idea"
    return {"answer": str(n * 2), "score": n % 5 + 1, "nested": {"list": [n]}}
"""
CONTRACT = """
name: Double
inputs: {n: int}
outputs:
  answer: {type: int, compare: within, within: 1}
  score: {type: int, compare: bands, bands: {LOW: [1, 2], HIGH: [3, 5]}}
"""


def rows() -> list[dict[str, Any]]:
    """Rows of every kind: right, wrong, without expected values, of three difficulties."""
    return [
        {
            "id": n if n % 2 else f"row {n}",
            "tag": "even" if n % 2 == 0 else "odd",
            "n": n,
            "extra": "not an input of the contract",
            **({"difficulty": ("easy", "medium", "hard")[n % 3]} if n > 2 else {}),
            **({"expected_answer": n * 2 + n % 2, "expected_score": n % 4 + 1} if n != 6 else {}),
        }
        for n in range(1, 11)
    ]


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """A task with a contract and rows of every kind."""
    batch = Batch(tmp_path / "Double", CODE, rows())
    batch.contract(CONTRACT.strip())
    return batch


def only_entry(run: assay.Run) -> Entry:
    """The entry of a run with one profile."""
    assert run.report is not None
    (entry,) = run.report.entries
    return entry


def tables(report: Report | None, *without: str) -> list[list[Table]]:
    """The tables of each entry, except those of these names."""
    assert report is not None
    return [[table for table in entry.tables if table.name not in without] for entry in report.entries]


@pytest.mark.parametrize(
    ("wrapper", "lost"), [("flat", ["seconds"]), ("view", ["seconds", "operators"])], ids=["flat", "view"]
)
def test_every_number_is_that_of_the_batch(wrapper: str, lost: list[str], batch: Batch, tmp_path: Path) -> None:
    """Metrics with their intervals, slices, counts and differing rows, for two profiles."""
    batch.profiles("fast", "careful")
    run = batch.run(wrapper=wrapper)
    imported = assay.import_results(run.files[0], str(tmp_path / "imported"))
    assert run.report is not None
    assert imported.report is not None
    for native, entry in zip(run.report.entries, imported.report.entries, strict=True):
        assert (entry.name, entry.metrics, entry.counts) == (native.name, native.metrics, native.counts)
        assert (entry.slices, entry.examples) == (native.slices, native.examples)
        assert {part.by for part in entry.slices} == {"tag", "difficulty", "field"}
    assert tables(imported.report) == tables(run.report, *lost)
    assert (imported.summary.ok, imported.summary.subject_error) == (
        run.summary.ok,
        run.summary.subject_error,
    )


@pytest.mark.parametrize("wrapper", ["flat", "view"])
def test_compare_pairs_an_imported_batch_with_a_batch_of_assay(wrapper: str, batch: Batch, tmp_path: Path) -> None:
    run = batch.run(wrapper=wrapper)
    imported = assay.import_results(run.files[0], str(tmp_path / "imported"))
    (comparison,) = api.compare(str(run.folder), str(imported.folder)).comparisons
    assert (comparison.paired, comparison.only_base.count, comparison.only_new.count) == (10, 0, 0)
    (row,) = comparison.rows
    assert (row.n, row.difference, row.left_out) == (9, 0.0, {"not_applicable in both": 1})


def test_records_are_those_of_the_batch(batch: Batch, tmp_path: Path) -> None:
    """Also statuses such as UNCERTAIN, and the text of each result to the byte."""
    run = batch.run()
    imported = assay.import_results(run.files[0], str(tmp_path / "imported"))
    for native, case in zip(RunCases(run.folder), RunCases(imported.folder), strict=True):
        heads = [(end.index, end.case, end.set, end.subject, end.label) for end in (native.end, case.end)]
        assert heads[0] == heads[1]
        assert case.answer == native.answer
        assert case.records[0].data == rows()[case.end.index]
        scores = [[(each.value, each.expected, each.data) for each in stored.scores] for stored in (native, case)]
        assert scores[0] == scores[1]
    (failed,) = [end for end in RunCases(imported.folder).ends() if end.failure is not None]
    assert failed.failure is not None
    assert (failed.failure.kind, failed.label) == ("user_code", "3")
    assert failed.failure.message.startswith("[KeyError] 'gone'")


def test_times_and_steps_come_from_the_log_of_the_observer(batch: Batch, tmp_path: Path) -> None:
    """An earlier batch over the same rows is in the same log. Its calls do not count."""
    batch.run(timeout=100.0)
    run = batch.run(timeout=200.0, fresh=True)
    log = batch.out / "observer.jsonl"
    before = log.read_text().splitlines()
    imported = assay.import_results(run.files[0], str(tmp_path / "imported"))
    origin = imported.info.imported
    assert origin is not None
    assert str(log) in [file.path for file in origin.files]
    assert not any("times" in name for name in origin.missing)
    (seconds,) = [table for table in only_entry(imported).tables if table.name == "seconds"]
    assert seconds.rows[0][0] == 10
    started = json.loads(before[0])["timestamp"]
    cases = RunCases(imported.folder)
    steps = [record for case in cases for record in case.records if record.kind == "step"]
    assert len(steps) == 10
    assert {record.data["task"] for record in steps} == {"double it"}
    assert all(record.data["timestamp"] > started for record in steps)


def test_a_step_without_details_is_shown(batch: Batch, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = batch.run()
    (batch.out / "observer.jsonl").unlink()
    imported = assay.import_results(run.files[0], str(tmp_path / "imported"))
    shown = typed(capsys, "show", str(imported.folder), "0")
    assert shown.code == 0
    assert "step 1 hop_get: OK (1 × retried)" in shown.out


def in_file(folder: Path, *lines: Any, name: str = "answers.jsonl") -> Path:
    """A result file with these lines."""
    path = folder / name
    path.write_text(as_lines(lines), encoding="utf-8")
    return path


def missing(run: assay.Run) -> list[str]:
    """What the import could not find in the file."""
    assert run.info.imported is not None
    return run.info.imported.missing


def test_the_lines_of_the_document_are_imported(tmp_path: Path) -> None:
    """Both forms of the document, in one file, as the document allows."""
    path = in_file(
        tmp_path,
        {
            "_type": "meta",
            "profile": "kimi-full",
            "run_llm": "Kimi-K2-Instruct-0905",
            "run_params": {"temperature": 0.1},
            "timestamp": "2026-02-19T10:30:00",
        },
        {
            "id": 1,
            "tag": "fabrication",
            "context_window": "…",
            "model_output": "…",
            "hop_result": '{"hallucination_detected": true}',
            "hop_stats": {"retry_count": 0, "execution_path": ["get", {"op": "hop_judge"}], "status": "OK"},
            "expected_hallucination_detected": True,
            "profile": "kimi-full",
        },
        {"input": {"question": "HOP 是什么？"}, "result": '{"answer": "...", "confidence": "High"}'},
        {"input": {"question": "fail case"}, "error": "timeout"},
        {"id": 9, "question": "q", "hop_result": '["UNCERTAIN", "{\\"answer\\": 4}"]'},
    )
    run = assay.import_results(path, str(tmp_path / "imported"))
    assert run.info.spec["model"] == "Kimi-K2-Instruct-0905"
    entry = only_entry(run)
    assert entry.name == "kimi-full"
    assert [str(metric) for metric in entry.metrics] == [
        "right of all 1.000 (0.21–1.00) 1/1",
        "right of completed 1.000 (0.21–1.00) 1/1",
        "completed 0.500 (0.15–0.85) 2/4",
    ]
    answers = [[each.data for each in case.records if each.kind == "answer"] for case in RunCases(run.folder)]
    assert [answer and answer[0]["status"] for answer in answers] == ["OK", "OK", [], "UNCERTAIN"]
    assert answers[3][0]["result"] == '{"answer": 4}'
    assert [end.status for end in RunCases(run.folder).ends()] == ["ok", "ok", "subject_error", "ok"]
    assert "ids (2 of 4 rows are numbered instead)" in missing(run)
    assert "the contract of the task (bands and tolerances of its outputs)" in missing(run)


def test_rows_of_the_view_without_ids_are_paired_by_their_numbers(tmp_path: Path) -> None:
    """The View of HOP writes neither ids nor meta lines."""
    batch = Batch(tmp_path / "t", rows=[{"n": n} for n in (5, 6, 7)])
    run = batch.run()
    results = [{"input": {"n": n}, "result": json.dumps({"answer": n * 2})} for n in (5, 6, 7)]
    imported = assay.import_results(in_file(tmp_path, *results, name="rows.jsonl"), str(tmp_path / "imported"))
    keys = [[end.case for end in RunCases(each.folder).ends()] for each in (run, imported)]
    assert keys[0] == keys[1]
    assert only_entry(imported).name == "(none)"
    assert "profiles" in missing(imported)


def test_bare_pairs_are_results_without_inputs(tmp_path: Path) -> None:
    path = in_file(tmp_path, ["OK", '{"answer": 4}'], ["FAIL", "no idea"], ["ERROR", "timeout"])
    run = assay.import_results(path, str(tmp_path / "imported"))
    assert only_entry(run).counts == {"total": 3, "errors": 1}
    assert "inputs (3 of 3 rows)" in missing(run)


def test_rows_of_several_profiles_that_are_not_named_stay_unknown(tmp_path: Path) -> None:
    """With all meta lines first, no row of the View tells its profile."""
    meta = [{"_type": "meta", "profile": name} for name in ("a", "b")]
    path = in_file(tmp_path, *meta, {"input": {"id": 1, "q": "x"}, "result": '{"a": 1}'})
    run = assay.import_results(path, str(tmp_path / "imported"))
    assert only_entry(run).name == "(none)"


def test_a_task_folder_with_one_result_file_is_imported(tmp_path: Path) -> None:
    """The rows, the log and the settings beside the result file are no results."""
    task = tmp_path / "Tasks" / "Double"
    (task / "Hoplet").mkdir(parents=True)
    (task / "Hoplet" / "metainfo.md").write_text(f"---\n{CONTRACT.strip()}\n---\n")
    (task / "Hoplet" / "Hop.py").write_text(CODE)
    (task / "TestCases").mkdir()
    (task / "TestCases" / "rows.jsonl").write_text(as_lines(rows()))
    run = assay.run(assay.spec("hop", target=str(task), data="rows.jsonl"))
    imported = assay.import_results(task, str(tmp_path / "imported"))
    assert only_entry(imported).metrics == only_entry(run).metrics
    assert imported.info.facts.items() >= run.info.facts.items()
    run.files[0].with_name("again.jsonl").write_bytes(run.files[0].read_bytes())
    with pytest.raises(InputError, match=r"has 2 result files. Import each one: .*again.jsonl, .*rows_"):
        assay.import_results(task, str(tmp_path / "imported"))


def exported_again(run: assay.Run, folder: Path) -> assay.Run:
    """The run that import makes of an export."""
    export = assay.export(run, "hop", folder / "task")
    assert all(Path(file).is_file() for file in export.files)
    return assay.import_results(folder / "task", str(folder / "again"))


@pytest.mark.parametrize("profiles", [["fast"], ["fast", "careful"]], ids=len)
@pytest.mark.parametrize("wrapper", ["flat", "view"])
def test_an_exported_batch_keeps_every_number(wrapper: str, profiles: list[str], batch: Batch, tmp_path: Path) -> None:
    """Of a batch of assay and of an imported one. A log names no profile, so several profiles lose their times."""
    batch.profiles(*profiles)
    run = batch.run(wrapper=wrapper)
    first = exported_again(run, tmp_path / "first")
    second = exported_again(first, tmp_path / "second")
    lost = ["seconds"] if len(profiles) == 2 else []
    assert run.report is not None
    for imported in (first, second):
        assert imported.report is not None
        for native, entry in zip(run.report.entries, imported.report.entries, strict=True):
            tables = [table for table in native.tables if table.name not in lost]
            native_entry = replace(native, tables=tables)
            assert entry == native_entry
        (comparison, *_) = api.compare(str(run.folder), str(imported.folder)).comparisons
        assert (comparison.paired, comparison.only_base.count, comparison.only_new.count) == (10, 0, 0)
        assert [case.answer for case in RunCases(imported.folder)] == [case.answer for case in RunCases(run.folder)]
    assert bool(lost) == any(name.startswith("times") for name in assay.export(run, "hop", tmp_path / "x").lost)


def test_an_exported_file_of_another_tool_keeps_every_number(tmp_path: Path) -> None:
    """Statuses outside the result, results that are no JSON, rows without ids and profiles."""
    path = in_file(
        tmp_path,
        {"id": 1, "q": "a", "expected_a": 1, "hop_result": "no idea", "hop_stats": {"status": "FAIL"}},
        {"id": 2, "q": "b", "expected_a": 1, "hop_result": "no JSON", "hop_stats": {"status": "OK"}},
        {"input": {"q": "c", "tag": ["x"], "difficulty": "odd"}, "result": {"a": 1}},
        {"input": {"q": "d", "expected_a": 1}, "error": "", "result": ""},
        {"id": 9, "q": "e", "expected_a": 1, "result": '{"a": 1}'},
    )
    run = assay.import_results(path, str(tmp_path / "imported"))
    again = exported_again(run, tmp_path / "again")
    assert again.report == run.report
    assert [case.answer for case in RunCases(again.folder)] == [case.answer for case in RunCases(run.folder)]


def test_a_run_of_another_suite_is_not_written_as_hop(tmp_path: Path) -> None:
    run = assay.evaluate([{"q": 1}], answer=lambda q: q, name="x", output_dir=str(tmp_path))
    for name in ("hop", "pipeline"):
        with pytest.raises(UsageError, match="`--to json` writes a table of any run"):
            assay.export(run, name, tmp_path / name)


def test_a_batch_without_its_file_names_the_command(batch: Batch, tmp_path: Path) -> None:
    run = batch.run()
    lines = run.files[0].read_text().splitlines(keepends=True)
    run.files[0].write_text("".join(lines[:-1]))
    with pytest.raises(InputError, match=r"has no row 'row 10'. Repeat the command"):
        assay.export(run, "hop", tmp_path / "task")
    run.files[0].unlink()
    with pytest.raises(UsageError, match=r"is gone. Repeat the command"):
        assay.export(run, "hop", tmp_path / "task")
    assert not (tmp_path / "task").exists()
