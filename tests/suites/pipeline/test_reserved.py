"""The four reserved fields: parameters, depends_on, conditions, performance_baseline."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError

from support.pipeline_project import COMMAND, PipelineProject, PipelineResult, case, computes, orders, says, typed


def ids(ran: PipelineResult) -> list[str]:
    """In the order of the file."""
    return [row["id"] for row in ran.rows]


def test_parameters_make_a_test_of_every_combination(lab: PipelineProject) -> None:
    """With the id `id[k=v]`; the last list changes fastest, and the values are inputs."""
    lab.pipeline(says("one", "{{ tone }} {{ size }} {{ text }}"))
    lab.tests(case("t", parameters={"tone": ["warm", "cold"], "size": [1, 2]}))
    ran = lab.run()
    assert [(row["id"], row["outputs"]["one"]) for row in ran.rows] == [
        ("t[tone=warm,size=1]", "warm 1 hello"),
        ("t[tone=warm,size=2]", "warm 2 hello"),
        ("t[tone=cold,size=1]", "cold 1 hello"),
        ("t[tone=cold,size=2]", "cold 2 hello"),
    ]


def test_one_combination_can_be_selected(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """A comma in brackets does not split; the id without brackets selects all."""
    lab.pipeline(says("one", "{{ a }}{{ b }}"))
    lab.tests(case("t", parameters={"a": [1, 2], "b": [3, 4]}), case("u", inputs={"a": 0, "b": 0}))
    done = typed(capsys, *COMMAND, "--ids", "t[a=1,b=4],u")
    assert done.code == 0, done.err
    lines = Path("out/p/results.csv").read_text().splitlines()
    assert lines[1].startswith('"t[a=1,b=4]"')
    assert lines[2].startswith("u,")
    assert len(lines) == 3
    assert len(lab.run(ids=["t"]).rows) == 4
    with pytest.raises(UsageError, match=r"there is no case named 't\[a=1,b=5\]'"):
        lab.run(ids=["t[a=1,b=5]"])


def test_a_test_waits_for_the_one_it_depends_on(lab: PipelineProject) -> None:
    """It runs when the other has passed; files are in the order of running."""
    lab.pipeline(says("one"))
    lab.tests(
        case("late", depends_on=["early"], inputs={"text": "L"}, expected_outputs={"one": "L"}),
        case("early", inputs={"text": "E"}, expected_outputs={"one": "E"}),
    )
    ran = lab.run()
    assert ran.verdicts == {"early": "passed", "late": "passed"}
    assert ran.prompts() == ["say E", "say L"]
    assert ids(ran) == ["early", "late"]


def test_a_chain_behind_a_failure_is_skipped(lab: PipelineProject) -> None:
    """With the reason and without a request; the exit code is that of the failure."""
    lab.pipeline(says("one"))
    lab.tests(
        case("a", inputs={"text": "A"}, expected_outputs={"one": "other"}),
        case("b", inputs={"text": "B"}, depends_on=["a"]),
        case("c", inputs={"text": "C"}, depends_on="b"),
        case("d", inputs={"text": "D"}),
    )
    ran = lab.run()
    assert ran.verdicts == {"a": "failed", "b": "skipped", "c": "skipped", "d": "not_evaluated"}
    assert {row["id"]: row["reason"] for row in ran.rows if row["result"] == "skipped"} == {
        "b": "it depends on a, which failed",
        "c": "it depends on b, which was skipped",
    }
    assert sorted(ran.prompts()) == ["say A", "say D"]
    assert ran.code == 1
    metric = ran.entry().metrics[0]
    assert (metric.numerator, metric.denominator, metric.left_out) == (
        0,
        1,
        {"not evaluated": 1, "skipped": 2},
    )


def test_a_test_that_depends_on_one_that_errored_is_skipped(lab: PipelineProject) -> None:
    """Also if that one has no expectations."""
    lab.pipeline(says("one", output_parser="number"))
    lab.tests(case("a"), case("b", inputs={"text": "1"}, depends_on=["a"]), case("c", inputs={"text": "2"}))
    assert lab.run().verdicts == {"a": "errored", "b": "skipped", "c": "not_evaluated"}


def test_checks_that_need_a_judge_do_not_skip_dependent_tests(lab: PipelineProject) -> None:
    """The judge is called later; other checks count."""
    lab.pipeline(says("one"))
    no = '{"reason": "r", "passed": false}'
    lab.tests(
        case("a", expected_outputs={"one": "judge:is polite"}),
        case("b", inputs={"text": "B"}, depends_on=["a"], expected_outputs={"one": "B"}),
    )
    ran = lab.run(judge=lab.script({"text": no}))
    assert ran.verdicts == {"a": "failed", "b": "passed"}


def test_ids_that_begin_alike_are_kept_apart(lab: PipelineProject) -> None:
    """Tests of one group are one case; an id may contain a slash."""
    lab.pipeline(says("one"))
    lab.tests(
        case("a", inputs={"text": "A"}, expected_outputs={"one": "A"}),
        case("a/one", inputs={"text": "B"}, depends_on=["a"], expected_outputs={"one": "B"}),
        case("a/one/one", inputs={"text": "C"}, depends_on=["a/one"], expected_outputs={"one": "C"}),
    )
    ran = lab.run()
    assert set(ran.verdicts.values()) == {"passed"}
    assert [row["steps"]["one"]["output"] for row in ran.rows] == ["A", "B", "C"]
    assert [list(row["steps"]) for row in ran.rows] == [["one"]] * 3


def test_depends_on_a_test_with_parameters_waits_for_all_combinations(lab: PipelineProject) -> None:
    """By its id; a single one by its own id."""
    lab.pipeline(says("one", "{{ n }}", output_parser="number"), inputs=["n"])
    lab.tests(
        case("p", parameters={"n": [1, 2]}, inputs={}, expected_outputs={"one": 1}),
        case("all", inputs={"n": 5}, depends_on=["p"]),
        case("first", inputs={"n": 6}, depends_on=["p[n=1]"]),
    )
    assert lab.run().verdicts == {
        "p[n=1]": "passed",
        "p[n=2]": "failed",
        "all": "skipped",
        "first": "not_evaluated",
    }


def test_a_selected_test_runs_with_its_dependencies(lab: PipelineProject) -> None:
    """They decide whether it may run."""
    lab.pipeline(says("one"))
    lab.tests(case("a"), case("b", depends_on=["a"]), case("c"))
    assert ids(lab.run(ids=["b"])) == ["a", "b"]


@pytest.mark.parametrize(
    ("condition", "runs"),
    [
        ("text == 'hello'", True),
        ("inputs.text == 'hello' and level > 2", True),
        ("level > 3", False),
        ("'slow' in tags", True),
        ("'fast' in tags", False),
        ("variant == 'baseline'", True),
        ("variant == 'other'", False),
        ("nobody is null", True),
        ("nobody > 1", False),
    ],
)
def test_a_test_runs_where_its_condition_holds(lab: PipelineProject, condition: str, runs: bool) -> None:
    """Over its inputs, tags and the variant; an unknown name is null."""
    fields: dict[str, Any] = {"inputs": {"text": "hello", "level": 3}, "tags": ["slow"]}
    ran = lab.of(says("one"), conditions=condition, **fields)
    assert ran.row["result"] == ("not_evaluated" if runs else "skipped")
    assert len(ran.calls()) == runs
    if not runs:
        assert ran.row["reason"] == f"its condition is not met: {condition}"
        assert ran.code == 1, "no test ran"


def test_a_condition_may_choose_the_variant(lab: PipelineProject) -> None:
    """Each variant of a test evaluates it."""
    lab.pipeline(says("one"), variants={"v": {"overrides": {"one": {"template": "say v"}}}})
    lab.tests(case(conditions="variant == 'v'"))
    ran = lab.run(variant=["all"])
    assert [(row["variant"], row["result"]) for row in ran.rows] == [
        ("baseline", "skipped"),
        ("v", "not_evaluated"),
    ]


@pytest.mark.parametrize("condition", ["__import__('os').system('x')", "level >", "open('x')", "a.__class__()"])
def test_an_invalid_condition_is_refused_before_the_run(lab: PipelineProject, condition: str) -> None:
    """With the line of the test."""
    lab.pipeline(says("one"))
    lab.tests(case("a"), case("b", conditions=condition))
    with pytest.raises(InputError, match=r"tests\.jsonl:2 \$\.conditions: "):
        assay.run(lab.spec())
    assert not Path("out").exists()


def test_a_baseline_is_a_check_like_any_other(lab: PipelineProject) -> None:
    """Of the test and of its steps; the step above its limit is the first that went wrong."""
    lab.pipeline(says("one"), says("two", "{{ one }}", output_key="second"))
    limits = {
        "max_seconds": 60,
        "max_tokens": 10,
        "steps": {"one": {"max_tokens": 5}, "second": {"max_tokens": 4}},
    }
    lab.tests(case(performance_baseline=limits))
    ran = lab.run()
    assert ran.code == 1
    checks = [(check["step"], check["kind"], check["passed"]) for check in ran.row["checks"]]
    assert checks == [
        ("", "max_seconds", True),
        ("", "max_tokens", True),
        ("one", "max_tokens", True),
        ("two", "max_tokens", False),
    ]
    assert ran.row["first_wrong"] == {
        "step": "two",
        "path": "two.max_tokens",
        "expected": 4,
        "actual": 5,
        "why": "5 is more than 4",
    }


def test_a_test_that_took_too_long_fails(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """No single step is the cause, and the report names none."""
    lab.pipeline(orders("one", "sleep 0.05"))
    lab.tests(case(performance_baseline={"max_seconds": 0.01}))
    done = typed(capsys, *COMMAND)
    assert done.code == 1
    assert "tests/t failed, 1 of 1 checks failed" in done.out
    assert "is more than 0.01" in done.out


@pytest.mark.parametrize(
    ("step", "why"),
    [("tow", "the pipeline has no such step; it has: one, bad, two"), ("two", "it did not run")],
)
def test_a_limit_of_a_step_that_did_not_run_fails(lab: PipelineProject, step: str, why: str) -> None:
    """There is no measured value within the limit."""
    bad = says("bad", "x", output_parser="number", required=False)
    lab.pipeline(says("one"), says("two", "{{ bad }}", required=False), bad)
    lab.tests(case(performance_baseline={"steps": {step: {"max_seconds": 60}}}))
    (check,) = lab.run().row["checks"]
    assert (check["passed"], check["why"]) == (False, why)


GOLD = "GOLDEN-3f9a"


def test_no_expectation_ever_reaches_a_model_or_a_step(lab: PipelineProject) -> None:
    """A marker in every expectation field appears in no request and no step's inputs."""
    lab.pipeline(
        says("one", "{{ text }} {{ extra }}"),
        computes("seen", "[str(inputs)]"),
        says("each", "{{ item }}", batch_mode=True),
        {"id": "all", "type": "aggregate"},
        inputs=["text", {"name": "extra", "required": False}],
    )
    gold: dict[str, Any] = {
        "expected_outputs": {"all": GOLD, "output": f"contains:{GOLD}"},
        "expected_aggregation": {GOLD: GOLD},
        "intermediate_expectations": {"one": GOLD, GOLD: 1},
        "evaluation_config": {
            "evaluate_intermediate": True,
            "ignore_fields": [GOLD],
            "rules": [{"kind": "contains_any", "keywords": [GOLD]}],
        },
        "performance_baseline": {"max_seconds": 1000, "steps": {GOLD: {"max_seconds": 1}}},
        "description": GOLD,
        "metadata": {"note": GOLD},
    }
    lab.tests(
        case("a", batch_items=[{"n": 1}], **gold),
        case("b", batch_items=[{"n": 2}], **{**gold, "conditions": f"text != '{GOLD}'"}),
        case("c", depends_on=["a"], batch_items=[{"n": 3}], **gold),
        {"id": "v1", "text": "v1", "expected_output": GOLD, "expected": GOLD, "expected_sentiment": GOLD},
    )
    ran = lab.run()
    assert {row["id"] for row in ran.rows} == {"a", "b", "c", "v1"}
    assert len(ran.calls()) >= 5
    assert GOLD not in (ran.run.folder / "calls.jsonl").read_text()
    for row in ran.rows:
        assert GOLD not in str(row["inputs"])
        assert GOLD not in str(row["steps"]), row["id"]
