"""How `assay.evaluate` connects its models: functions of the program, and models by name."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import UsageError
from assay.core.report import Report
from assay.core.roles import Role
from assay.core.spec import RunSpec, SuiteOptions
from assay.core.suite import CaseContent, ListedRows, Outcome, Results, Row, Rows, RunFacts, Suite
from assay.models.python import PythonModel
from assay.runner.opening import open_suite

ROWS = [{"question": "2+2?", "answer": "4"}]


class TwoModels(Suite[SuiteOptions, str]):
    """A suite with a main model that only the calling program has, and a judge that has a name."""

    name = "two"
    Options = SuiteOptions

    def __init__(self) -> None:
        super().__init__(RunSpec(suite="two", options=SuiteOptions()))
        self.roles = {"main": Role("python/function"), "judge": Role("script/replies.jsonl", mark="score")}

    def ask_identity(self) -> dict[str, Any]:
        return {}

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[str]:
        return ListedRows([], key=str, set="")

    def subjects(self) -> Sequence[str]:
        return []

    def case(self, row: Row[str], subject: str) -> CaseContent:
        return CaseContent(inputs=row.data)

    def finish(self, results: Results[str], run: RunFacts) -> Outcome:
        return Outcome(Report())


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder with recorded replies."""
    monkeypatch.chdir(tmp_path)
    Path("replies.jsonl").write_text('{"text": "4"}\n')


def test_a_function_is_the_model_of_its_role_and_the_other_roles_are_connected_by_name() -> None:
    function = PythonModel(str, endpoint="function:5f0c", timeout=1.0, concurrency=1)
    suite = TwoModels()
    opened = open_suite(suite.spec, lambda _: suite, functions={"main": function})
    assert opened.suite is suite
    assert opened.models["main"] is function
    assert opened.models["judge"].endpoint.startswith("file:")


def test_the_suite_gets_the_endpoint_of_a_function_only_if_that_is_the_main_model() -> None:
    function = PythonModel(str, endpoint="function:5f0c", timeout=1.0, concurrency=1)
    main, judge = TwoModels(), TwoModels()
    judge.roles = {"judge": judge.roles["judge"]}
    specs: list[RunSpec] = []
    for suite, role in ((main, "main"), (judge, "judge")):

        def make(connected: RunSpec, suite: TwoModels = suite) -> TwoModels:
            specs.append(connected)
            return suite

        open_suite(suite.spec, make, functions={role: function})
    assert [each.base_url for each in specs] == ["function:5f0c", None]


def test_a_mistake_in_the_prompt_is_named_before_one_in_the_name_of_the_model() -> None:
    """The suite of an evaluation is built before its models are connected."""
    with pytest.raises(UsageError, match="the prompt names 'nothing'"):
        assay.evaluate(ROWS, model="nowhere/x", prompt="{{ nothing }}", score=[assay.exact_match("answer")])
    with pytest.raises(UsageError, match="there is no provider named 'nowhere'"):
        assay.evaluate(ROWS, model="nowhere/x", prompt="{{ question }}", score=[assay.exact_match("answer")])
