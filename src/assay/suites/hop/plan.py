"""A batch test, resolved: which rows run with which profiles, how they are judged, what is written."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core.connect import Role
from assay.core.envfile import keys_in
from assay.core.errors import UsageError
from assay.core.hashing import fingerprint
from assay.core.protocols import Outcome, Reader, RunFacts, check_key
from assay.core.spec import RunSpec
from assay.core.types import Case
from assay.core.user_code import USER_MODULE
from assay.solvers.hop import messages
from assay.solvers.hop.session import ModelSide
from assay.solvers.hop.solver import HopInputs, HopSolver, ProfileModels
from assay.solvers.hop.trace import HopletObserver
from assay.suites.hop.analysis import Analysis
from assay.suites.hop.options import HopOptions
from assay.suites.hop.row import HopRow
from assay.suites.hop.rows import Rows
from assay.suites.hop.scorer import HopScorer, seen_of
from assay.suites.hop.settings import Llm, Settings, default_settings, find_settings, load_settings
from assay.suites.hop.target import Target, find_target
from assay.suites.hop.writing import RESULT_KEYS, ResultFile, file_name


class HopPlan:
    """Rows one after the other, each with every profile."""

    def __init__(self, spec: RunSpec) -> None:
        options = spec.options
        assert isinstance(options, HopOptions)
        if not options.target or not options.data:
            raise UsageError("name a function and its rows: assay hop FILE.py:function DATA.jsonl")
        self._spec, self._options = spec, options
        self._data = Path(options.data)
        self.target = find_target(options.target, self._data)
        _refuse_overwritten(self.target, options.wrapper)
        self._settings = settings_of(self.target, spec)
        self.profiles = [profile.name for profile in self._settings.chosen(options.profiles)]
        self._rows = Rows(self._data, self.target.contract, spec.limit)
        look = self._rows.look()
        self.total = look.total * len(self.profiles)
        self.notices = (*self._settings.notices, *self._merged(), *map(str, look.warnings))
        self._models()
        self._fields = self.target.contract.outputs if self.target.contract else {}
        sides = {name: [llm.params for llm in self._sides(name)] for name in self.profiles}
        self.ask: dict[str, Any] = {
            "code": self.target.code_identity,
            "rows": look.asked,
            "params": sides,
            "prompts": messages.fingerprint(),
            "schemas": {name: [llm.json_schema for llm in self._sides(name)] for name in self.profiles},
        }
        if self.common:  # calls of the function go to another place than without
            self.ask["shared_endpoint"] = True
        self.score: dict[str, Any] = {"rows": look.gold, "fields": msgspec.to_builtins(self._fields)}
        self.scorers = [HopScorer(f"hop@{fingerprint(self.score)}", self._fields)]

    def _merged(self) -> list[str]:
        """A notice where the file that is written will not tell profiles apart."""
        if self._options.wrapper == "flat" or len(self.profiles) == 1:
            return []
        count = len(self.profiles)
        told = f"rows of --wrapper view do not say their profile: the file cannot tell {count} apart"
        return [f"{told}; run one at a time with --profiles NAME"]

    def _models(self) -> None:
        """Two roles a profile. Without any model the function brings its own, or needs none."""
        self.needs = frozenset[str]()
        self.open_cases = self._options.workers
        file = self._settings.env_file
        keys = keys_in(file)
        named = {
            role: Role(llm.model, llm.base_url, llm.key_in(file=keys), file)
            for profile in self.profiles
            for role, llm in zip(_roles(profile), self._sides(profile), strict=True)
            if llm.model
        }
        self.roles: dict[str, str | Role] = dict(named)
        wanted = self._options.shared_endpoint or self._settings.shared_endpoint
        self.common, self.common_role = bool(named) and wanted, next(iter(named), "")
        self._observer = HopletObserver(Path(self._spec.output_dir) / "observer.jsonl", self.target.name)
        sides = {name: self._both(name) for name in self.profiles}
        workers, timeout = self._options.workers, self._spec.timeout
        self.solver = HopSolver(self.target.function, sides, self._observer, workers, timeout)

    def _sides(self, profile: str) -> tuple[Llm, Llm]:
        return self._settings.models(self._settings.profiles[profile])

    def _both(self, profile: str) -> ProfileModels:
        sides = zip(_roles(profile), self._sides(profile), strict=True)
        run, verify = [ModelSide(role, llm.params, llm.json_schema) for role, llm in sides]
        return ProfileModels(run, verify)

    def prepare(self, facts: dict[str, Any] | None) -> dict[str, Any]:
        """The rows were looked at to know which run this is."""
        return {"rows": self._rows.look().total, "profiles": self.profiles, "set": self._data.stem}

    def load(self, skip: Callable[[int], bool]) -> Iterator[Case]:
        """Row after row, each with every profile."""
        self._import_again()
        count, stem = len(self.profiles), self._data.stem
        for row in self._rows.rows(lambda at: all(map(skip, range(at * count, at * count + count)))):
            for place, profile in enumerate(self.profiles):
                index = row.index * count + place
                if not skip(index):
                    inputs = HopInputs(profile, row.fields)
                    yield Case(index, row.key, stem, profile, str(row.id), inputs, row)

    def _import_again(self) -> None:
        """Now OPENAI_BASE_URL names the run's own address: clients that a file makes on import find it."""
        name = self.target.module
        if self.common and name.startswith(USER_MODULE) and name in sys.modules:
            del sys.modules[name]
            self.solver.function = find_target(self._options.target, self._data).function

    def finish(self, reader: Reader, facts: RunFacts) -> Outcome:
        """The result file, all rows of a profile together, and the numbers."""
        folder = Path(self._spec.output_dir)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / file_name(self._data, facts.started)
        file, analysis = ResultFile(path, self._options.wrapper, facts.started), Analysis(self._fields)
        for place, profile in enumerate(self.profiles):
            file.meta(profile, *self._sides(profile))
            for row in self._rows.rows():
                self._write(row, place, reader, file, analysis)
        file.close()
        return Outcome(analysis.summary(), [path], notices=self._lost())

    def _lost(self) -> tuple[str, ...]:
        """What the observer could not write: results do not need it, but people may miss it."""
        self._observer.close()
        lost, why = self._observer.lost, self._observer.why
        if not lost:
            return ()
        records = f"{lost:,} record{'s' if lost > 1 else ''} of the observer"
        return (f"{self._observer.path}: {records} could not be written: {why}",)

    def _write(self, row: HopRow, place: int, reader: Reader, file: ResultFile, analysis: Analysis) -> None:
        index = row.index * len(self.profiles) + place
        end, records, scores = reader.case(index, self.scorers[0].id) or (None, [], [])
        if end is not None:
            check_key(row.key, end, str(row.id))
        seen = seen_of(row, self.profiles[place], end, records)
        analysis.add(seen, self.scorers[0].verdict(row, scores))
        file.row(row, seen)

    async def close(self) -> None:
        """Let go of the observer's file."""
        self._observer.close()


def _refuse_overwritten(target: Target, wrapper: str) -> None:
    """A flat row has one place for an input and for what is written of it: the input would be gone."""
    inputs = target.contract.inputs if target.contract else {}
    if wrapper == "flat" and (lost := [name for name in RESULT_KEYS if name in inputs]):
        raise UsageError(
            f"the contract has an input called {lost[0]!r}, which flat result rows write over; "
            "run it with --wrapper view, or give the input another name"
        )


def _roles(profile: str) -> tuple[str, str]:
    return f"run {profile}", f"verify {profile}"


def settings_of(target: Target, spec: RunSpec) -> Settings:
    """The nearest settings file; without one, a profile in which --model does both."""
    options = spec.options
    assert isinstance(options, HopOptions)
    path = find_settings(options.settings, target.beside, target.folder)
    if path is None or (spec.model and options.settings is None and not options.profiles):
        return default_settings(spec.model, spec.base_url)
    return load_settings(path)
