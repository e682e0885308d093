"""Results of the memory evaluation, from assay and from other tools, become runs with the same numbers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

import assay
from assay.runner import api
from assay.store.cases import RunCases

from support.commands import typed
from support.imported_numbers import entries
from support.memory_samples import Samples, lines, sample

GOLDEN = Path(__file__).parents[1] / "golden" / "memory_eval"
# What the five files do not have.
ONLY_NATIVE = ("errors", "dropped_citations", "replies_without_json")


@pytest.fixture(scope="module")
def samples(tmp_path_factory: pytest.TempPathFactory) -> Samples:
    """Three small samples."""
    return Samples(tmp_path_factory.mktemp("native") / "samples", *(sample(name) for name in ("s1", "s2", "s3")))


@pytest.fixture(scope="module")
def native(samples: Samples) -> assay.Run:
    """Run three memories natively with the offline judge."""
    return samples.run(baseline=["bm25", "FUMemory", "oracle"])


def copied(native: assay.Run, folder: Path, baseline: str = "bm25") -> Path:
    """Return a copy of the files of one baseline, which a test may change."""
    (path,) = [path for path in native.files if path.name == "aggregate_metrics.json" and path.parent.name == baseline]
    return Path(shutil.copytree(path.parent, folder / baseline))


def comparable(run: assay.Run) -> dict[str, dict[str, Any]]:
    """Return the entries without the numbers that the files cannot tell."""
    found = entries(run)
    for entry in found.values():
        entry["metrics"].pop("retrieved_evidence", None)
        for name in ("tables", "judges"):
            entry.pop(name)
        entry["counts"] = {name: count for name, count in entry["counts"].items() if name not in ONLY_NATIVE}
    return found


@pytest.mark.parametrize("with_data", [True, False])
def test_numbers_are_those_of_the_native_run(
    native: assay.Run, samples: Samples, tmp_path: Path, *, with_data: bool
) -> None:
    data = samples.folder / "data" if with_data else None
    run = assay.import_results(samples.out, str(tmp_path), data=data)
    assert comparable(run) == comparable(native)
    assert run.report is not None
    assert run.report.notices == []
    assert run.summary.ok == native.summary.ok == 9


def test_compare_pairs_every_score_with_the_native_run(native: assay.Run, samples: Samples, tmp_path: Path) -> None:
    run = assay.import_results(samples.out, str(tmp_path), data=samples.folder / "data")
    comparisons = api.compare([native, run]).comparisons
    assert [each.paired for each in comparisons] == [3, 3, 3]
    for comparison in comparisons:
        for row in comparison.rows:
            if row.metric != "retrieved_evidence":
                assert row.difference in (0.0, None), row
                assert not any("not scored" in reason for reason in row.left_out), row
        assert {"recall", "correctness", "update", "answer", "evidence", "f1"} <= {
            row.metric for row in comparison.rows
        }


def test_scores_have_labels_reasons_and_tags_of_the_native_run(
    native: assay.Run, samples: Samples, tmp_path: Path
) -> None:
    run = assay.import_results(samples.out, str(tmp_path), data=samples.folder / "data")
    ours = {(case.end.case, case.end.subject): case for case in RunCases(run.folder)}
    for theirs in RunCases(native.folder):
        case = ours[theirs.end.case, theirs.end.subject]
        imported = {(score.metric, score.part): score for score in case.scores}
        for score in theirs.scores:
            if score.metric == "retrieved_evidence":
                continue
            other = imported.pop((score.metric, score.part))
            # The files have counts of covered points and evidence, not the label of each.
            known = {key: value for key, value in score.data.items() if key in other.data}
            assert {key: score.data[key] for key in score.data if key not in known} in (
                {},
                {"labels": score.data.get("labels")},
            )
            assert replace(other, scorer="", index=0, end=None) == replace(
                score, scorer="", index=0, end=None, data=known
            )
        assert imported == {}


def test_pipeline_files_alone_have_scores_of_words_only(native: assay.Run, tmp_path: Path) -> None:
    folder = copied(native, tmp_path)
    for name in ("session_records.jsonl", "qa_records.jsonl", "aggregate_metrics.json"):
        (folder / name).unlink()
    run = assay.import_results(folder, str(tmp_path))
    expected = comparable(native)["bm25"]["metrics"]
    assert comparable(run)["bm25"]["metrics"] == {name: expected[name] for name in ("f1", "bleu1")}
    origin = run.info.imported
    assert origin is not None
    assert any("verdicts on bm25" in thing for thing in origin.missing)


def test_an_aggregate_alone_has_its_numbers_and_no_cases(tmp_path: Path) -> None:
    """A metric with denominator 0 was not measured, although the format writes 0.0."""
    path = Path(shutil.copy(GOLDEN / "aggregate_metrics.json", tmp_path))
    run = assay.import_results(path, str(tmp_path))
    assert (run["answer"].value, run["answer"].denominator) == (0.58, 990)
    assert (run["evidence"].value, run["evidence"].denominator) == (0.43, 990)
    assert "interference" not in run
    assert run.info.total == 0


def test_lines_of_the_specification_can_be_imported(tmp_path: Path) -> None:
    for name, records in (("session_record", "session_records"), ("qa_record", "qa_records")):
        value = json.loads((GOLDEN / f"{name}.json").read_text())
        (tmp_path / f"{records}.jsonl").write_text(json.dumps(value) + "\n")
    run = assay.import_results(tmp_path, str(tmp_path / "runs"))
    assert run.info.spec["suite"] == "memory-eval"
    assert (run["answer"].value, run["answer"].denominator) == (1.0, 1)
    assert run["recall"].value == 0.8
    assert run.report is not None
    assert run.report.entries[0].name == "FUMemory"


def test_a_file_stands_for_its_folder(native: assay.Run, tmp_path: Path) -> None:
    folder = copied(native, tmp_path)
    first = assay.import_results(folder / "qa_records.jsonl", str(tmp_path))
    second = assay.import_results(folder, str(tmp_path))
    assert (first.folder, second.asked) == (second.folder, False)


# Contradictions


def edit(folder: Path, name: str, change: Callable[[list[dict[str, Any]]], object]) -> None:
    """Change the lines of a file."""
    values = lines(folder / name)
    change(values)
    (folder / name).write_text("".join(json.dumps(value) + "\n" for value in values))


def first_eval(**counts: Any) -> Callable[[list[dict[str, Any]]], object]:
    """Return a change of the first line's `eval`."""
    return lambda values: values[0]["eval"].update(counts)


