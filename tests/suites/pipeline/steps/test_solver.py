"""Steps as a graph: what runs beside what, and what a failure costs."""

from __future__ import annotations

import pytest

from support.pipeline_project import PipelineProject, case, computes, orders, says


def test_independent_steps_run_side_by_side(lab: PipelineProject) -> None:
    """Each of three waits until all three are asked."""
    steps = [orders(f"s{n}", f"meet 3 {n}") for n in range(3)]
    ran = lab.of(*steps)
    assert [ran.output(f"s{n}") for n in range(3)] == ["together"] * 3


def test_steps_that_need_each_other_run_one_after_the_other(lab: PipelineProject) -> None:
    """In whatever order the file has them."""
    last = says("last", "{{ middle }}!", input_mapping={"middle": "middle"})
    middle = says("middle", "{{ first }}{{ text }}")
    ran = lab.of(last, middle, says("first", "1"))
    assert ran.output("last") == "1hello!"
    assert list(ran.row["steps"]) == ["first", "middle", "last"]


def test_a_diamond_joins_what_ran_side_by_side(lab: PipelineProject) -> None:
    """Both arms see the top, the bottom sees both arms; the top is asked once."""
    top = says("top", "t", output_key="start")
    left, right = (orders(name, f"meet 2 {{{{ start }}}} {name}") for name in ("left", "right"))
    bottom = says("bottom", "{{ left }} {{ right }}")
    ran = lab.of(top, left, right, bottom)
    assert ran.output("bottom") == "together together"
    assert sorted(ran.prompts()) == ["meet 2 t left", "meet 2 t right", "say t", "say together together"]


def test_depends_on_orders_steps_that_share_nothing(lab: PipelineProject) -> None:
    """By the id of a step or the key of its output."""
    first = orders("first", "crowd", output_key="begin")
    ran = lab.of(first, orders("second", "crowd 2", depends_on=["begin"]))
    assert [ran.output("first"), ran.output("second")] == ["1", "1"]


def test_an_optional_step_that_fails_takes_only_what_needs_it(lab: PipelineProject) -> None:
    """The test goes on and is judged by its expectations."""
    bad = says("bad", "x", output_parser="number", required=False)
    needs = says("needs", "{{ bad }}", required=False)
    ran = lab.of(bad, needs, says("fine"), expected_outputs={"output": "hello"})
    assert ran.row["result"] == "passed"
    assert ran.row["steps"]["bad"]["status"] == "failed"
    assert ran.row["steps"]["needs"] == {"status": "skipped", "error": "it needs bad, which has no output"}
    assert ran.prompts() == ["say x", "say hello"]


def test_a_required_step_that_fails_errs_the_test_and_the_others_still_run(lab: PipelineProject) -> None:
    """The reason names the step that failed, not those that were skipped for it."""
    ran = lab.of(says("bad", "x", output_parser="number"), says("needs", "{{ bad }}"), says("fine"))
    assert ran.row["result"] == "errored"
    assert ran.row["reason"] == "step bad: the reply contains no number: 'x'"
    assert ran.row["first_wrong"]["step"] == "bad"
    assert ran.output("fine") == "hello"
    assert ran.run.summary.failures == {"failed_step": 1}


def test_a_required_step_behind_an_optional_one_that_failed_errs_the_test(lab: PipelineProject) -> None:
    """It could not run, and it is required."""
    ran = lab.of(says("bad", "x", output_parser="number", required=False), says("needs", "{{ bad }}"))
    assert ran.row["reason"] == "step needs: it needs bad, which has no output"


def test_a_refusal_fails_its_step(lab: PipelineProject) -> None:
    """It is the model's own word: the rest of the test runs, and asking again may help."""
    ran = lab.of(orders("no", "refuse", required=False, retry=1), says("fine"))
    step = ran.row["steps"]["no"]
    assert (step["status"], step["kind"], step["error"], step["attempts"]) == (
        "failed",
        "refusal",
        "I will not",
        2,
    )
    assert ran.row["result"] == "not_evaluated"
    assert ran.code == 0


def test_an_endpoint_that_fails_leaves_the_test_without_an_answer(lab: PipelineProject) -> None:
    """That is nobody's mistake here: it is asked again by the same command, and good replies are kept."""
    lab.pipeline(says("fine"), orders("gone", "{{ order }}"), says("after", "{{ fine }}", depends_on=["gone"]))
    lab.tests(case("a", inputs={"text": "A", "order": "down"}), case("b", inputs={"text": "B", "order": "say x"}))
    ran = lab.run()
    assert ran.verdicts == {"a": "no_answer", "b": "not_evaluated"}
    assert (ran.code, ran.run.summary.state) == (3, "incomplete")
    assert "nobody is there" in ran.rows[0]["reason"]
    again = lab.run()
    assert again.code == 3
    assert sum("failure" in call for call in again.calls()) == 2
    assert sum("response" in call for call in again.calls()) == 4, "what was answered is not asked again"


