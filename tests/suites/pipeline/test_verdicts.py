"""The verdicts of tests, and the exit code."""

from __future__ import annotations

from typing import Any

import pytest

from assay.core.errors import InputError

from support.pipeline_project import PipelineProject, case, computes, orders, says

YES, NO, ODD = '{"reason": "r", "passed": true}', '{"reason": "too long", "passed": false}', "well, maybe"


def test_every_verdict_has_its_count_and_its_place_in_the_rate(lab: PipelineProject) -> None:
    """The rate is passed / (passed + failed + errored); the others are counted as left out."""
    lab.pipeline(orders("one", "{{ order }}", output_parser="number"))
    lab.tests(
        case("p", inputs={"order": "say 1"}, expected_outputs={"one": 1}, tags=["x"]),
        case("f", inputs={"order": "say 2"}, expected_outputs={"one": 1}, tags=["x", "y"]),
        case("e", inputs={"order": "say no"}, expected_outputs={"one": 1}),
        case("n", inputs={"order": "say 3"}),
        case("s", inputs={"order": "say 4"}, conditions="false"),
        case("i", inputs={"order": "say 5"}, expected_outputs={"one": "judge:odd"}),
        case("d", inputs={"order": "down"}, expected_outputs={"one": 1}),
    )
    ran = lab.run(judge=lab.script({"text": ODD}))
    assert ran.verdicts == {
        "p": "passed",
        "f": "failed",
        "e": "errored",
        "n": "not_evaluated",
        "s": "skipped",
        "i": "invalid",
        "d": "no_answer",
    }
    entry = ran.entry()
    metric = entry.metrics[0]
    assert (metric.numerator, metric.denominator, metric.value) == (1, 3, 1 / 3)
    assert metric.left_out == {"not evaluated": 1, "skipped": 1, "invalid": 1, "no answer": 1}
    assert entry.counts == dict.fromkeys(
        ("passed", "failed", "errored", "not_evaluated", "skipped", "invalid", "no_answer"), 1
    )
    assert metric.interval is not None
    low, high = metric.interval
    assert 0 < low < 1 / 3 < high < 1
    tags = {part.name: part.metrics[0] for part in entry.slices if part.by == "tag"}
    assert {tag: (rate.numerator, rate.denominator) for tag, rate in tags.items()} == {
        "x": (1, 2),
        "y": (0, 1),
    }
    (failed,) = entry.examples
    assert failed.total == 2
    assert [(one.label, one.part, one.verdict) for one in failed.shown] == [
        ("tests/e", "e", "errored at step one, 1 of 1 checks failed"),
        ("tests/f", "f", "failed at step one, 1 of 1 checks failed"),
    ]
    (difference,) = failed.shown[1].differences
    assert (difference.path, difference.expected, difference.actual) == ("one", 1, 2)
    (steps,) = entry.tables
    assert dict(zip(steps.columns, steps.rows[0], strict=True))["wrong first"] == 2
    assert ran.code == 3, "a test without an answer comes first: the same command asks it again"


@pytest.mark.parametrize(
    ("tests", "code"),
    [
        ([case(expected_outputs={"one": "hello"})], 0),
        ([case()], 0),
        ([case(expected_outputs={"one": "bye"})], 1),
        ([case(expected_outputs={"one": "judge:x"})], 1),
        ([case("a", expected_outputs={"one": "judge:x"}), case("b", expected_outputs={"one": "hello"})], 4),
        ([case("a", expected_outputs={"one": "judge:x"}), case("b", expected_outputs={"one": "bye"})], 1),
    ],
)
def test_the_exit_code_is_that_of_the_worst_result(
    lab: PipelineProject, tests: list[dict[str, Any]], code: int
) -> None:
    """0 fine, 1 a check failed or no verdict is readable, 4 some verdict is unreadable; the same when a finished run is shown."""
    lab.pipeline(says("one"))
    lab.tests(*tests)
    judge = lab.script({"text": ODD})
    assert lab.run(judge=judge).code == code
    shown = lab.run(judge=judge)
    assert (shown.code, shown.run.asked) == (code, False)