@pytest.mark.parametrize(
    ("name", "change", "notice"),
    [
        ("session_records.jsonl", first_eval(num_gold=70), ":1: num_gold is 70, but there are"),
        ("session_records.jsonl", first_eval(recall=0.123), ":1: recall is 0.123, but its counts are"),
        ("session_records.jsonl", first_eval(num_correct=50), ":1: num_correct is 50, but there are"),
        (
            "session_records.jsonl",
            first_eval(update_total_items=9),
            ":1: update_total_items is 9, but there are",
        ),
        ("qa_records.jsonl", first_eval(num_evidence=5), ":1: num_evidence is 5, but there are"),
        ("qa_records.jsonl", lambda values: values.append(values[0]), ":10 repeats "),
        (
            "session_records.jsonl",
            lambda values: values.__setitem__(slice(None), [each for each in values if each["sample_id"] != "s2"]),
            "session_records.jsonl lacks 1 sample (s2)",
        ),
    ],
)
def test_a_count_that_contradicts_the_records_is_told(
    native: assay.Run, tmp_path: Path, name: str, change: Callable[[list[dict[str, Any]]], object], notice: str
) -> None:
    folder = copied(native, tmp_path)
    edit(folder, name, change)
    run = assay.import_results(folder, str(tmp_path))
    assert run.report is not None
    assert notice in "\n".join(run.report.notices)


def test_an_aggregate_that_contradicts_the_records_is_told(native: assay.Run, tmp_path: Path) -> None:
    folder = copied(native, tmp_path)
    path = folder / "aggregate_metrics.json"
    value = json.loads(path.read_text())
    value["question_answering"]["correct_ratio"] = 0.99
    path.write_text(json.dumps(value))
    run = assay.import_results(folder, str(tmp_path))
    assert run.report is not None
    (notice,) = run.report.notices
    assert notice.startswith("bm25: aggregate_metrics.json has answer 0.99 of 9, its records give ")
    assert run["answer"].value == comparable(native)["bm25"]["metrics"]["answer"]["value"]


def test_a_missing_verdict_is_invalid_and_not_wrong(native: assay.Run, tmp_path: Path) -> None:
    """Other tools write null for a failed judge, and labels that the format does not have."""
    folder = copied(native, tmp_path)

    def change(values: list[dict[str, Any]]) -> None:
        values[0]["eval"] |= {"answer_label": None, "answer_is_valid": False, "answer_reasoning": "no JSON"}
        values[1]["eval"]["answer_label"] = "Perfect"

    edit(folder, "qa_records.jsonl", change)
    (folder / "aggregate_metrics.json").unlink()
    run = assay.import_results(folder, str(tmp_path))
    assert (run["answer"].denominator, run["answer"].left_out) == (7, {"invalid": 2})


# Broken files


def broken(name: str, change: Callable[[list[dict[str, Any]]], object]) -> Callable[[Path], None]:
    return lambda folder: edit(folder, name, change)


def cut(folder: Path) -> None:
    path = folder / "qa_records.jsonl"
    path.write_bytes(path.read_bytes()[:-200])


def nested(folder: Path) -> None:
    with (folder / "qa_records.jsonl").open("a") as file:
        file.write('{"sample_id": "s1", "question": ' + "[" * 5000 + "]" * 5000 + "}\n")


def binary(folder: Path) -> None:
    (folder / "session_records.jsonl").write_bytes(b"\x00\x01\x02PK\xff\n")


