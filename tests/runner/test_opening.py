"""How a suite is opened with its models: which are connected, and what stands for the others."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Literal

import pytest

import assay
from assay.core.errors import DamagedRun
from assay.core.roles import Role
from assay.core.spec import RunSpec
from assay.engine.connect import ReplayOnlyModel
from assay.journal.run_files import read_info
from assay.runner.opening import open_run, open_suite, refuse_incomplete

from support.word_run import WordOptions, WordSuite

MODEL = 'def answer(prompt, params):\n    return "yes"\n'


class JudgedSuite(WordSuite):
    """Words with a judge."""

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        self.roles = {**self.roles, "judge": Role(spec.model, mark="score")}


@pytest.fixture
def spec(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> RunSpec:
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(MODEL)
    return RunSpec(suite="words", options=WordOptions(), model="python/model.py:answer", output_dir="output")


@pytest.mark.parametrize(
    ("connect", "stand_ins"),
    [("all", set()), ("judges", {"main"}), ("none", {"main", "judge"})],
)
def test_only_the_models_that_are_named_send_requests(
    spec: RunSpec, connect: Literal["all", "judges", "none"], stand_ins: set[str]
) -> None:
    suite, models = open_suite(spec, JudgedSuite, connect=connect, endpoint="then")
    assert models.keys() == suite.roles.keys()
    assert {name for name, model in models.items() if isinstance(model, ReplayOnlyModel)} == stand_ins
    assert {models[name].endpoint for name in stand_ins} <= {"then"}


def test_the_suite_is_built_with_the_endpoint_that_the_provider_chose(spec: RunSpec) -> None:
    suite, models = open_suite(spec, WordSuite)
    assert suite.spec.base_url == models["main"].endpoint
    assert suite.spec.base_url is not None


def test_a_stand_in_has_the_endpoint_that_its_role_had(spec: RunSpec) -> None:
    _, models = open_suite(spec, JudgedSuite, connect="none", endpoint="main then", endpoints={"judge": "judge then"})
    assert {name: model.endpoint for name, model in models.items()} == {"main": "main then", "judge": "judge then"}


def test_opening_a_run_writes_nothing(spec: RunSpec) -> None:
    before = {path: path.stat().st_mtime_ns for path in Path().rglob("*") if "__pycache__" not in path.parts}
    Path("rows.jsonl").write_text('{"input": "a", "target": "b"}\n')
    rows = Path("rows.jsonl")
    task = Path("t.yaml")
    task.write_text(
        f"task: t\ndataset_path: json\ndataset_kwargs: {{data_files: {rows}}}\ntest_split: train\n"
        "doc_to_text: '{{input}}'\ndoc_to_target: '{{target}}'\noutput_type: generate_until\n"
    )
    runner = open_run(assay.spec("task", tasks=[str(task)], model=spec.model, output_dir="output"))
    asyncio.run(runner.close())
    after = {path for path in Path().rglob("*") if "__pycache__" not in path.parts}
    assert after == {*before, rows, task}


@pytest.mark.parametrize("missing", ["options", "base_url", "output_dir", "parts", "models"])
def test_a_forged_run_without_settings_is_damage(spec: RunSpec, missing: str) -> None:
    from assay.runner.runner import Runner

    suite, models = open_suite(spec, WordSuite)
    run = asyncio.run(Runner(suite, models).start_or_show())
    info = read_info(run.folder)
    refuse_incomplete(run.folder, info)
    if missing == "parts":
        info.parts = {}
    elif missing == "models":
        info.parts["ask"].pop("models")
    else:
        info.spec.pop(missing)
    with pytest.raises(DamagedRun, match="lacks settings"):
        refuse_incomplete(run.folder, info)
