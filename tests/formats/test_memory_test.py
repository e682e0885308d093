"""Results of the memory test, from assay and from SAGE, become runs with the numbers of a native run."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import assay
from assay.core.suite_pages import StoredCase
from assay.runner import api
from assay.store.cases import RunCases

from support.commands import typed
from support.imported_numbers import entries
from support.memory_talks import MODEL, Talks

TALKS = Path(__file__).parents[2] / "examples" / "memory" / "talks.json"


@pytest.fixture(scope="module")
def native(tmp_path_factory: pytest.TempPathFactory) -> assay.Run:
    """Run two memories natively, with answers and the offline judge."""
    folder = tmp_path_factory.mktemp("native")
    (folder / "model.py").write_text(MODEL)
    spec = assay.spec(
        "memory-test",
        data=str(TALKS),
        memory=["bm25", "FUMemory"],
        model=f"python/{folder}/model.py:answer",
        judge="offline",
        output_dir=str(folder / "out"),
        segments=3,
    )
    return assay.run(spec)


def results_of(run: assay.Run, memory: str = "bm25") -> Path:
    """Return the folder with the result files of one memory."""
    (path,) = [path for path in run.files if path.name == "summary.json" and memory in path.parts]
    return path.parent


def copied(run: assay.Run, folder: Path, memory: str = "bm25") -> Path:
    """Return a copy of the result files of one memory, which a test may change."""
    return Path(shutil.copytree(results_of(run, memory), folder / "261116_2343"))


def answers_of(case: StoredCase) -> dict[str, Any]:
    """Return the answers of a case by test and question, without tokens, which the files lack."""
    return {
        record.part: {key: value for key, value in record.data.items() if key != "tokens"}
        for record in case.records
        if record.kind == "answer"
    }


@pytest.mark.parametrize("data", [TALKS, None])
def test_numbers_are_those_of_the_native_run(native: assay.Run, tmp_path: Path, data: Path | None) -> None:
    root = results_of(native).parents[2]
    run = assay.import_results(root, str(tmp_path), data=data)
    assert entries(run) == entries(native)
    assert run.report is not None
    assert run.report.notices == []
    assert run.summary.ok == native.summary.ok == 6


def test_scores_need_no_summary(native: assay.Run, tmp_path: Path) -> None:
    """Only what the files of the conversations lack is missing: the judge, --top-k, seconds of insertion, tokens."""
    folder = copied(native, tmp_path)
    (folder / "summary.json").unlink()
    imported = entries(assay.import_results(folder, str(tmp_path), data=TALKS))["bm25"]
    expected = entries(native)["bm25"]
    for part in (imported, expected):
        part["metrics"].pop("judged", None)
    names = ["f1", "exact_match", "evidence_recall", "abstention"]
    assert imported["metrics"] == {name: expected["metrics"][name] for name in names}
    assert list(imported["metrics"]) == names
    assert imported["counts"] == expected["counts"]


def test_compare_pairs_every_question_with_the_native_run(native: assay.Run, tmp_path: Path) -> None:
    run = assay.import_results(results_of(native), str(tmp_path), data=TALKS)
    (comparison,) = api.compare([f"{native.folder}@bm25", run]).comparisons
    assert (comparison.paired, comparison.only_base.count, comparison.only_new.count) == (3, 0, 0)
    rows = {row.metric: (row.n, row.difference, row.left_out) for row in comparison.rows}
    assert rows["f1"] == (69, 0.0, {})
    assert rows["evidence_recall"] == (79, 0.0, {})
    assert rows["abstention"] == (10, 0.0, {})


def test_records_are_those_of_the_native_run(native: assay.Run, tmp_path: Path) -> None:
    """Answers, retrieved messages, categories and seconds of each question in each test."""
    run = assay.import_results(results_of(native), str(tmp_path), data=TALKS)
    native_cases = [case for case in RunCases(native.folder) if case.end.subject == "bm25"]
    for ours, theirs in zip(RunCases(run.folder), native_cases, strict=True):
        assert (ours.end.case, ours.end.label) == (theirs.end.case, theirs.end.label)
        assert answers_of(ours) == answers_of(theirs)
        by_words = [score for score in theirs.scores if score.metric != "judged"]
        assert [replace(score, scorer="", index=0, end=None) for score in ours.scores] == [
            replace(score, scorer="", index=0, end=None) for score in by_words
        ]


# SAGE's own files


def sage_question(index: int, source: int, answer: str, **more: Any) -> dict[str, Any]:
    """Return a question as SAGE writes it: no place in the data, no retrieved items."""
    return {
        "question_index": index,
        "question_text": f"question {source}",
        "predicted_answer": answer,
        "reference_answer": f"answer {source}",
        "evidence": [f"D1:{10 - source}"],
        "category": 4,
        **more,
    }


def sage_file(**more: Any) -> dict[str, Any]:
    """Return a file of SAGE's first version: the questions of a test are in data order, so their numbers change."""
    first = [sage_question(1, 2, "answer 2")]
    second = [sage_question(1, 1, "[ERROR]", error="timeout"), sage_question(2, 2, "answer 2")]
    return {
        "experiment_info": {"dataset": "locomo", "task_id": "0000"},
        "dataset_statistics": {
            "total_sessions": 1,
            "total_dialogs": 10,
            "total_questions": 2,
            "valid_questions": 2,
            "invalid_questions": [],
        },
        "test_summary": {"total_tests": 2, "test_threshold": "1/10 of total questions"},
        "test_results": [
            {
                "test_index": 1,
                "question_range": {"start": 1, "end": 1},
                "dialogs_inserted_count": 8,
                "questions": first,
            },
            {
                "test_index": 2,
                "question_range": {"start": 1, "end": 2},
                "dialogs_inserted_count": 10,
                "questions": second,
            },
        ],
        **more,
    }


