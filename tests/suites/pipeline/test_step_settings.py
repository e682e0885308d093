"""A test's `step_inputs` for a prompt step: another model, timeout and parameters of the request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import assay
from assay.core.errors import InputError, UsageError

from servers.endpoint import Endpoint
from support.pipeline_project import COMMAND, PipelineProject, PipelineResult, case, orders, says, typed


def asked(lab: PipelineProject, **options: Any) -> list[dict[str, Any]]:
    """Run against an endpoint, and return the bodies of the requests, sorted by their prompt."""

    async def run() -> list[dict[str, Any]]:
        async with Endpoint() as endpoint:
            run = await assay.arun(lab.spec(model="openai/big", base_url=endpoint.url, **options))
            assert run.exit_code == 0, run.reason
            bodies = [request.body for request in endpoint.asked]
            return sorted(bodies, key=lambda body: str(body["messages"][0]["content"]))

    return asyncio.run(run())


def test_a_test_switches_the_model_and_the_parameters_of_a_step(lab: PipelineProject) -> None:
    """By the step's id or its output key. Other tests keep the step's own; null removes a parameter."""
    lab.pipeline(says("a", params={"temperature": 0.5, "top_p": 1}, model="small", output_key="reply"))
    lab.tests(
        case("1", inputs={"text": "1"}, expected_outputs={"reply": "non_empty:"}),
        case(
            "2",
            inputs={"text": "2"},
            step_inputs={"a": {"model": "advanced", "temperature": 1, "max_tokens": 9, "stop": "END"}},
        ),
        case("3", inputs={"text": "3"}, step_inputs={"reply": {"model_override": "org/other", "top_p": None}}),
        case("4", inputs={"text": "4"}, step_inputs={"a": {"params": {"top_k": 4}, "top_p": 0.1}}),
    )
    keys = ("model", "temperature", "top_p", "max_tokens", "stop", "top_k")
    assert [{key: body[key] for key in keys if key in body} for body in asked(lab)] == [
        {"model": "small", "temperature": 0.5, "top_p": 1},
        {"model": "advanced", "temperature": 1, "top_p": 1, "max_tokens": 9, "stop": ["END"]},
        {"model": "org/other", "temperature": 0.5},
        {"model": "small", "temperature": 0.5, "top_p": 0.1, "top_k": 4},
    ]


def test_parameters_of_the_command_line_win(lab: PipelineProject) -> None:
    """As they do over those of the steps."""
    lab.pipeline(says("a"))
    lab.tests(case(step_inputs={"a": {"temperature": 1}}, expected_outputs={"a": "non_empty:"}))
    (body,) = asked(lab, gen_kwargs={"temperature": 0.25})
    assert body["temperature"] == 0.25


@pytest.mark.parametrize(
    "keys",
    [
        {"steps": [says("a", "{{ text }} by {{ model }}")]},
        {"steps": [says("a", system="You are {{ model }}.")]},
        {"steps": [says("a", defaults={"model": "x"})]},
        {"steps": [says("a", input_mapping={"text": "text", "model": "text"})]},
        {"steps": [says("a")], "inputs": ["text", "model"]},
    ],
    ids=["template", "system", "defaults", "mapping", "inputs"],
)
def test_a_name_that_the_prompt_or_the_pipeline_reads_stays_a_value(lab: PipelineProject, keys: dict[str, Any]) -> None:
    """The model of the step does not change, and the value may have any type."""
    lab.pipeline(**{"steps": [], **keys})
    lab.tests(
        case(step_inputs={"a": {"model": ["a car"]}}, expected_outputs={"a": "non_empty:"}),
    )
    (body,) = asked(lab)
    assert body["model"] == "big"


def test_a_test_sets_the_timeout_of_a_step(lab: PipelineProject) -> None:
    """A shorter one fails the step; a longer one lets it finish."""
    lab.pipeline(orders("a", "sleep {{ seconds }}", timeout=0.05))
    lab.tests(
        case("long", inputs={"seconds": 0.2}, step_inputs={"a": {"timeout": 60}}),
        case("own", inputs={"seconds": 60}),
        case("short", inputs={"seconds": 60}, step_inputs={"a": {"timeout": 0.01}}),
    )
    rows = {row["id"]: row["steps"]["a"] for row in lab.run().rows}
    assert rows["long"]["output"] == "slept"
    assert (rows["own"]["kind"], rows["own"]["error"]) == (
        "timeout",
        "it took longer than its timeout of 0.05 s",
    )
    assert rows["short"]["error"] == "it took longer than its timeout of 0.01 s"


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"model": 3}, "model: must be the name of a model, not a number"),
        ({"model": ""}, "model: is empty"),
        ({"temperature": "hot"}, "temperature: must be a number from 0 on, not a text"),
        ({"temperature": True}, "temperature: must be a number from 0 on"),
        ({"timeout": 0}, "timeout: must be seconds, more than 0, not 0"),
        ({"max_tokens": 0}, "max_tokens: must be a whole number from 1 on, not 0"),
        ({"params": {"temprature": 1}}, "there is no parameter 'temprature'; did you mean 'temperature'?"),
        ({"params": {"messages": []}}, "'messages' is not a parameter"),
        ({"params": {"headers": {"X-Mail": "$HOME"}}}, "a test must not set headers"),
        ({"model": "opnai/gpt"}, "there is no provider of models named 'opnai'; did you mean 'openai'?"),
        ({"model": "python/model.py:answer"}, "code that a testset names needs --allow-code"),
    ],
)
def test_wrong_settings_are_refused_before_the_first_call(
    lab: PipelineProject, values: dict[str, Any], message: str
) -> None:
    """With file, line and key; nothing is written."""
    lab.pipeline(says("a"))
    lab.tests(case("1"), case("2", step_inputs={"a": values}))
    with pytest.raises(InputError, match=r"tests\.jsonl:2 \$\.step_inputs\.a\.") as refused:
        lab.run(model=lab.script({"text": "r"}))
    assert message in str(refused.value)
    assert not (lab.folder / "out").exists()


def test_a_model_without_a_key_is_refused_with_the_line_that_names_it(lab: PipelineProject) -> None:
    """Before the first call, and only if the test is selected."""
    lab.pipeline(says("a"))
    lab.tests(case("1"), case("2", step_inputs={"a": {"model": "openai/gpt"}}))
    with pytest.raises(UsageError, match=r"tests\.jsonl:2 \$\.step_inputs\.a\.model: no endpoint and no key"):
        lab.run()
    assert lab.run(limit=1).output("a") == "hello"


def test_a_function_of_a_testset_answers_with_permission(lab: PipelineProject) -> None:
    """`--allow-code` allows it, as for code in a testset."""
    lab.pipeline(says("a"))
    lab.tests(case("1", step_inputs={"a": {"model": "python/model.py:answer"}}))
    ran = lab.run(model=lab.script({"text": "r"}), allow_code=True)
    assert ran.output("a") == "hello"


def test_another_model_of_a_test_is_another_run(lab: PipelineProject) -> None:
    """The test's inputs and the models of the run are part of its identity."""
    lab.pipeline(says("a"))
    first, second = lab.script({"text": "1"}, name="one.jsonl"), lab.script({"text": "2"}, name="two.jsonl")
    results: list[PipelineResult] = []
    for model in (first, second, first):
        lab.tests(case(step_inputs={"a": {"model": model}}))
        results.append(lab.run())
    assert [result.output("a") for result in results] == ["1", "2", "1"]
    assert results[0].run.folder == results[2].run.folder != results[1].run.folder


