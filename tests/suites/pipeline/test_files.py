"""The files of a run, the copies of the newest run, and which changes start a new run."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

from support.pipeline_project import PipelineProject, case, orders, read_lines, says

KEYS = [
    "id",
    "set",
    "variant",
    "tags",
    "result",
    "reason",
    "inputs",
    "step_inputs",
    "batch_items",
    "steps",
    "outputs",
    "checks",
    "first_wrong",
    "seconds",
    "tokens",
    "depends_on",
    "gold",
]
NEWEST = Path("out/p")


def test_a_record_has_all_keys_in_a_fixed_order(lab: PipelineProject) -> None:
    """Also for a skipped test; ids keep their type."""
    lab.pipeline(says("one"))
    lab.tests(case(7, tags=["x"], step_inputs={"one": {"k": 1}}), case("s", conditions="false"))
    ran = lab.run()
    assert [list(row) for row in ran.rows] == [KEYS, KEYS]
    first = ran.rows[0]
    assert (first["id"], first["set"], first["tags"], first["step_inputs"]) == (
        7,
        "tests",
        ["x"],
        {"one": {"k": 1}},
    )
    assert first["steps"]["one"]["status"] == "ok"
    assert ran.rows[1]["steps"] == {}


def test_the_table_has_variants_side_by_side_and_no_formulas(lab: PipelineProject) -> None:
    """A cell that a spreadsheet would compute is quoted; values other than text are JSON."""
    variants = {"v": {"overrides": {"one": {"template": "say +x", "output_parser": "text"}}}}
    lab.pipeline(says("one", output_parser="json"), variants=variants, outputs=[{"key": "out", "from": "one"}])
    lab.tests(
        case("=1+1", inputs={"text": '["@x", -5]'}, tags=["+a", "b"], expected_outputs={"out": ["@x", -5]}),
        case("-x", inputs={"text": '"=cmd()"'}),
    )
    lab.run(variant=["all"])
    with (NEWEST / "results.csv").open(newline="", encoding="utf-8") as file:
        header, first, second = csv.reader(file)
    names = ["result", "first_wrong", "seconds", "output__out"]
    assert header == ["id", "set", "tags", *(f"{name}__{v}" for v in ("baseline", "v") for name in names)]
    assert first[:4] == ["'=1+1", "tests", "'+a;b", "passed"]
    assert first[6] == '["@x", -5]'
    assert [first[7], first[8], first[10]] == ["failed", "one", "'+x"]
    assert (second[0], second[6]) == ("'-x", "'=cmd()")
    assert second[7:9] == ["not_evaluated", ""]


def test_the_junit_file_counts_every_verdict(lab: PipelineProject) -> None:
    """One suite per testset and variant; characters that XML does not allow are replaced."""
    lab.pipeline(orders("one", "{{ order }}", output_parser="number"))
    lab.tests(
        case("p", inputs={"order": "say 1"}, expected_outputs={"one": 1}),
        case('f<&"\u0001>', inputs={"order": "say 2"}, expected_outputs={"one": "x\u0000<y>\ufffe"}),
        case("e", inputs={"order": "say \u0002no"}),
        case("s", inputs={"order": "say 1"}, conditions="false"),
        case("n", inputs={"order": "say 1"}),
        case("d", inputs={"order": "down"}),
    )
    lab.tests(case("p", inputs={"order": "say 1"}, expected_outputs={"one": 1}), name="more.jsonl")
    lab.run(testset=["tests.jsonl", "more.jsonl"])
    root = ET.parse(NEWEST / "junit.xml").getroot()
    suites = {suite.get("name"): suite for suite in root}
    assert list(suites) == ["tests (baseline)", "more (baseline)"]
    suite = suites["tests (baseline)"]
    assert {key: suite.get(key) for key in ("tests", "failures", "errors", "skipped")} == {
        "tests": "6",
        "failures": "1",
        "errors": "2",
        "skipped": "2",
    }
    kinds = [[child.tag for child in test] for test in suite]
    assert kinds == [[], ["failure"], ["error"], ["skipped"], ["skipped"], ["error"]]
    assert suite[1].get("name") == 'f<&"\ufffd>'
    assert suite[1][0].get("message", "").startswith("one: one: ")
    assert "no number: '\\x02no'" in suite[2][0].get("message", "")
    assert "nobody is there" in suite[5][0].get("message", "")
    assert [test.get("name") for test in suites["more (baseline)"]] == ["p"]


def test_the_summary_has_every_number(lab: PipelineProject) -> None:
    """With its denominator, by variant, tag, testset and step."""
    lab.pipeline(says("one"))
    lab.tests(case("a", tags=["x"], expected_outputs={"one": "hello"}), case("b"))
    ran = lab.run()
    summary = json.loads((NEWEST / "summary.json").read_text())
    assert summary == json.loads((ran.run.folder / "summary.json").read_text())
    assert (summary["state"], summary["total"], summary["ok"], summary["spent"]["calls"]) == (
        "finished",
        2,
        2,
        2,
    )
    (entry,) = summary["report"]["entries"]
    assert entry["name"] == "baseline"
    assert entry["counts"] == {"passed": 1, "not_evaluated": 1}
    slices = {(part["by"], part["name"]): part for part in entry["slices"]}
    assert slices["set", "tests"]["counts"] == {"passed": 1, "not_evaluated": 1}
    (rate,) = slices["tag", "x"]["metrics"]
    assert (rate["numerator"], rate["denominator"]) == (1, 1)
    (steps,) = entry["tables"]
    step = dict(zip(steps["columns"], steps["rows"][0], strict=True))
    assert (step["ok"], step["failed"], step["skipped"], step["calls"]) == (2, 0, 0, 2)
    assert step["p50 s"] <= step["p95 s"]


def test_the_table_of_steps_counts_calls_that_failed(lab: PipelineProject) -> None:
    """Refused, or without any reply: all of them were sent, and stand in the log."""
    lab.pipeline(says("fine"), orders("refused", "refuse", required=False, retry=1), orders("gone", "down"))
    ran = lab.run()
    assert ran.row["result"] == "no_answer"
    calls = {step: ran.step_figures(step)["calls"] for step in ("fine", "refused", "gone")}
    assert calls == {"fine": 1, "refused": 2, "gone": 1}
    assert sum(calls.values()) == len(ran.calls())
    assert ran.row["steps"]["gone"]["error"] == "nobody is there"


def test_calls_that_a_timeout_stopped_are_not_a_zero(lab: PipelineProject) -> None:
    """They are not in the log, so their number is unknown: a dash, and a note."""
    ran = lab.of(orders("slow", "sleep 30", timeout=0.05, retry=1), says("fine"))
    assert [ran.step_figures(step)["calls"] for step in ("slow", "fine")] == [None, 1]
    assert ran.entry().tables[0].note == "slow: a timeout stopped 2 calls, not counted in `calls`"


def newest_id() -> str:
    """Which test the newest results are of."""
    return str(read_lines(NEWEST / "results.jsonl")[0]["id"])


def test_the_newest_run_is_shown_and_each_keeps_its_own_files(lab: PipelineProject) -> None:
    """A new run replaces the shown files; starting an old one again shows it without a request."""
    lab.pipeline(says("one"))
    lab.tests(case("first"))
    lab.tests(case("second"), name="other.jsonl")
    first = lab.run()
    assert newest_id() == "first"
    second = lab.run(testset=["other.jsonl"])
    assert newest_id() == "second"
    assert first.run.folder != second.run.folder
    again = lab.run()
    assert newest_id() == "first"
    assert (again.run.folder, again.run.asked) == (first.run.folder, False)
    assert read_lines(second.run.folder / "results.jsonl")[0]["id"] == "second"


def test_deleted_files_are_restored(lab: PipelineProject) -> None:
    """They are copies of those in the run folder."""
    lab.pipeline(says("one"))
    lab.run()
    for path in NEWEST.iterdir():
        path.unlink()
    assert lab.run().run.asked is False
    assert sorted(path.name for path in NEWEST.iterdir()) == [
        "junit.xml",
        "results.csv",
        "results.jsonl",
        "summary.json",
    ]


def spent(lab: PipelineProject) -> int:
    """Calls in all logs."""
    return sum(len(read_lines(path)) - 1 for path in lab.folder.glob("out/assay/*/calls.jsonl"))


def runs(lab: PipelineProject) -> int:
    """Run folders."""
    return len(list(lab.folder.glob("out/assay/*/run.json")))


def test_an_edited_expectation_is_scored_without_requests(lab: PipelineProject) -> None:
    """In every field; the exit code follows."""
    edits: list[dict[str, Any]] = [
        {"expected_outputs": {"one": "bye"}},
        {"expected_outputs": {"one": "bye"}, "evaluation_config": {"evaluate_final": False}},
        {"expected_aggregation": "x"},
        {"intermediate_expectations": {"one": "x"}, "evaluation_config": {"evaluate_intermediate": True}},
        {"performance_baseline": {"max_tokens": 1}},
        {"expected_outputs": {"one": "hello"}, "metadata": {"edited": True}},
    ]
    lab.pipeline(says("one"))
    lab.tests(case(expected_outputs={"one": "hello"}, description="d"))
    assert lab.run().code == 0
    codes = []
    for edit in edits:
        lab.tests(case(**edit, description="d"))
        codes.append(lab.run().code)
    assert codes == [1, 0, 1, 1, 1, 0]
    assert (spent(lab), runs(lab)) == (1, 1)


def test_an_edited_rule_or_label_of_the_pipeline_is_scored_without_requests(lab: PipelineProject) -> None:
    """Expectations of outputs are not part of the requests."""
    for rules, code in (
        ([], 0),
        ([{"kind": "max_chars", "value": 2}], 1),
        ([{"kind": "max_chars", "value": 9}], 0),
    ):
        lab.pipeline(says("one"), outputs=[{"key": "one", "label": str(rules), "rules": rules}], name="p.yaml")
        assert lab.run().code == code
    assert (spent(lab), runs(lab)) == (1, 1)


def test_what_changes_the_answer_is_another_run(lab: PipelineProject) -> None:
    """A prompt, an input, the outputs, the target step, whether an input is required."""
    lab.pipeline(says("one"), says("two", "2{{ text }}"))
    lab.run()
    files: list[dict[str, Any]] = [
        {"evaluation_target": "one"},
        {"outputs": ["one", "two"]},
        {"outputs": [{"key": "first", "from": "one"}]},
        {"inputs": ["text", {"name": "more", "required": False}]},
    ]
    for at, more in enumerate(files, start=2):
        lab.pipeline(says("one"), says("two", "2{{ text }}"), **more)
        lab.run()
        assert runs(lab) == at, more
    lab.pipeline(says("one", "{{ text }}!"), says("two", "2{{ text }}"))
    assert lab.run().output("one") == "hello!"
    lab.tests(case(inputs={"text": "bye"}))
    assert lab.run().output("one") == "bye!"
    assert runs(lab) == 7


def test_another_target_step_is_judged_by_its_own_output(lab: PipelineProject) -> None:
    """Without declared outputs the target step's output counts; an old one is not reused."""
    lab.tests(case(expected_outputs={"output": "hello"}))
    lab.pipeline(says("one"), says("two", "2"), evaluation_target="one")
    assert lab.run().row["result"] == "passed"
    lab.pipeline(says("one"), says("two", "2"), evaluation_target="two")
    assert lab.run().row["outputs"] == {"two": "2"}


def test_names_and_descriptions_of_a_pipeline_change_nothing(lab: PipelineProject) -> None:
    """Nor does the name of the file."""
    lab.pipeline(says("one"))
    lab.run()
    lab.pipeline(says("one", description="new"), name="q.yaml", description="other words")
    assert lab.run(pipeline="q.yaml").run.asked is False
    assert (spent(lab), runs(lab)) == (1, 1)


def test_a_renamed_testset_is_another_set(lab: PipelineProject) -> None:
    """Its name is in every record; with --reuse no request is sent."""
    lab.pipeline(says("one"))
    first = lab.run()
    (lab.folder / "tests.jsonl").rename("renamed.jsonl")
    second = lab.run(testset=["renamed.jsonl"], reuse=str(first.run.folder))
    assert second.row["set"] == "renamed"
    assert second.run.folder != first.run.folder
    assert second.run.summary.this_start.get("paid", 0) == 0


def test_a_moved_testset_is_the_same(lab: PipelineProject) -> None:
    """The folder is not part of its name."""
    lab.pipeline(says("one"))
    lab.run()
    (lab.folder / "below").mkdir()
    (lab.folder / "tests.jsonl").rename("below/tests.jsonl")
    assert lab.run(testset=["below"]).run.asked is False
