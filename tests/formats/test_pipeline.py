"""`results.jsonl` of a pipeline run becomes a run with the same report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from msgspec.structs import replace

import assay
from assay.core.errors import InputError, UsageError
from assay.runner import api
from assay.store.cases import RunCases

from support.pipeline_project import PipelineProject, case, orders, says


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> PipelineProject:
    """A folder with a pipeline of two variants, and tests with every verdict."""
    monkeypatch.chdir(tmp_path)
    lab = PipelineProject(tmp_path)
    lab.pipeline(
        says("first"),
        orders("second", "{{ order }} it", required=False),
        orders("third", "{{ last }} it"),
        outputs=[{"key": "first"}, {"key": "third"}],
        variants={"loud": {"overrides": {"first": {"template": "say {{ text }}!"}}}},
    )
    common = {"order": "say", "last": "say"}
    lab.tests(
        case("passes", tags=["x", "y"], inputs={"text": "a", **common}, expected_outputs={"first": "a"}),
        case("fails", tags=["y"], inputs={"text": "b", **common}, expected_outputs={"first": "c"}),
        case("optional", inputs={"text": "b", **common, "order": "refuse"}, expected_outputs={"first": "b"}),
        case(4, inputs={"text": "b", **common, "last": "refuse"}, expected_outputs={"first": "b"}),
        case("down", tags=["x"], inputs={"text": "b", **common, "last": "down"}),
        case("after", inputs={"text": "d", **common}, expected_output="it", depends_on=["passes"]),
        case("never", inputs={"text": "e", **common}, depends_on=["fails"]),
        case("many", inputs=common, parameters={"text": ["p", "q"]}, expected_outputs={"first": "p"}),
        case("nothing", inputs={"text": "f", **common}),
        case("judged", inputs={"text": "f", **common}, expected_outputs={"third": "judge: is it polite?"}),
    )
    return lab


def run_all(lab: PipelineProject, **options: object) -> assay.Run:
    """The run of both variants."""
    return lab.run(variant=["all"], judge=lab.script({"text": "no verdict"}), max_retries=0, **options).run


def test_the_report_is_that_of_the_run(lab: PipelineProject) -> None:
    """Metrics with intervals, slices, counts, the table of steps and the worst tests: every field is equal."""
    run = run_all(lab)
    imported = assay.import_results(run.folder / "results.jsonl", "imported")
    assert run.report is not None
    assert imported.report is not None
    for native, entry in zip(run.report.entries, imported.report.entries, strict=True):
        native.judges = []  # not in the file
        assert entry == native
    verdicts = {name for entry in imported.report.entries for name in entry.counts}
    assert verdicts == {"passed", "failed", "errored", "skipped", "not_evaluated", "no_answer", "invalid"}
    assert imported.report.passed == run.report.passed
    # The run can be continued. The imported one cannot, so its failed checks decide.
    assert (run.exit_code, imported.exit_code) == (3, 1)
    for count in ("total", "ok", "subject_error", "infra_error", "failures"):
        assert getattr(imported.summary, count) == getattr(run.summary, count), count
    # The file has no calls, so the words of a failed call whose case ended otherwise are not in it.
    first = {kind: text for kind, text in run.summary.first_failures.items() if kind in run.summary.failures}
    assert imported.summary.first_failures == first
    assert imported.info.imported is not None
    assert "the judge" in imported.info.imported.missing


def test_cases_are_those_of_the_run(lab: PipelineProject) -> None:
    """Tests that depend on each other are one case, and the key of a case covers the inputs of all its tests."""
    run = run_all(lab)
    imported = assay.import_results(run.folder / "results.jsonl", "imported")
    for native, read in zip(RunCases(run.folder), RunCases(imported.folder), strict=True):
        ends = [replace(case.end, failure=None, usage=None, calls=0, seconds=0, lines=[]) for case in (native, read)]
        assert ends[0] == ends[1]
        scores = [
            [(score.part, score.status, score.value, score.data["gold"]) for score in case.scores]
            for case in (native, read)
        ]
        assert scores[0] == scores[1]
        assert [record.part for record in read.records[1:]] == [record.part for record in native.records]
    comparisons = api.compare(str(run.folder), str(imported.folder)).comparisons
    assert [comparison.paired for comparison in comparisons] == [9, 9]
    assert all(row.difference == 0.0 for comparison in comparisons for row in comparison.rows)


def test_a_folder_with_results_is_imported(lab: PipelineProject) -> None:
    """`results/<pipeline id>/` has the files of the newest run."""
    run = run_all(lab)
    imported = assay.import_results(Path("out/p"), "imported")
    assert imported.report is not None
    assert run.report is not None
    assert imported.report.entries[0].metrics == run.report.entries[0].metrics


def test_a_file_sorted_by_variant_gives_the_same_cases(lab: PipelineProject) -> None:
    run = run_all(lab)
    lines = (run.folder / "results.jsonl").read_text().splitlines(keepends=True)
    lines.sort(key=lambda line: str(json.loads(line)["variant"]))
    Path("sorted.jsonl").write_text("".join(lines))
    imported = assay.import_results(Path("sorted.jsonl"), "imported")
    keys = [[end.case for end in RunCases(each.folder).ends()] for each in (run, imported)]
    assert keys[0] == keys[1]


def test_a_file_without_fingerprints_can_be_compared(lab: PipelineProject) -> None:
    """Files of earlier versions have no `gold`. Tests with other expectations are left out where both have one."""
    lab.tests(case("a", inputs={"text": "a", "order": "say", "last": "say"}, expected_outputs={"first": "a"}))
    run = lab.run().run
    record = json.loads((run.folder / "results.jsonl").read_text())
    for gold, pairs in ((None, 1), ("0123456789abcdef", 0)):
        record["gold"] = gold
        Path("old.jsonl").write_text(json.dumps(record))
        imported = assay.import_results(Path("old.jsonl"), "imported")
        (comparison,) = api.compare(str(run.folder), str(imported.folder)).comparisons
        assert sum(row.n for row in comparison.rows) == pairs


def test_an_exported_run_keeps_every_number(lab: PipelineProject) -> None:
    """A run of assay is copied, an imported one is written from its journal with the same lines."""
    run = run_all(lab)
    export = assay.export(run, "pipeline", "first.jsonl")
    assert "the judge and its calls" in export.lost
    first = assay.import_results(Path("first.jsonl"), "imported")
    assert assay.export(first, "pipeline", "second.jsonl").lost == []
    lines = [
        sorted(
            map(json.loads, Path(name).read_text().splitlines()),
            key=lambda line: (line["variant"], str(line["id"])),
        )
        for name in ("first.jsonl", "second.jsonl")
    ]
    assert lines[0] == lines[1]
    second = assay.import_results(Path("second.jsonl"), "imported")
    assert second.folder != first.folder
    assert second.report == first.report
    assert second.exit_code == first.exit_code == 1


SAMPLE = {
    "sample_id": "s1",
    "entity_type": "pipeline",
    "entity_id": "summary",
    "variant": "short",
    "overall_score": 8.5,
    "must_have_pass": True,
    "rule_violations": [],
    "judge_feedback": "good",
    "execution_time": 1.5,
    "step_outputs": {"text": "hi"},
    "failed_steps": [],
    "created_at": "2025-12-12T13:17:39.014539",
}


def samples() -> list[dict[str, object]]:
    """Four samples of Prompt Lab: passed, failed, failed in a step, and not evaluated."""
    wrong = {"sample_id": "s2", "must_have_pass": False, "overall_score": 0.0, "rule_violations": ["long"]}
    broken = {"judge_feedback": "Pipeline 执行失败: timeout", "overall_score": 0.0, "must_have_pass": False}
    unjudged = {"judge_feedback": "评估失败: no JSON", "overall_score": 0.0, "must_have_pass": False}
    return [
        SAMPLE,
        SAMPLE | wrong,
        SAMPLE | broken | {"sample_id": "s3", "failed_steps": ["draft"]},
        SAMPLE | unjudged | {"sample_id": "s4"},
    ]


def write_snapshot(path: Path) -> None:
    """A baseline snapshot of Prompt Lab."""
    head = {"entity_type": "pipeline", "entity_id": "summary", "baseline_name": "demo", "creator": "unknown"}
    path.write_text(json.dumps({**head, "evaluation_results": samples()}, ensure_ascii=False, indent=2))


def write_csv(path: Path) -> None:
    """The CSV file that Prompt Lab's `eval` writes."""
    columns = "id,variant,overall_score,must_have_pass,rule_violations,judge_feedback,execution_time,output__text"
    rows = [
        f"{one['sample_id']},short,{one['overall_score']},{int(bool(one['must_have_pass']))},"
        f"{','.join(one['rule_violations'])},{one['judge_feedback']},1.5,hi"  # type: ignore[arg-type]
        for one in samples()
    ]
    path.write_text("\n".join([columns, *rows]) + "\n", encoding="utf-8")