def test_the_plan_counts_the_calls_of_each_model(lab: PipelineProject, capsys: pytest.CaptureFixture[str]) -> None:
    """`--dry-run` lists the models that tests name, with the limits that tests set."""
    lab.pipeline(says("a", params={"max_tokens": 5}))
    other = lab.script({"text": "1"}, name="one.jsonl")
    lab.tests(case("1"), case("2"), case("3", step_inputs={"a": {"model": other, "max_tokens": 7}}))
    done = typed(capsys, *COMMAND, "--dry-run")
    assert done.code == 0, done.err
    lines = [line.split() for line in done.out.splitlines() if line.startswith("step a")]
    assert [(line[2], line[3], line[5]) for line in lines] == [
        ("python/model.py:answer", "2", "10"),
        ("script/one.jsonl", "1", "7"),
    ]


def test_check_finds_wrong_settings_beside_the_pipeline(
    lab: PipelineProject, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a run."""
    lab.pipeline(says("a"))
    lab.tests(case("1", step_inputs={"a": {"temperature": "hot"}}))
    done = typed(capsys, "check", "tests.jsonl", "--pipeline", "p.yaml")
    assert done.code != 0
    assert "tests.jsonl:1 $.step_inputs.a.temperature: must be a number from 0 on, not a text" in done.out