def test_a_step_that_takes_too_long_fails(lab: PipelineProject) -> None:
    """Its timeout is named; the others are not concerned."""
    ran = lab.of(orders("slow", "sleep 30", timeout=0.05), says("fine"))
    assert ran.row["reason"] == "step slow: it took longer than its timeout of 0.05 s"
    assert ran.row["steps"]["slow"]["kind"] == "timeout"
    assert ran.output("fine") == "hello"


def test_code_that_takes_too_long_is_stopped(lab: PipelineProject) -> None:
    """The timeout counts for code too."""
    ran = lab.of(computes("slow", "[n for n in iter(int, 1)]", timeout=0.2), says("fine"))
    assert ran.row["steps"]["slow"]["kind"] == "timeout"
    assert "0.2 s" in ran.row["reason"]


def test_a_retry_asks_again_and_gets_another_reply(lab: PipelineProject) -> None:
    """The request is the same, its number is not; what it took is counted."""
    ran = lab.of(orders("step", "nth x|y|7", output_parser="number", retry=2))
    assert ran.output("step") == 7
    assert (ran.row["steps"]["step"]["attempts"], ran.row["steps"]["step"]["calls"]) == (3, 3)
    assert [call["n"] for call in ran.calls()] == [0, 1, 2]
    assert ran.row["result"] == "not_evaluated"
    failed = lab.of(orders("step", "nth x|y|7", output_parser="number", retry=1))
    assert failed.row["reason"] == "step step: the reply contains no number: 'y'"


def test_the_test_speaks_louder_than_the_mapping_and_the_mapping_than_the_inputs(lab: PipelineProject) -> None:
    """Names that nobody maps are inputs of the pipeline."""
    mapping = {"b": "inputs.mapped", "c": "inputs.mapped"}
    step = says("step", "{{ a }} {{ b }} {{ c }}", input_mapping=mapping)
    inputs = {"a": "input", "b": "input", "c": "input", "mapped": "mapped"}
    ran = lab.of(step, inputs=inputs, step_inputs={"step": {"c": "told"}})
    assert ran.output("step") == "input mapped told"


def test_a_test_may_name_a_step_by_its_output(lab: PipelineProject) -> None:
    """The step's own id counts where both are named."""
    told = {"first": {"a": 1, "b": 1}, "one": {"b": 2}}
    ran = lab.of(says("one", "{{ a }}{{ b }}", output_key="first"), step_inputs=told)
    assert ran.output("one") == "12"


@pytest.mark.parametrize(
    ("step", "why"),
    [
        (
            says("step", "{{ nobody }}"),
            "the template is refused: 'nobody' is undefined; no input of the test and no step has this name",
        ),
        (
            says("step", input_mapping={"x": "nobody"}),
            "there is no 'nobody': the test has no input of that name",
        ),
        (says("step", input_mapping={"x": "inputs.nobody"}), "inputs has no 'nobody'; it has: text"),
    ],
)
def test_a_missing_input_is_named(lab: PipelineProject, step: dict[str, object], why: str) -> None:
    """And nothing is asked with a hole in it."""
    ran = lab.of(step)
    assert ran.row["reason"] == f"step step: {why}"
    assert ran.calls() == []


def test_an_optional_input_is_empty_where_a_test_has_none(lab: PipelineProject) -> None:
    """A required one is missed."""
    lab.pipeline(says("step", "<{{ note }}>"), inputs=["text", {"name": "note", "required": False}])
    assert lab.run().output("step") == "<>"


def test_code_without_a_mapping_sees_everything_above_it(lab: PipelineProject) -> None:
    """By the keys of their outputs, with the inputs beside."""
    one, two = computes("one", "1", output_key="first"), computes("two", "2")
    ran = lab.of(one, two, computes("three", "[inputs['first'], inputs['two'], inputs['text']]"))
    assert ran.output("three") == [1, 2, "hello"]


def test_an_output_that_cannot_be_found_is_missing_not_empty(lab: PipelineProject) -> None:
    """The check that wanted it says why."""
    lab.pipeline(says("step", '{"a": 1}', output_parser="json"), outputs=[{"key": "b", "from": "step.b"}])
    lab.tests(case(expected_outputs={"b": 1}))
    ran = lab.run()
    assert ran.row["outputs"] == {}
    assert ran.row["result"] == "failed"
    assert ran.row["first_wrong"]["why"] == "step has no 'b'; it has: a"


def test_tokens_and_calls_are_counted_by_step(lab: PipelineProject) -> None:
    """Input and output apart, in the record and in the summary."""
    ran = lab.of(says("one"), says("each", "{{ n }}", batch_mode=True), batch_items=[{"n": 1}, {"n": 2}])
    assert ran.row["steps"]["each"]["tokens"] == [6, 4]
    assert ran.row["tokens"] == {"input": 9, "output": 6}
    step = ran.step_figures("each")
    assert (step["calls"], step["tokens in"], step["out"]) == (2, 6, 4)