def written(folder: Path, document: Any, name: str = "0000.json") -> Path:
    """Return a file with this content."""
    path = folder / name
    path.write_text(json.dumps(document))
    return path


def test_a_question_of_sage_has_one_number_in_all_tests(tmp_path: Path) -> None:
    """Numbers follow the evidence: question 2 can be answered first. A failed answer is left out, not wrong."""
    run = assay.import_results(written(tmp_path, sage_file()), str(tmp_path))
    (case,) = RunCases(run.folder)
    assert [record.part for record in case.records if record.kind == "answer"] == ["1/1", "2/1", "2/2"]
    scores = {(score.metric, score.part): (score.status, score.value) for score in case.scores}
    assert scores["f1", "2/1"] == ("scored", 1.0)
    assert scores["f1", "2/2"] == ("not_applicable", None)
    assert (run["f1"].value, run["f1"].denominator) == (1.0, 1)
    assert "evidence_recall" not in run
    assert run.report is not None
    assert (run.report.entries[0].name, run.report.entries[0].counts["errors"]) == ("memory", 1)
    origin = run.info.imported
    assert origin is not None
    assert "seconds of insertion" in origin.missing


def test_the_example_of_the_specification_can_be_imported(tmp_path: Path) -> None:
    document = sage_file()
    document["test_results"] = [
        {
            "test_index": 1,
            "question_range": {"start": 1, "end": 2},
            "dialogs_inserted_count": 8,
            "questions": [
                {
                    "question_index": 1,
                    "question_text": "What is the main topic?",
                    "predicted_answer": "Technology",
                    "reference_answer": "Technology and AI",
                    "evidence": ["D1:3", "D1:5"],
                    "category": "factoid",
                },
                {"question_index": 2, "question_text": "Who is the speaker?", "predicted_answer": "John"},
            ],
        }
    ]
    document["test_summary"]["total_tests"] = 1
    run = assay.import_results(written(tmp_path, document), str(tmp_path))
    assert (run["f1"].denominator, run["exact_match"].value) == (1, 0.0)
    (case,) = RunCases(run.folder)
    assert case.scores[0].tags == ("factoid",)


def test_two_files_of_one_data_set_are_paired_without_the_data(tmp_path: Path) -> None:
    runs = []
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        document = sage_file()
        document["test_results"][1]["questions"][1]["predicted_answer"] = name
        runs.append(assay.import_results(written(tmp_path / name, document), str(tmp_path / "runs")))
    (comparison,) = api.compare(runs).comparisons
    assert (comparison.paired, comparison.rows[0].n) == (1, 1)


