"""Which model a step uses."""

from __future__ import annotations

import asyncio

import pytest

import assay
from assay.core.events import Noted
from assay.suites.pipeline.step_models import StepModels

from servers.endpoint import Endpoint
from support.pipeline_project import PipelineProject, PipelineResult, says


def test_a_bare_name_is_another_model_of_the_main_ones_provider() -> None:
    """A full name is used unchanged; the name of --model is the main model."""
    models = StepModels("openai/main")
    assert [models.role(name) for name in (None, "small", "openai/main", "main", "python/f.py:g")] == [
        "main",
        "openai/small",
        "main",
        "main",
        "python/f.py:g",
    ]
    assert models.roles == {
        "main": "openai/main",
        "openai/small": "openai/small",
        "python/f.py:g": "python/f.py:g",
    }
    assert models.notices == []


def test_a_name_with_a_slash_that_is_no_provider_is_a_name() -> None:
    """Endpoints serve models such as org/model."""
    assert StepModels("openai/main").role("org/model") == "openai/org/model"


@pytest.mark.parametrize("main", ["script/replies.jsonl", "python/m.py:f", "local/smollm2"])
def test_a_provider_of_one_model_replaces_other_names_with_a_notice(main: str) -> None:
    """One notice per name, however many steps have it."""
    models = StepModels(main)
    assert [models.role("gpt"), models.role("gpt"), models.role("other")] == ["main"] * 3
    assert models.notices == [
        f"{main} is used instead of 'gpt', which has no provider",
        f"{main} is used instead of 'other', which has no provider",
    ]


def test_the_notice_is_printed_in_a_run(lab: PipelineProject) -> None:
    """Recorded replies serve every model that the pipeline names."""
    lab.pipeline(says("one", model="gpt-x"))
    notes: list[str] = []
    spec = lab.spec(model=lab.script({"text": "r"}))
    assay.run(spec, [lambda event: notes.append(event.text) if isinstance(event, Noted) else None])
    assert notes == ["script/replies.jsonl is used instead of 'gpt-x', which has no provider"]


def test_each_model_gets_its_own_calls(lab: PipelineProject) -> None:
    """The main model, a second name at the same endpoint, and another provider."""
    lab.pipeline(says("main", "m"), says("named", "n", model="small"), says("own", "o", model="python/model.py:answer"))

    async def run() -> tuple[list[tuple[str, str]], PipelineResult]:
        async with Endpoint() as endpoint:
            ran = PipelineResult(await assay.arun(lab.spec(model="openai/big", base_url=endpoint.url)))
            return sorted((one.body["model"], one.body["messages"][0]["content"]) for one in endpoint.asked), ran

    asked, ran = asyncio.run(run())
    assert asked == [("big", "say m"), ("small", "say n")]
    assert ran.output("own") == "o"
    assert {call["request"]["model"] for call in ran.calls()} == {
        "openai/big",
        "openai/small",
        "python/model.py:answer",
    }


def test_a_pipeline_of_code_needs_no_model(lab: PipelineProject) -> None:
    """It makes no calls."""
    lab.pipeline({"id": "c", "code": "def transform(inputs):\n    return inputs['text']\n"})
    assert lab.run(model="").output("c") == "hello"


def test_a_pipeline_with_prompts_needs_a_model(lab: PipelineProject) -> None:
    """The message shows the flag."""
    lab.pipeline(says("one"))
    with pytest.raises(assay.core.errors.UsageError, match="no model is named; pass --model PROVIDER/NAME"):
        lab.run(model="")