def write_comparison(path: Path) -> None:
    """The CSV file that Prompt Lab writes for several variants."""
    names = ("score", "must_have", "rule_violations", "judge_feedback", "output")
    columns = [f"{name}__short" + ("__text" if name == "output" else "") for name in names]
    absent = ["score__long", "must_have__long", "rule_violations__long", "judge_feedback__long"]
    rows = [
        f"{one['sample_id']},{one['overall_score']},{int(bool(one['must_have_pass']))},"
        f"{','.join(one['rule_violations'])},{one['judge_feedback']},hi,0.0,0,,未找到结果"  # type: ignore[arg-type]
        for one in samples()
    ]
    path.write_text("\n".join([",".join(["id", *columns, *absent]), *rows]) + "\n", encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "write"),
    [
        ("summary.demo.snapshot.json", write_snapshot),
        ("summary_short_2025.eval.csv", write_csv),
        ("summary_compare.csv", write_comparison),
    ],
)
def test_files_of_prompt_lab_are_imported(name: str, write: object, tmp_path: Path) -> None:
    """A zero that stands for a failure is no judge's point."""
    assert callable(write)
    write(tmp_path / name)
    run = assay.import_results(tmp_path / name, str(tmp_path / "imported"))
    assert run.report is not None
    (entry,) = run.report.entries
    assert (entry.name, entry.counts) == ("short", {"passed": 1, "failed": 1, "errored": 1, "invalid": 1})
    assert str(entry.metrics[0]).startswith("pass rate 0.333 ")
    points = entry.metrics[1]
    assert (points.name, points.value, points.denominator) == ("overall_score", 4.25, 2)
    assert [end.status for end in RunCases(run.folder).ends()] == ["ok", "ok", "subject_error", "ok"]
    assert run.info.imported is not None
    assert run.info.imported.producer == "Prompt Lab"
    assert "inputs" in run.info.imported.missing
    assert run.exit_code == 1
    assay.export(run, "pipeline", tmp_path / "again.jsonl")
    again = assay.import_results(tmp_path / "again.jsonl", str(tmp_path / "again"))
    assert (again.report, again.exit_code) == (run.report, run.exit_code)
    times = [[end.seconds for end in RunCases(each.folder).ends()] for each in (run, again)]
    assert times[0] == times[1]