def test_a_folder_may_stand_below_one_that_is_called_assay(tmp_path: Path) -> None:
    """Only run folders inside the named folder are skipped."""
    folder = tmp_path / "assay" / "results"
    (folder / "locomo" / "251120_1430").mkdir(parents=True)
    written(folder / "locomo" / "251120_1430", sage_file())
    run = assay.import_results(folder, str(folder))
    assert assay.import_results(folder, str(folder)).folder == run.folder


# Counts that contradict the content


def changed(change: Callable[[dict[str, Any]], object]) -> dict[str, Any]:
    """Return a file of SAGE with one change."""
    document = sage_file()
    change(document)
    return document


@pytest.mark.parametrize(
    ("document", "notice"),
    [
        (
            changed(lambda d: d["test_summary"].update(total_tests=7)),
            "total_tests is 7, but there are 2 tests",
        ),
        (
            changed(lambda d: d["test_results"][1]["question_range"].update(end=9)),
            "test 2: question_range is 1 to 9, but there are 2 questions",
        ),
        (
            changed(lambda d: d["test_results"][1].update(dialogs_inserted_count=3)),
            "test 2: dialogs_inserted_count is smaller than in the test before",
        ),
        (
            changed(lambda d: d["dataset_statistics"].update(valid_questions=1)),
            "valid_questions is 1, but a test has 2 questions",
        ),
        (
            changed(lambda d: d["test_results"].reverse()),
            "the last test has 1 questions, an earlier one 2; the last one counts",
        ),
    ],
)
def test_a_count_that_contradicts_the_content_is_told(document: Any, notice: str, tmp_path: Path) -> None:
    run = assay.import_results(written(tmp_path, document), str(tmp_path))
    assert run.report is not None
    assert f"{tmp_path / '0000.json'}: {notice}" in run.report.notices


def test_a_summary_that_contradicts_the_files_is_told(native: assay.Run, tmp_path: Path) -> None:
    """The report has the numbers of the summary, because the run that wrote it had the data."""
    folder = copied(native, tmp_path)
    (folder / "0002.json").unlink()
    run = assay.import_results(folder, str(tmp_path))
    assert run.report is not None
    notices = "\n".join(run.report.notices)
    assert "bm25: summary.json counts 3 conversations, the files have 2" in notices
    assert "bm25: summary.json has evidence_recall" in notices
    assert run["evidence_recall"].denominator == 79


# Broken files


def truncated(folder: Path) -> Path:
    path = written(folder, sage_file())
    path.write_bytes(path.read_bytes()[:900])
    return path


def nested(folder: Path) -> Path:
    path = written(folder, sage_file())
    path.write_text('{"experiment_info": ' + "[" * 5000 + "]" * 5000 + "}")
    return path


def binary(folder: Path) -> Path:
    path = folder / "0000.json"
    path.write_bytes(b'{"experiment_info": "\xff"}')
    return path


def empty_beside(folder: Path) -> Path:
    written(folder, sage_file())
    (folder / "0001.json").write_bytes(b"")
    return folder


def same_conversation(folder: Path) -> Path:
    for name in ("0000.json", "0001.json"):
        document = sage_file()
        document["experiment_info"] |= {"task_id": name[:4], "sample_id": "conv-26", "memory": "bm25"}
        written(folder, document, name)
    return folder


def same_task(folder: Path) -> Path:
    written(folder, sage_file())
    written(folder, sage_file(), "0001.json")
    return folder


def two_memories(folder: Path) -> Path:
    for number, memory in enumerate(("bm25", "dense")):
        info = {"dataset": "locomo", "task_id": f"000{number}", "memory": memory}
        written(folder, sage_file(experiment_info=info), f"000{number}.json")
    return folder


def broken_summary(folder: Path) -> Path:
    written(folder, sage_file())
    (folder / "summary.json").write_text('{"metrics": [{"value": "high"}], "counts": {}}')
    return folder


def with_document(change: Callable[[dict[str, Any]], object]) -> Callable[[Path], Path]:
    return lambda folder: written(folder, changed(change))