@pytest.mark.parametrize(
    ("reply", "result", "reason"),
    [(YES, "passed", ""), (NO, "failed", "too long"), (ODD, "invalid", "no verdict: ")],
)
def test_a_judge_passes_fails_or_is_not_understood(lab: PipelineProject, reply: str, result: str, reason: str) -> None:
    """An unreadable verdict is neither, and keeps its reason."""
    lab.pipeline(says("one"))
    lab.tests(case(expected_outputs={"one": "judge:is short"}))
    ran = lab.run(judge=lab.script({"text": reply}))
    assert ran.row["result"] == result
    assert ran.row["reason"].startswith(reason)
    (check,) = ran.row["checks"]
    assert check.get("passed") is {"passed": True, "failed": False, "invalid": None}[result]


def test_a_judge_that_is_down_is_called_again_and_the_steps_are_not(lab: PipelineProject) -> None:
    """Exit code 3; the next start judges the rest."""
    lab.pipeline(says("one"))
    lab.tests(case("a", expected_outputs={"one": "judge:x"}), case("b", expected_outputs={"one": "hello"}))
    lab.write(
        "judge.py",
        f"""
from pathlib import Path
from assay.core.errors import ModelError
from assay.core.types import Failure

async def answer(prompt, params):
    if not Path("up").exists():
        raise ModelError(Failure("server_error", "out of order"))
    return {YES!r}
""",
    )
    ran = lab.run(judge="python/judge.py:answer")
    assert (ran.code, ran.run.summary.state) == (3, "incomplete")
    assert ran.verdicts == {"a": "no_answer", "b": "passed"}
    assert ran.rows[0]["reason"] == "it was not judged"
    lab.write("up", "")
    again = lab.run(judge="python/judge.py:answer")
    assert again.code == 0
    assert again.run.folder == ran.run.folder
    assert again.verdicts == {"a": "passed", "b": "passed"}
    stages = [call["stage"] for call in again.calls() if "response" in call]
    assert stages.count("ask") == 2
    assert len(stages) == 3


def test_expectations_of_a_judge_without_one_are_refused(lab: PipelineProject) -> None:
    """Before the first request; the message shows the flag."""
    lab.pipeline(says("one"))
    lab.tests(case("a"), case("b", expected_outputs={"one": "judge:x"}))
    with pytest.raises(InputError, match=r"tests\.jsonl:2.*--judge"):
        lab.run()


def test_a_reference_without_a_judge_is_not_evaluated(lab: PipelineProject) -> None:
    """Only a judge compares `expected`; without one the other checks decide."""
    lab.pipeline(says("one"))
    lab.tests(
        {"id": "a", "text": "hello", "expected": "A greeting"},
        {"id": "b", "text": "hello", "expected": "A greeting", "expected_output": "hello"},
    )
    ran = lab.run()
    assert ran.verdicts == {"a": "not_evaluated", "b": "passed"}
    assert ran.code == 0
    judged = lab.run(judge=lab.script({"text": NO}))
    assert judged.verdicts == {"a": "failed", "b": "failed"}
    prompt = judged.calls()[-1]["request"]["messages"][-1]["content"]
    assert "A greeting" in prompt
    assert judged.run.folder == ran.run.folder


def test_a_reference_may_be_any_json(lab: PipelineProject) -> None:
    """The judge reads it as text."""
    lab.pipeline(says("one"))
    lab.tests({"id": "a", "text": "hello", "expected": {"tone": "wärm"}})
    ran = lab.run(judge=lab.script({"text": YES}))
    assert ran.row["result"] == "passed"
    assert '{"tone": "wärm"}' in ran.calls()[-1]["request"]["messages"][-1]["content"]