def test_zeros_of_a_file_without_a_judge_are_no_points(tmp_path: Path) -> None:
    path = tmp_path / "samples.json"
    path.write_text(json.dumps([SAMPLE | {"overall_score": 0.0}]))
    run = assay.import_results(path, str(tmp_path / "imported"))
    assert run.report is not None
    assert [metric.name for metric in run.report.entries[0].metrics] == ["pass_rate"]
    assert run.info.imported is not None
    assert "a judge's points" in run.info.imported.missing


def test_with_the_testset_samples_of_prompt_lab_are_paired_with_a_run(lab: PipelineProject) -> None:
    """Their files have ids only; the key of a test is made of its inputs too."""
    run = lab.run(judge=lab.script({"text": "no verdict"}), max_retries=0).run
    results = [SAMPLE | {"sample_id": name, "variant": "baseline"} for name in ("passes", "fails", "4")]
    Path("samples.json").write_text(json.dumps(results))
    alone = assay.import_results(Path("samples.json"), "imported")
    with pytest.raises(UsageError, match="have no case in common"):
        api.compare(str(run.folder), str(alone.folder))
    imported = assay.import_results(Path("samples.json"), "imported", data=Path("tests.jsonl"))
    (comparison,) = api.compare(str(run.folder), str(imported.folder)).comparisons
    assert comparison.paired == 1  # the other two belong to cases of two tests
    assert imported.report is not None
    assert [part.name for part in imported.report.entries[0].slices] == ["tests", "x", "y"]
    assert imported.info.imported is not None
    assert "inputs" not in imported.info.imported.missing
    Path("samples.json").write_text(json.dumps([SAMPLE]))
    with pytest.raises(InputError, match="has no test 's1', which the results have"):
        assay.import_results(Path("samples.json"), "imported", data=Path("tests.jsonl"))
