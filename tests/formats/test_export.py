"""Exported runs have the numbers of the run, and import reads them back."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import duckdb
import pytest

import assay
from assay.core.errors import UsageError
from assay.core.report import Metric
from assay.runner.results import Run

from support.commands import typed
from support.stored import run_stored

GOLDEN = Path(__file__).parents[1] / "golden" / "lm_eval" / "out"


def numbers(run: Run) -> dict[tuple[str, str, str], tuple[Any, ...]]:
    """Every number of a report, by entry, metric and filter."""
    assert run.report is not None
    return {(entry.name, metric.name, metric.filter): _values(metric) for entry, metric in run.report.metrics()}


def _values(metric: Metric) -> tuple[Any, ...]:
    return (
        metric.value,
        metric.stderr,
        metric.numerator,
        metric.denominator,
        metric.interval,
        metric.higher_is_better,
        metric.left_out,
    )


def scores(run: Run) -> list[tuple[Any, ...]]:
    """Every score of every case, with the key by which runs are compared."""
    return [
        (case.key, case.set, name, score.status, score.value, score.expected)
        for case in run.cases()
        for name, score in case.scores.items()
    ]


@pytest.mark.parametrize("name", sorted(path.name for path in GOLDEN.iterdir()))
def test_imported_run_exported_and_imported_again_keeps_every_number(name: str, tmp_path: Path) -> None:
    first = assay.import_results(GOLDEN / name, str(tmp_path / "first"))
    export = assay.export(first, "lm-eval", tmp_path / "files")
    assert all(Path(file).is_file() for file in export.files)
    second = assay.import_results(tmp_path / "files", str(tmp_path / "second"))
    assert numbers(second) == numbers(first)
    assert scores(second) == scores(first)
    samples = sorted((GOLDEN / name).glob("*/samples_*.jsonl"))
    for path in samples:
        task = path.name.removeprefix("samples_").rpartition("_")[0]
        (copy,) = (tmp_path / "files").glob(f"*/samples_{task}_2*.jsonl")
        for before, after in zip(_lines(path), _lines(copy), strict=True):
            assert {**before, "arguments": None} == {**after, "arguments": None}


def _lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_bytes().splitlines()]


def test_native_task_run_is_exported_byte_for_byte(tmp_path: Path) -> None:
    assert run_stored("b_em", tmp_path / "out").returncode == 0
    native = assay.load(tmp_path / "out")
    export = assay.export(native, "lm-eval", tmp_path / "files")
    assert [Path(file).read_bytes() for file in export.files] == [file.read_bytes() for file in native.files]
    imported = assay.import_results(tmp_path / "files", str(tmp_path / "again"))
    assert numbers(imported) == numbers(native)
    assert [case.key for case in imported.cases()] == [case.key for case in native.cases()]
    native.files[0].unlink()
    with pytest.raises(UsageError, match="Repeat the command of the run"):
        assay.export(native, "lm-eval", tmp_path / "more")
    assert not (tmp_path / "more").exists()


@pytest.fixture
def quiz(tmp_path: Path) -> Run:
    """An evaluation of three rows: one right, one wrong, one that fails."""
    rows = [
        {"question": "1+1", "gold": "2"},
        {"question": '2, "two"\nlines', "gold": "4"},
        {"question": "fail", "gold": "1"},
    ]

    def answer(question: str) -> str:
        if question == "fail":
            raise ValueError("no idea")
        return "2"

    return assay.evaluate(
        rows,
        answer=answer,
        score=["exact_match"],
        target="gold",
        name="quiz",
        output_dir=str(tmp_path / "quiz"),
    )


def test_tables_have_a_row_for_each_case(quiz: Run, tmp_path: Path) -> None:
    for name in ("csv", "json", "parquet"):
        assay.export(quiz, name, tmp_path / f"table.{name}")
    with (tmp_path / "table.csv").open(newline="") as file:
        lines = list(csv.DictReader(file))
    objects = _lines(tmp_path / "table.json")
    columns = "answer, expected, exact_match, status, input_tokens"
    query = f"select {columns} from '{tmp_path / 'table.parquet'}' order by \"case\""
    parquet = duckdb.connect().execute(query).fetchall()
    assert [line["answer"] for line in lines] == ["2", "2", ""]
    assert [line["exact_match"] for line in lines] == ["1.0", "0.0", "0.0"]
    assert json.loads(lines[1]["row"])["question"] == '2, "two"\nlines'
    assert [line["scores"].get("exact_match") for line in objects] == [1.0, 0.0, 0.0]
    assert objects[2]["error"].startswith("user_code: ")
    assert parquet == [
        ("2", "2", 1.0, "ok", None),
        ("2", "4", 0.0, "ok", None),
        (None, "1", 0.0, "subject_error", None),
    ]


def test_a_csv_table_has_no_formulas(tmp_path: Path) -> None:
    run = assay.evaluate(
        [{"question": "=1+1", "gold": "-2"}],
        answer=lambda question: f"{question}|cmd",
        score=["exact_match"],
        target="gold",
        name="quiz",
        output_dir=str(tmp_path / "quiz"),
    )
    assay.export(run, "csv", tmp_path / "table.csv")
    with (tmp_path / "table.csv").open(newline="") as file:
        (line,) = csv.DictReader(file)
    assert (line["answer"], line["expected"], line["exact_match"]) == ("'=1+1|cmd", "-2", "0.0")


def test_run_of_another_suite_becomes_harness_files_with_its_numbers(quiz: Run, tmp_path: Path) -> None:
    export = assay.export(quiz, "lm-eval", tmp_path / "files")
    assert "reasons of scores" in export.lost
    imported = assay.import_results(tmp_path / "files", str(tmp_path / "again"))
    assert imported["exact_match"].value == quiz["exact_match"].value
    assert [case.label for case in imported.cases()] == ["0", "1", "2"]


def test_command_prints_files_and_names_what_is_lost(
    quiz: Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = str(tmp_path / "t.csv")
    assert typed("export", str(quiz.folder), "--to", "csv", "--output", target) == 0
    out, err = capsys.readouterr()
    assert out == f"{target}\n"
    assert "not in this format: prompts and replies of each call" in err
    assert typed("export", str(quiz.folder), "--to", "csv", "--output", target) == 2
    assert "exists. Pass another name with --output" in capsys.readouterr().err
    assert typed("export", str(quiz.folder), "--to", "json", "--output", f"{target}l", "--json") == 0
    printed = json.loads(capsys.readouterr().out)
    assert printed["files"] == [f"{target}l"]
    assert "reasons of scores" in printed["lost"]
    assert typed("export", str(quiz.folder), "--to", "xml") == 2
    assert "there is no format named 'xml'" in capsys.readouterr().err


INSPECT = Path(__file__).parents[1] / "golden" / "inspect"


@pytest.mark.parametrize("name", ["plain.eval", "epochs.eval", "errors.eval", "tools.json"])
def test_inspect_log_exported_and_imported_again_keeps_every_number(name: str, tmp_path: Path) -> None:
    first = assay.import_results(INSPECT / name, str(tmp_path / "first"))
    export = assay.export(first, "inspect", tmp_path / "files")
    (file,) = export.files
    second = assay.import_results(file, str(tmp_path / "second"))
    assert {key: values[:5] for key, values in numbers(second).items()} == {
        key: values[:5] for key, values in numbers(first).items()
    }
    assert scores(second) == scores(first)
    assert [case.error_message for case in second.cases()] == [case.error_message for case in first.cases()]
    assert [case.answers for case in second.cases()] == [case.answers for case in first.cases()]


def test_run_of_another_suite_becomes_an_inspect_log_with_its_numbers(quiz: Run, tmp_path: Path) -> None:
    (file,) = assay.export(quiz, "inspect", tmp_path / "files").files
    imported = assay.import_results(file, str(tmp_path / "again"))
    assert imported["exact_match"].value == quiz["exact_match"].value
    assert imported["exact_match"].denominator == quiz["exact_match"].denominator
    assert [case.label for case in imported.cases()] == [case.label for case in quiz.cases()]


def test_task_run_of_several_sets_becomes_a_log_for_each(tmp_path: Path) -> None:
    run = assay.import_results(GOLDEN / "e_group", str(tmp_path / "first"))
    assert run.report is not None
    values = {entry.name: entry.metrics[0].value for entry in run.report.entries if not entry.members}
    for file in assay.export(run, "inspect", tmp_path / "files").files:
        again = assay.import_results(file, str(tmp_path / "again"))
        assert again.report is not None
        task = again.info.spec["options"]["name"]
        assert again.report.entries[0].metrics[0].value == values.pop(task)
    assert values == {}


def test_repeats_of_an_evaluation_become_epochs(tmp_path: Path) -> None:
    def answer(question: str) -> str:
        return question

    rows = [{"question": "1", "gold": "1"}, {"question": "2", "gold": "3"}]
    run = assay.evaluate(
        rows,
        answer=answer,
        score=["exact_match"],
        target="gold",
        repeats=3,
        name="repeated",
        output_dir=str(tmp_path / "run"),
    )
    (file,) = assay.export(run, "inspect", tmp_path / "files").files
    assert [sample["epoch"] for sample in json.loads(Path(file).read_bytes())["samples"]] == [1, 2, 3] * 2
    again = assay.import_results(file, str(tmp_path / "again"))
    assert again["exact_match"].value == run["exact_match"].value == 0.5
    assert [len(case.answers) for case in again.cases()] == [3, 3]


def test_exports_of_a_memory_test_have_each_question_once(tmp_path: Path) -> None:
    """A conversation asks a question in several tests, of which the last one counts. The others are named as lost."""
    data = Path(__file__).parents[2] / "examples/memory/talks.json"
    spec = assay.spec("memory-test", data=str(data), memory=["bm25"], no_answer=True, output_dir=str(tmp_path / "run"))
    run = assay.run(spec)
    recall = run["evidence_recall"]
    for name in ("inspect", "lm-eval"):
        export = assay.export(run, name, tmp_path / name)
        assert "earlier answers to questions that a later test asks again" in export.lost
        again = assay.import_results(export.files[-1], str(tmp_path / "again"))
        assert (again.info.total, again.summary.ok) == (79, 79)
        assert again["evidence_recall"].value == recall.value
        assert again["evidence_recall"].denominator == recall.denominator
    export = assay.export(run, "json", tmp_path / "rows.json")
    rows = _lines(tmp_path / "rows.json")
    assert len(rows) == 79
    assert all("evidence_recall" in row["scores"] for row in rows)


@pytest.mark.parametrize("format_name", ["csv", "json", "parquet", "inspect"])
def test_an_export_has_no_value_of_a_key_variable(
    format_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Although the run is older than the variable, and has the value in its files."""
    secret = "zq8Xw3Kp91vBn47tRm"
    run = assay.evaluate(
        [{"question": "key?", "answer": "x"}],
        answer=lambda row: f"it is {secret}",
        target="answer",
        score=assay.exact_match("answer"),
        version="1",
        output_dir=str(tmp_path / "out"),
    )
    monkeypatch.setenv("OLD_API_KEY", secret)
    export = assay.export(run, format_name, tmp_path / "files")
    for name in export.files:
        content = Path(name).read_bytes()
        if format_name == "parquet":
            content = repr(duckdb.read_parquet(name).fetchall()).encode()
        assert secret.encode() not in content
        assert b"[redacted]" in content
