"""Suites that are still a module with a `plan` function, as objects of the base class. Goes with the last of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, ClassVar, NoReturn, cast

from msgspec.structs import replace

from assay.core import registry
from assay.core.connect import CHAT, role_of
from assay.core.errors import Problem
from assay.core.protocols import Reader
from assay.core.protocols import RunFacts as PlanFacts
from assay.core.report import Report
from assay.core.spec import RunSpec, SuiteOptions
from assay.core.suite import CaseContent, Outcome, Results, Row, Rows, RunFacts, Suite
from assay.core.types import Case, Record
from assay.engine.cases import Cases
from assay.suites import BUILT_IN, find_suite

_URLS = ("OPENAI_BASE_URL_JUDGE", "OPENAI_BASE_URL")


def suite_for(name: str) -> type[Suite[Any, Any]]:
    """The suite of this name as a class."""
    if name in BUILT_IN or name not in registry.built_in("suite"):
        return find_suite(name)
    found = registry.find("suite", name)
    return type("NamedLegacySuite", (LegacySuite,), {"module": found, "name": name, "Options": found.Options})


class LegacySuite(Suite[SuiteOptions, Any]):
    """Asks the plan of a module."""

    module: ClassVar[Any]

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        if getattr(spec.options, "eval_only", False):
            here = next((os.environ[name] for name in _URLS if os.environ.get(name)), None)
            url = getattr(spec.options, "judge_base_url", None) or spec.base_url or here
            options: Any = replace(spec.options, judge_base_url=url)
            spec = replace(spec, model="", base_url=None, options=options)
        if hasattr(cls.module, "normalise"):
            spec = cls.module.normalise(spec)
        return spec

    @classmethod
    def adopt(cls, spec: RunSpec) -> Path | None:
        if not getattr(spec.options, "eval_only", False):
            return None
        return cast("Path | None", cls.module.own_run(spec))

    @classmethod
    def replace_files(cls, spec: RunSpec, files: Sequence[str], facts: Any) -> RunSpec:
        if hasattr(cls.module, "replaced"):
            spec = cls.module.replaced(spec, list(files), list(facts))
        return spec

    def __init__(self, spec: RunSpec) -> None:
        super().__init__(spec)
        self.plan = self.module.plan(spec)
        self.solver, self.scorers = self.plan.solver, self.plan.scorers
        self.notices = self.plan.notices
        self.open_cases = getattr(self.plan, "open_cases", None)
        self.exclusive_output = getattr(self.plan, "alone", False)
        roles = getattr(self.plan, "roles", {"main": spec.model})
        self.roles = {}
        for name, named in roles.items():
            judge = name == "judge"
            self.roles[name] = replace(
                role_of(named),
                needs=frozenset({CHAT}) if judge else self.plan.needs,
                mark="score" if judge else "ask",
                args=spec.options.model_arguments(),
            )
        if getattr(self.plan, "common", False):
            self.shared_endpoint = getattr(self.plan, "common_role", "main")

    def ask_identity(self) -> dict[str, Any]:
        return cast("dict[str, Any]", self.plan.ask)

    def data_identity(self) -> Any:
        return None

    def score_identity(self) -> Any:
        return self.plan.score

    async def passed(self, case: Case, records: Sequence[Record], part: str) -> bool:
        return cast("bool", self.plan.passed(case, records, part))

    def plan_cases(self, facts: dict[str, Any] | None) -> tuple[Cases, dict[str, Any]]:
        facts = self.plan.prepare(facts)
        return cast("Cases", _PlanCases(self.plan)), facts

    def finish_plan(self, reader: Any, facts: RunFacts) -> tuple[Outcome, dict[str, Any]]:
        from assay.core.protocols import Outcome as PlanOutcome

        reader = cast("Reader", reader)
        done = PlanOutcome(*self.plan.finish(reader, PlanFacts(facts.started, facts.seconds, facts.folder)))
        report = Report(passed=done.passed, notices=list(done.notices))
        return Outcome(report, done.files, done.newest), done.results

    async def close(self) -> None:
        await super().close()
        if hasattr(self.plan, "close"):
            await self.plan.close()

    @classmethod
    def check(cls, path: Path, beside: Path | None = None) -> list[Problem]:
        # A submodule of the name `check` takes the function's place once it is imported.
        check = getattr(cls.module.check, "check_file", cls.module.check)
        return cast("list[Problem]", check(path, beside) if cls.name == "pipeline" else check(path))

    def rows(self, facts: dict[str, Any] | None = None) -> Rows[Any]:
        return _never()

    def case(self, row: Row[Any], subject: str) -> CaseContent:
        return _never()

    def finish(self, results: Results[Any], run: RunFacts) -> Outcome:
        return _never()


class _PlanCases:
    def __init__(self, plan: Any) -> None:
        self._plan = plan
        self.total = self.slots = plan.total

    def load(self, skip: Callable[[int], Any]) -> Iterator[Case]:
        return cast("Iterator[Case]", self._plan.load(skip))


def _never() -> NoReturn:
    raise AssertionError("a plan is asked instead")