def emptied(folder: Path) -> None:
    (folder / "qa_records.jsonl").write_bytes(b"\n\n")


def broken_aggregate(folder: Path) -> None:
    (folder / "aggregate_metrics.json").write_text('{"baseline_id": 7}')


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (cut, "qa_records.jsonl:9: is not JSON"),
        (nested, "qa_records.jsonl:10: is nested more than 100 levels deep"),
        (binary, "session_records.jsonl:1: not UTF-8"),
        (emptied, "qa_records.jsonl: has no lines"),
        (broken_aggregate, "aggregate_metrics.json: Expected `str`, got `int` - at `$.baseline_id`"),
        (
            broken("qa_records.jsonl", lambda v: v[2].pop("sample_id")),
            "qa_records.jsonl:3: Object missing required",
        ),
        (
            broken("qa_records.jsonl", lambda v: v[2].update(retrieval=[])),
            "qa_records.jsonl:3: Expected `object`",
        ),
        (
            broken("qa_records.jsonl", lambda v: v[0].update(generated_answer=None)),
            "qa_records.jsonl:1: Expected `str`",
        ),
        (
            broken("qa_records.jsonl", lambda v: v[0].update(eval="good")),
            "qa_records.jsonl:1: Expected `object`",
        ),
        (
            broken("qa_records.jsonl", first_eval(evidence_hit_rate=7)),
            "qa_records.jsonl:1: Expected `float` <= 1",
        ),
        (broken("qa_records.jsonl", first_eval(num_evidence=-1)), "qa_records.jsonl:1: Expected `int` >= 0"),
        (
            broken("session_records.jsonl", lambda v: v.append(v[0])),
            "session_records.jsonl:10: the sample 's1' has the session 'S01' at",
        ),
        (
            broken("session_records.jsonl", lambda v: v[0].update(memory_delta={})),
            "session_records.jsonl:1: Expected `array`",
        ),
    ],
)
def test_a_broken_file_is_refused_with_a_sentence(
    native: assay.Run,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    make: Callable[[Path], None],
    message: str,
) -> None:
    folder = copied(native, tmp_path)
    make(folder)
    assert typed("import", str(folder), "--output-dir", str(tmp_path / "runs")) == 2
    assert message in capsys.readouterr().err
    assert list((tmp_path / "runs").glob("assay/*")) == []


def test_nan_is_no_number(native: assay.Run, tmp_path: Path) -> None:
    folder = copied(native, tmp_path)
    edit(folder, "qa_records.jsonl", first_eval(evidence_hit_rate=float("nan")))
    (folder / "aggregate_metrics.json").unlink()
    run = assay.import_results(folder, str(tmp_path))
    assert run["evidence"].left_out["invalid"] == 1
    assert assay.load(run.folder).report is not None


def test_data_of_other_samples_is_refused(
    native: assay.Run, samples: Samples, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = shutil.copytree(samples.folder / "data", tmp_path / "data")
    (data / "s2.json").write_text(json.dumps(sample("s2", sessions=2)))
    output = str(tmp_path / "runs")
    assert typed("import", str(samples.out), "--output-dir", output, "--data", str(data)) == 2
    assert "the data has other sessions of the sample 's2'" in capsys.readouterr().err


# Export


def test_an_exported_run_is_imported_with_the_same_numbers(native: assay.Run, samples: Samples, tmp_path: Path) -> None:
    """Native, imported, and imported again. The lines of the files stay the same."""
    run = native
    for number in range(3):
        target = tmp_path / f"files-{number}"
        assay.export(run, "memory-eval", target)
        for baseline in ("bm25", "FUMemory", "oracle"):
            for name in ("session_records.jsonl", "qa_records.jsonl", "pipeline_qa.jsonl"):
                assert lines(target / baseline / name) == lines(samples.out / baseline / name)
            aggregate = "aggregate_metrics.json"
            assert json.loads((target / baseline / aggregate).read_text()) == json.loads(
                (samples.out / baseline / aggregate).read_text()
            )
        run = assay.import_results(target, str(tmp_path / f"runs-{number}"), data=samples.folder / "data")
        assert comparable(run) == comparable(native)
        assert run.report is not None
        assert run.report.notices == []


def test_an_aggregate_alone_can_be_exported(tmp_path: Path) -> None:
    first = assay.import_results(Path(shutil.copy(GOLDEN / "aggregate_metrics.json", tmp_path)), str(tmp_path))
    assay.export(first, "memory-eval", tmp_path / "files")
    assert [path.name for path in (tmp_path / "files").iterdir()] == ["aggregate_metrics.json"]
    second = assay.import_results(tmp_path / "files", str(tmp_path / "runs"))
    assert entries(second) == entries(first)


def test_other_runs_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = assay.import_results(GOLDEN.parent / "lm_eval" / "out" / "b_em", str(tmp_path))
    for name in ("memory-eval", "memory-test"):
        assert typed("export", str(run.folder), "--to", name, "--output", str(tmp_path / name)) == 2
        assert "which only runs of `assay memory" in capsys.readouterr().err
