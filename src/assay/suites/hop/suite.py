"""The suite of `assay hop`: runs an LLM function over the rows of a file, once per profile.

Data, settings, results and the observer's log have the formats of HOP.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from itertools import islice
from pathlib import Path
from typing import Any, ClassVar

import msgspec
from msgspec.structs import replace

from assay.core.envfile import keys_in
from assay.core.errors import UsageError
from assay.core.hashing import fingerprint
from assay.core.params import merge
from assay.core.protocols import Scorer
from assay.core.report import Report
from assay.core.roles import Role
from assay.core.spec import RunSpec, apply_limit, split_names
from assay.core.suite import (
    CaseContent,
    Outcome,
    Overview,
    PlannedCalls,
    RemoteCase,
    Results,
    Row,
    Rows,
    RunFacts,
    Suite,
    WorkerSolver,
)
from assay.core.suite_pages import Section
from assay.files.redact import Redactor, secrets_of
from assay.suites.hop import messages
from assay.suites.hop.batch_lines import RESULT_KEYS, result_file_name
from assay.suites.hop.file_report import report_on_files
from assay.suites.hop.options import HopOptions
from assay.suites.hop.remote_log import write_case
from assay.suites.hop.result_file import PartialFile, ResultFile, meta_line
from assay.suites.hop.rows import HopRow, HopRows, RowFile, read_rows
from assay.suites.hop.scorer import HopScorer
from assay.suites.hop.session import ModelSide
from assay.suites.hop.settings import (
    HopSettings,
    LlmSettings,
    default_settings,
    find_settings,
    load_settings,
)
from assay.suites.hop.solver import HopInputs, HopSolver, ProfileModels
from assay.suites.hop.tally import HopTally, case_result
from assay.suites.hop.target import Target, find_data, find_target, find_task
from assay.suites.hop.trace import HopletObserver
from assay.usercode.modules import USER_MODULE

# The log of HOP, in the output folder.
_OBSERVER = "observer.jsonl"
_NO_TARGET = "pass a function and a file of rows: assay hop FILE.py:function DATA.jsonl"

# Results that go through a step together at the end of a run: read, counted, written. One by one these steps take
# longer.
_GROUP = 32


class HopSuite(Suite[HopOptions, HopRow]):
    """One case per row and profile. The steps of the function are records; its result is the answer."""

    name: ClassVar[str] = "hop"
    files = "assay.suites.hop.suite_files:HopFiles"
    pages = "assay.suites.hop.suite_pages:HopPages"
    Options: ClassVar[type[HopOptions]] = HopOptions
    case_word: ClassVar[str] = "row"
    logs: ClassVar[Sequence[str]] = (_OBSERVER,)

    @classmethod
    def resolve(cls, spec: RunSpec) -> RunSpec:
        """Find the task in `Tasks/` and the data in `TestCases/`, which is also the default output folder."""
        options = spec.options
        assert isinstance(options, HopOptions)
        target, data, output_dir = options.target, options.data, spec.output_dir
        if target and data:
            if (task := find_task(target)) is not None:
                target = str(task)
            data = str(find_data(data, task))
            if not output_dir:
                output_dir = str(find_target(target, Path(data)).test_cases)
        options = replace(options, profiles=split_names(options.profiles), target=target, data=data)
        return replace(spec, options=options, output_dir=output_dir)

    @classmethod
    def instead_of_run(cls, spec: RunSpec) -> Report | Sequence[Section] | str | None:
        """With --analyse, return the report of existing result files, or its JSON document."""
        options = spec.options
        assert isinstance(options, HopOptions)
        if not options.analyse:
            if options.as_json or options.all_files:
                raise UsageError("--json and --all belong to --analyse: assay hop --analyse TASK --json")
            return None
        result = report_on_files(
            list(map(Path, options.analyse)),
            options.target,
            split_names(options.profiles),
            all_files=options.all_files,
        )
        return result.as_json() if options.as_json else result.report

    def __init__(self, spec: RunSpec, *, feedback: Sequence[str] = (), observer: HopletObserver | None = None) -> None:
        """`feedback` and `observer` are for the View, which runs single rows: see `assay/view/hop/round.py`."""
        super().__init__(spec)
        self._feedback = tuple(feedback)
        options = self.options
        if not options.target or not options.data:
            raise UsageError(_NO_TARGET)
        self._data = Path(options.data)
        self._target = find_target(options.target, self._data)
        self._fields = self._target.contract.outputs if self._target.contract else {}
        self._refuse_overwritten_inputs()
        self._settings = _settings_of(self._target, spec)
        self._profiles = [profile.name for profile in self._settings.select_profiles(options.profiles)]
        self.roles = self._roles()
        self.open_cases = options.workers
        if (options.shared_endpoint or self._settings.shared_endpoint) and self.roles:
            self.shared_endpoint = next(iter(self.roles))
        self._redactor = Redactor(secrets_of(self.roles.values(), spec.gen_kwargs))
        self._observer = observer or HopletObserver(
            Path(spec.output_dir) / _OBSERVER,
            self._target.name,
            self._redactor,
        )
        self._partial: PartialFile | None = None
        models = {name: self._models_of(name) for name in self._profiles}
        self.solver = HopSolver(
            self._target.function, models, self._observer, options.workers, spec.timeout, self._reload()
        )

    def _refuse_overwritten_inputs(self) -> None:
        """Raise UsageError if an input has the name of a result key: a flat row would overwrite the input."""
        inputs = self._target.contract.inputs if self._target.contract else {}
        overwritten = [name for name in RESULT_KEYS if name in inputs]
        if self.options.wrapper == "flat" and overwritten:
            raise UsageError(
                f"the contract has an input called {overwritten[0]!r}, which flat result rows overwrite; "
                "run it with --wrapper view, or rename the input"
            )

    def _llms(self, profile: str) -> tuple[LlmSettings, LlmSettings]:
        """Return the model that answers and the model that verifies."""
        return self._settings.models(self._settings.profiles[profile])

    def _roles(self) -> dict[str, Role]:
        """Return two roles per profile. There are none if the function has its own model, or needs none."""
        file = self._settings.env_file
        keys = keys_in(file)
        roles = {}
        for profile in self._profiles:
            for role, llm in zip(_role_names(profile), self._llms(profile), strict=True):
                if llm.model:
                    roles[role] = Role(
                        llm.model,
                        llm.base_url,
                        llm.key_in(file=keys),
                        file,
                        params=self.spec.gen_kwargs,
                        sdk_params=merge(llm.params, self.spec.gen_kwargs),
                        where=llm.where,
                        folder=llm.folder,
                    )
        return roles

    def _models_of(self, profile: str) -> ProfileModels:
        sides = [
            ModelSide(role, llm.params, llm.json_schema)
            for role, llm in zip(_role_names(profile), self._llms(profile), strict=True)
        ]
        return ProfileModels(*sides)

    def _reload(self) -> Callable[[], Callable[..., Any]] | None:
        """Return a function that imports the target's file again, or None if there is no shared endpoint.

        OPENAI_BASE_URL is set only while rows run. A client that the file creates on import must see it, so
        the file is imported once more then.
        """
        if self.shared_endpoint is None:
            return None

        def reload() -> Callable[..., Any]:
            if self._target.module.startswith(USER_MODULE):
                sys.modules.pop(self._target.module, None)
                self._target = find_target(self.options.target, self._data)
            return self._target.function

        return reload

    # On workers of another machine.

    def recipe(self) -> Callable[[], WorkerSolver]:
        """Return a function that builds the solver on a worker, without the observer's log."""
        return partial(build_on_worker, self.spec, self._feedback)

    def write_remote_case(self, case: RemoteCase) -> None:
        """Write the lines of the observer's log."""
        inputs = case.case.inputs
        assert isinstance(inputs, HopInputs)
        write_case(self._observer, inputs.fields, inputs.profile, case)

    # Which run this is.

    def ask_identity(self) -> dict[str, Any]:
        """Return what the replies depend on: the function's code, models and parameters of the profiles, prompts.

        The list of runs shows where two runs differ, so the names are for people.
        """
        profiles: dict[str, Any] = {}
        for name in self._profiles:
            run, verify = self._llms(name)
            profiles[name] = {"run": _llm_identity(run)}
            if verify.name != run.name:
                profiles[name]["verify"] = _llm_identity(verify)
        identity: dict[str, Any] = {
            "code": self._target.code_identity,
            "profiles": profiles,
            "prompts": messages.fingerprint(),
        }
        # With a shared endpoint, calls by the function's own client go to another model.
        if self.shared_endpoint is not None:
            identity["shared_endpoint"] = True
        return identity

    def data_identity(self) -> Any:
        """Return the hash of ids and inputs of all rows. `--limit` is not part of it: it is an option."""
        return self._file.keys_sha256

    @cached_property
    def scorers(self) -> Sequence[Scorer]:  # type: ignore[override]  # reads the data, so not in __init__
        """The scorer. Its id changes with the expected values and the contract; then the run is scored again."""
        return [self._scorer]

    @cached_property
    def _scorer(self) -> HopScorer:
        identity = {"rows": self._file.gold_sha256, "fields": msgspec.to_builtins(self._fields)}
        return HopScorer(f"hop@{fingerprint(identity)}", self._fields)

    # What runs.

    @cached_property
    def _file(self) -> RowFile:
        return read_rows(self._data, self._target.contract)

    def rows(self, facts: dict[str, Any] | None = None) -> HopRows:
        """Return the rows up to --limit. Raises InputError with every error in the file."""
        rows = self._file.rows
        rows = rows[: apply_limit(self.spec.limit, len(rows))]
        self.notices = (*self._settings.notices, *self._view_notices(), *map(str, self._file.warnings))
        facts = {"rows": len(rows), "profiles": self._profiles, "set": self._data.stem}
        return HopRows(rows, self._data.stem, facts)

    def _view_notices(self) -> Sequence[str]:
        """Return a notice if the result file will not show which profile a row belongs to."""
        count = len(self._profiles)
        if self.options.wrapper == "flat" or count == 1:
            return []
        problem = f"rows of --wrapper view have no profile, so the file mixes {count} profiles"
        return [f"{problem}; run one at a time with --profiles NAME"]

    def subjects(self) -> Sequence[str]:
        return self._profiles

    def case(self, row: Row[HopRow], subject: str) -> CaseContent:
        """Return the case of a row. The function gets its fields; only the scorer gets the expected values."""
        data = row.data
        inputs = HopInputs(subject, data.fields, self._feedback)
        return CaseContent(inputs, data, label=str(data.id), tags=(data.tag,))

    # What comes of it.

    def prepare(self, run: RunFacts) -> None:
        """Open the file that has the rows of a batch while it runs, unless the batch has its result file already."""
        path = self._result_path(run)
        metas = [meta_line(profile, *self._llms(profile), run.started) for profile in self._profiles]
        self._partial = PartialFile(path, metas, self.options.wrapper, self._redactor)
        if not path.exists():
            self._scorer.on_result = self._partial.add

    def resume(self, results: Results[HopRow]) -> None:
        """Write the rows of earlier starts to the partial file, without those that run or are scored once more."""
        if self._partial is None or self._scorer.on_result is None:
            return
        runs_again = {"subject_error"} if self.spec.retry_failed else set()
        self._partial.write_earlier(
            case for case in results if case.end and case.scores and case.end.status not in runs_again
        )

    def _result_path(self, run: RunFacts) -> Path:
        name = result_file_name(self._data, run.started, view=self.options.wrapper == "view")
        return Path(self.spec.output_dir) / name

    def finish(self, results: Results[HopRow], run: RunFacts) -> Outcome:
        """Write the result file, grouped by profile, and build the report."""
        path = self._result_path(run)
        path.parent.mkdir(parents=True, exist_ok=True)
        tally = HopTally(self._fields)
        with ResultFile(path, self.options.wrapper, run.started) as file:
            for profile in self._profiles:
                file.meta(profile, *self._llms(profile))
                cases = results.of(profile)
                while group := list(islice(cases, _GROUP)):
                    answers = [
                        case_result(case.end, case.records, case.row.data, case.subject, case.index) for case in group
                    ]
                    for case, answer in zip(group, answers, strict=True):
                        tally.add(answer, self._scorer.verdict(case.row.data, case.scores))
                    for case, answer in zip(group, answers, strict=True):
                        file.row(case.row.data, answer)
        if self._partial is not None:
            self._partial.remove()
        self._observer.close()
        report = tally.report()
        if lost := self._observer.lost:
            # The results do not depend on the observer's log, so lost records are only a notice.
            records = f"{lost:,} record{'s' if lost > 1 else ''} of the observer"
            report.notices.append(f"{self._observer.path}: {records} could not be written: {self._observer.last_error}")
        return Outcome(report, [path])

    def overview(self, rows: Rows[HopRow]) -> Overview:
        """Return the plan. It has no number of model calls, because only the function decides how many it makes."""
        facts = {
            "function": f"{self._target.name} ({self.options.target})",
            "rows": f"{rows.count:,} of {self._data}",
            "profiles": ", ".join(self._profiles),
            "calls of the function": f"{self.total(rows):,}",
        }
        for what, lines in self._file.skipped.items():
            if lines:
                facts[f"not run, {what}"] = f"{len(lines):,}"
        calls = [PlannedCalls(what=name, model=role.model) for name, role in self.roles.items()]
        return Overview(facts=facts, calls=calls)

    async def close(self) -> None:
        """Write the rows of a batch that has stopped, and close the observer's file."""
        if self._partial is not None:
            self._partial.flush()
        self._observer.close()
        await super().close()

    # Files without a run.


def build_on_worker(spec: RunSpec, feedback: Sequence[str]) -> WorkerSolver:
    """Build the solver on a worker. The driver writes the observer's log from the records."""
    suite = HopSuite(spec, feedback=feedback, observer=HopletObserver(Path(os.devnull), ""))
    return WorkerSolver(suite.solver, suite.ask_identity())


def _llm_identity(llm: LlmSettings) -> dict[str, Any]:
    identity: dict[str, Any] = {"model": llm.model, "params": llm.params}
    if llm.json_schema is not None:
        identity["json_schema"] = llm.json_schema
    return identity


def _role_names(profile: str) -> tuple[str, str]:
    return f"run {profile}", f"verify {profile}"


def _settings_of(target: Target, spec: RunSpec) -> HopSettings:
    """Return the settings of the run.

    With `--model`, and without `--settings` and `--profiles`, a settings file that assay finds by itself is ignored.
    """
    options = spec.options
    assert isinstance(options, HopOptions)
    path = find_settings(options.settings, target.code_folder, target.folder)
    if path is None or (spec.model and options.settings is None and not options.profiles):
        return default_settings(spec.model, spec.base_url)
    return load_settings(path)