def test_a_missing_output_needs_no_judge(lab: PipelineProject) -> None:
    """It fails with the reason of its step, without a call."""
    lab.pipeline(says("bad", "x", output_parser="number", required=False), says("one"), evaluation_target="bad")
    lab.tests({"id": "a", "text": "hello", "expected": "A greeting"})
    ran = lab.run(judge=lab.script({"text": YES}))
    assert ran.row["result"] == "failed"
    assert "the step bad has no output: the reply contains no number" in ran.row["reason"]
    assert {call["stage"] for call in ran.calls()} == {"ask"}


def test_output_means_the_only_output_whatever_its_name(lab: PipelineProject) -> None:
    """Of several, that of the target step; an output named `output` is meant by its name."""
    lab.pipeline(says("one"), outputs=[{"key": "result", "from": "one"}])
    lab.tests(case(expected_outputs={"output": "hello"}, evaluation_config={"strict_mode": True}))
    assert lab.run().row["result"] == "passed"
    lab.pipeline(says("one"), says("two", "2"), outputs=["one", "two"], evaluation_target="one")
    lab.tests(case("a", expected_outputs={"output": "hello"}), case("b", expected_outputs={"output": "2"}))
    assert lab.run().verdicts == {"a": "passed", "b": "failed"}
    lab.pipeline(says("one"), says("two", "2"), outputs=["one", {"key": "output", "from": "two"}])
    assert lab.run().verdicts == {"a": "failed", "b": "passed"}


def test_the_only_output_blames_the_step_that_produced_it(lab: PipelineProject) -> None:
    """Not the target step, although tests call it `output`."""
    lab.pipeline(
        says("one"),
        says("two", "{{ one }}", output_parser="number"),
        evaluation_target="one",
        outputs=["two"],
    )
    lab.tests(
        case(1, inputs={"text": "7"}, expected_outputs={"output": 8}),
        case(2, inputs={"text": "x"}, expected_outputs={"output": 8}),
        case(3, inputs={"text": "7"}, evaluation_config={"rules": [{"kind": "max_chars", "max": 0}]}),
    )
    first, second, third = lab.run().rows
    assert first["first_wrong"]["step"] == "two"
    assert "the step two has no output" in second["checks"][0]["why"]
    assert third["first_wrong"]["step"] == "two"


def test_a_failed_step_is_the_first_wrong_one(lab: PipelineProject) -> None:
    """Its own error is shown, not the missing output of a later step."""
    lab.pipeline(says("one", output_parser="number"), says("two", "{{ one }}"))
    lab.tests(case("later", expected_outputs={"two": "7"}), case("nothing"))
    ran = lab.run()
    assert ran.verdicts == {"later": "errored", "nothing": "errored"}
    for row in ran.rows:
        assert row["first_wrong"]["step"] == "one"
        assert "the reply contains no number" in row["first_wrong"]["why"]


def test_rules_of_the_file_and_of_the_test_both_count(lab: PipelineProject) -> None:
    """A rule of the only output applies under its own name and under `output`."""
    rules = [{"kind": "max_chars", "value": 4}]
    lab.pipeline(says("one"), outputs=[{"key": "short", "from": "one", "rules": rules}])
    own = {"rules": [{"kind": "starts_with", "value": "h"}]}
    lab.tests(
        case("long", evaluation_config=own),
        case("fine", inputs={"text": "hey"}, evaluation_config=own),
        case("other", inputs={"text": "ok"}, evaluation_config=own),
    )
    ran = lab.run()
    assert ran.verdicts == {"long": "failed", "fine": "passed", "other": "failed"}
    assert ran.rows[0]["first_wrong"]["step"] == "one"
    assert [check["passed"] for check in ran.rows[1]["checks"]] == [True, True]
    assert [check["of"] for check in ran.rows[1]["checks"]] == ["rules", "rules"]