def question(number: int) -> Callable[[dict[str, Any]], dict[str, Any]]:
    return lambda document: document["test_results"][1]["questions"][number]


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (truncated, "is not JSON"),
        (nested, "is nested more than 100 levels deep"),
        (binary, "not UTF-8"),
        (empty_beside, "0001.json: is empty"),
        (same_conversation, "has the conversation of"),
        (same_task, "has the task_id '0000', and so has"),
        (two_memories, "has files of several memories: 'bm25'"),
        (broken_summary, "Expected `float | null`, got `str` - at `$.metrics[0].value`"),
        (
            with_document(lambda d: d.update(test_results={})),
            "Expected `array`, got `object` - at `$.test_results`",
        ),
        (
            with_document(lambda d: question(0)(d).update(question_index="one")),
            "at `$.test_results[1].questions[0].question_index`",
        ),
        (with_document(lambda d: question(1)(d).update(question_index=1)), "the test has question 1 twice"),
        (
            with_document(lambda d: question(0)(d).pop("predicted_answer")),
            "missing required field `predicted_answer`",
        ),
        (
            with_document(lambda d: question(0)(d).update(question_index=10**30)),
            "questions[0].question_index",
        ),
        (with_document(lambda d: question(0)(d).update(retrieved=[1])), "questions[0].retrieved[0]"),
    ],
)
def test_a_broken_file_is_refused_with_a_sentence(
    make: Callable[[Path], Path], message: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = make(tmp_path)
    output = tmp_path / "runs"
    assert typed("import", str(path), "--output-dir", str(output)) == 2
    message_on_screen = capsys.readouterr().err
    assert message in message_on_screen
    assert str(tmp_path) in message_on_screen
    assert list(output.glob("assay/*")) == []


def test_nan_is_no_number(tmp_path: Path) -> None:
    """Python's encoder writes NaN. A run with it can be read again."""
    document = sage_file()
    question(1)(document).update(reference_answer=float("nan"), timings={"search_seconds": float("inf")})
    run = assay.import_results(written(tmp_path, document), str(tmp_path))
    assert assay.load(run.folder).report is not None
    assert [case.label for case in run.cases()] == ["0000"]
    assert "f1" not in run


def test_data_of_other_conversations_is_refused(
    native: assay.Run, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = json.loads(TALKS.read_text())
    data[1]["qa"][0]["question"] = "Who?"
    path = written(tmp_path, data, "talks.json")
    assert typed("import", str(results_of(native)), "--output-dir", str(tmp_path), "--data", str(path)) == 2
    assert "the data of talk-02 has no question" in capsys.readouterr().err


# Export


def test_an_exported_run_is_imported_with_the_same_numbers(native: assay.Run, tmp_path: Path) -> None:
    """Native, imported, and imported again: also what only the summary tells, such as the judge's numbers."""
    run = native
    for number in range(3):
        export = assay.export(run, "memory-test", tmp_path / f"files-{number}")
        assert "requests and replies" in export.lost
        run = assay.import_results(tmp_path / f"files-{number}", str(tmp_path / f"runs-{number}"), data=TALKS)
        assert entries(run) == entries(native)
        assert run.report is not None
        assert run.report.notices == []


def test_an_exported_run_of_sage_is_imported_with_the_same_numbers(tmp_path: Path) -> None:
    """A file without retrieved items stays one: no evidence recall appears."""
    first = assay.import_results(written(tmp_path, sage_file()), str(tmp_path / "runs"))
    assay.export(first, "memory-test", tmp_path / "files")
    (path,) = (tmp_path / "files").glob("locomo/*/0000.json")
    questions = json.loads(path.read_text())["test_results"][1]["questions"]
    assert [question["question_text"] for question in questions] == ["question 2", "question 1"]
    assert not {"retrieved", "source_index"} & questions[0].keys()
    second = assay.import_results(tmp_path / "files", str(tmp_path / "runs2"))
    assert entries(second) == entries(first)
    assert second.report is not None
    assert second.report.notices == []
    (ours,), (theirs,) = RunCases(first.folder), RunCases(second.folder)
    assert ours.end.case == theirs.end.case
    assert answers_of(ours) == answers_of(theirs)


def test_a_run_whose_files_were_changed_is_not_exported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    talks = Talks(tmp_path)
    run = talks.run(no_answer=True)
    (path,) = [path for path in run.files if path.name == "0000.json"]
    path.write_text("{}")
    assert typed("export", str(run.folder), "--to", "memory-test", "--output", str(tmp_path / "files")) == 2
    assert f"{path} is gone or was changed" in capsys.readouterr().err