def test_intermediate_expectations_count_only_where_they_are_switched_on(lab: PipelineProject) -> None:
    """By step id or output key; an unknown step fails."""
    lab.pipeline(says("one", output_key="first"), says("two", "{{ first }}2"))
    on = {"evaluate_intermediate": True}
    lab.tests(
        case("off", intermediate_expectations={"one": "wrong"}),
        case("id", intermediate_expectations={"one": "hello"}, evaluation_config=on),
        case("key", intermediate_expectations={"first": "hello"}, evaluation_config=on),
        case("wrong", intermediate_expectations={"two": "x", "one": "y"}, evaluation_config=on),
        case("nobody", intermediate_expectations={"three": "x"}, evaluation_config=on),
    )
    ran = lab.run()
    assert ran.verdicts == {
        "off": "not_evaluated",
        "id": "passed",
        "key": "passed",
        "wrong": "failed",
        "nobody": "failed",
    }
    assert ran.rows[3]["first_wrong"]["step"] == "one", "in the order of the pipeline, not of the expectations"
    assert "the pipeline has no step 'three'; it has: one, two" in ran.rows[4]["reason"]


@pytest.mark.parametrize(
    ("config", "result"),
    [
        ({}, "failed"),
        ({"evaluate_final": False}, "failed"),
        ({"evaluate_aggregation": False}, "failed"),
        ({"evaluate_final": False, "evaluate_aggregation": False}, "not_evaluated"),
        ({"ignore_fields": ["n", "mood"]}, "passed"),
        ({"tolerance": 0.5, "ignore_fields": ["mood"]}, "passed"),
        ({"tolerance": 0.4, "ignore_fields": ["mood"]}, "failed"),
    ],
)
def test_evaluation_config_selects_the_checks(lab: PipelineProject, config: dict[str, Any], result: str) -> None:
    """Final output and aggregation separately; ignored fields and tolerance for both."""
    lab.pipeline(
        {"id": "sum", "strategy": "stats", "fields": ["n"], "output": {"n": "fields.n.mean"}},
        says("mood", "good"),
    )
    lab.tests(
        case(
            batch_items=[{"n": 1}, {"n": 2}],
            expected_aggregation={"n": 2},
            expected_outputs={"mood": "bad"},
            evaluation_config=config,
        )
    )
    assert lab.run().row["result"] == result


def test_without_an_aggregate_step_the_final_output_is_the_aggregation(lab: PipelineProject) -> None:
    """The last step's output; with several outputs, all of them."""
    lab.pipeline(computes("count", "{'count': 2}"))
    lab.tests(case("a", expected_aggregation={"count": 2}), case("b", expected_aggregation={"count": 3}))
    assert lab.run().verdicts == {"a": "passed", "b": "failed"}
    lab.pipeline(computes("count", "{'count': 2}"), outputs=[{"key": "count", "from": "count.count"}])
    assert lab.run().verdicts == {"a": "passed", "b": "failed"}


def test_the_last_of_several_aggregates_is_the_aggregation(lab: PipelineProject) -> None:
    """Even if other steps follow."""
    first = {"id": "a", "strategy": "concat", "input_mapping": {"items": "batch_items"}}
    last = {
        "id": "b",
        "strategy": "summary",
        "summary_fields": ["total_count"],
        "input_mapping": {"items": "batch_items"},
    }
    ran = lab.of(first, last, says("after"), batch_items=[{"n": 1}], expected_aggregation={"total_count": 1})
    assert ran.row["result"] == "passed"


def test_a_rate_without_any_output_is_left_out_in_the_words_of_the_verdict(lab: PipelineProject) -> None:
    """`no answer` would be another verdict: that of an endpoint that does not answer."""
    lab.pipeline(orders("one", "{{ order }}", output_parser="number"))
    lab.tests(case("e", inputs={"order": "say no"}, expected_outputs={"one": 1}))
    (metric,) = [each for each in lab.run().entry().metrics if each.name == "pass_rate"]
    assert (metric.value, metric.left_out) == (None, {"errored": 1})
