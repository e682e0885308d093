"""Starts or continues a run: puts suite, engine, journal and models together.

    runner = Runner(suite, models, observers)   # knows which run this is; no file is written yet
    run = runner.finished() or await runner.run()
    await runner.close()

`open_run` in run_setup.py makes the suite and the models of a spec. Runner takes a suite object instead of a suite's
name, so that code can run a suite that is not registered.
"""

from __future__ import annotations

import asyncio
import gc
import inspect
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import chdir, nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

import assay
from assay.core.diff import differences
from assay.core.error_counts import ErrorCounts
from assay.core.errors import (
    AssayError,
    DamagedRun,
    ExecutorRefused,
    ModelRefused,
    Problem,
    StartInterrupted,
    StopRun,
    UsageError,
    cannot_write,
)
from assay.core.events import Event, Noted, Notify, halt, notify
from assay.core.hashing import fingerprint
from assay.core.model_args import argument_notices, ask_arguments
from assay.core.no_answer import leave_out_unanswered
from assay.core.protocols import Model, Upstream, View
from assay.core.report import CaseCounts, Report
from assay.core.roles import lacks
from assay.core.run_end import RunEnd, end_of_report, end_of_stopped, has_score
from assay.core.shard import Shard
from assay.core.spec import values_marked
from assay.core.suite import Outcome, RunFacts, Suite
from assay.core.suite_pages import damage_of
from assay.core.types import BAD_CASE
from assay.engine.caller import Caller, CallLedger
from assay.engine.cases import Cases
from assay.engine.connect import ReplayOnlyModel, addresses_of, permits_of
from assay.engine.context import SharedEndpoint
from assay.engine.gateway import Gateway, sdk_environment
from assay.engine.loop import Loop, Setup
from assay.engine.permits import Permits
from assay.engine.prices import read_prices, reports_prices
from assay.engine.shared_calls import SharedCalls
from assay.engine.waiting import waiting_reports
from assay.files.redact import Redactor, secrets_of
from assay.files.write import close_to_others
from assay.journal import folder as folders
from assay.journal.calls import ReusableCalls, find_reusable
from assay.journal.earlier import is_kept, keep_scoring
from assay.journal.folder import HOME, FinishedSummary, RunFolder, RunInfo, Summary
from assay.journal.integrity import file_problems, is_damaged
from assay.journal.journal import Journal
from assay.journal.lines import forget_sidecars
from assay.journal.repair import repair_notices
from assay.journal.room import Room
from assay.language.patterns import forget_stops
from assay.runner.results import Run
from assay.runner.stop_request import StopRequest
from assay.store.runs import find_run
from assay.suites import BUILT_IN
from assay.usercode.code_hash import code_sha256
from assay.usercode.modules import files_read_on_import
from assay.usercode.opened_files import CODE_FILES, MAX_FILES, CodeFiles, outdated_files
from assay.usercode.process_end import refuse_exits
from assay.usercode.user_function import hide_task

if TYPE_CHECKING:
    from assay.executors.ray_executor import RayExecutor

# Errors that a report keeps, the most frequent ones.
_MAX_ERRORS = 10
_DAMAGED_FILES = (
    f"{CODE_FILES} is damaged: changes of some files that the code read are not noticed. Pass --fresh after such a "
    "change"
)
_TOO_MANY_FILES = (
    f"the code reads more than {MAX_FILES} files. Changes of the others are not noticed: pass --fresh after such a "
    "change"
)
# So many changed files are named.
_MAX_NAMES = 3
# Runs whose replies are taken without --reuse. Each of them is read as a whole at the start.
_MAX_SIMILAR_RUNS = 4


class OutdatedRun(NamedTuple):
    """A run whose code read files that have changed since, and their names."""

    folder: Path
    changed: list[str]


class Runner:
    """One start of one run: finds or creates its folder, runs the unfinished cases, writes the results."""

    def __init__(
        self,
        suite: Suite[Any, Any],
        models: Mapping[str, Model],
        observers: Sequence[Notify] = (),
        *,
        asks: bool = True,
        folder: Path | None = None,
        command: Sequence[str] | None = None,
        own_command: bool = True,
    ) -> None:
        """With `folder`, score the run in that folder again, instead of searching or creating a run.

        `command` is written to run.json; the default is the command line of this process. `own_command` is False if the
        settings come from a run folder instead of the user: nothing is written outside of the output folder then.
        """
        self.suite = suite
        self.spec = suite.spec
        self.models = models
        self._asks = asks
        self._own_command = own_command
        self._observers = list(observers)
        # A run has two events for each case, and nearly always one observer.
        self._notify = self._observers[0] if len(self._observers) == 1 else self._notify_all
        self._check_models()
        self._check_executor()
        self._argument_notices = argument_notices(self.spec, suite.roles.values()) if asks else []
        self.prices = read_prices(self.spec.prices)
        self._secrets = secrets_of(suite.roles.values(), self.spec.gen_kwargs)
        self._redactor = Redactor(self._secrets)
        self._check_options_for_secrets()
        self.ask_parts = self._ask_parts()
        self.ask = fingerprint(self.ask_parts)
        self.score = fingerprint(self._score_parts())
        # As run.json has it, to be compared with that of other runs.
        self._reuse_identity = msgspec.to_builtins(suite.reuse_identity(), str_keys=True)
        self._folder = folder
        self.shard = folders.read_info(folder).shard if folder else Shard.parse(self.spec.shard)
        self._continued: Path | None = None
        self._outdated: OutdatedRun | None = None
        self.home = folder.parent if folder else Path(self.spec.output_dir) / HOME
        self._reused = [find_run(self.spec.reuse, other_than=f"-{self.ask}")] if self.spec.reuse else []
        self._spent_now: dict[str, int] = {}
        self._unscored = 0
        self._ran_on = ""
        self._command_words = list(sys.argv if command is None else command)
        self._signals = False
        self._stop: StopRequest | None = None
        self._interrupted = False
        self._cancelled = False

    def continue_in(self, run: Path) -> None:
        """Continue this run, instead of the newest one that asks the same."""
        self._continued = run

    def reuse(self, run: Path) -> None:
        """Take replies of this run for the same case and the same request, as `--reuse` does."""
        self._reused = [run]

    # Which run this is.

    def _ask_parts(self) -> dict[str, Any]:
        """Return everything that can change a reply. A run with other parts is another run."""
        models = {
            name: [role.model, self.models[name].endpoint]
            for name, role in self.suite.roles.items()
            if role.mark == "ask"
        }
        return {
            "options": values_marked(self.spec, "ask")
            | {"model_args": ask_arguments(self.spec, self.suite.roles.values())},
            "suite": suite_identity(self.spec.suite, type(self.suite)),
            "models": models,
            "plan": self.suite.ask_identity(),
            "data": self.suite.data_identity(),
        }

    def _score_parts(self) -> dict[str, Any]:
        """Return everything that can change a score. After a change, the same replies are scored again."""
        judges = {
            name: [role.model, self.models[name].endpoint]
            for name, role in self.suite.roles.items()
            if role.mark == "score"
        }
        options = values_marked(self.spec, "score")
        return {"options": options, "models": judges, "plan": self.suite.score_identity()}

    def _check_models(self) -> None:
        """Raise UsageError if a role has no model, or a model that lacks an ability the role needs."""
        shared = self.suite.shared_endpoint
        if shared is not None and shared not in self.suite.roles:
            raise UsageError(f"this run has no model for the role {shared!r}, which its code may call")
        marks = {role.mark for role in self.suite.roles.values()}
        if self.spec.judge_kwargs and "score" not in marks:
            raise UsageError("--judge-kwargs has no effect: this run asks no judge. Name a model with --judge")
        if self.spec.gen_kwargs and "ask" not in marks and self._asks:
            raise UsageError("--gen-kwargs has no effect: this run asks no model. Remove it")
        for name, role in self.suite.roles.items():
            if missing := role.needs - self.models[name].can:
                raise UsageError(lacks(role.model, missing))

    def _check_executor(self) -> None:
        """Raise UsageError for options of Ray without Ray."""
        spec = self.spec
        given = {
            "--address": spec.address is not None,
            "--workers": spec.workers is not None,
            "--worker-cpus": spec.worker_cpus != 1.0,
            "--worker-gpus": spec.worker_gpus != 0.0,
        }
        if spec.executor == "local" and any(given.values()):
            flag = next(flag for flag, is_given in given.items() if is_given)
            raise UsageError(f"{flag} has no effect without --executor ray. Add it, or remove {flag}")

    def _check_max_cost(self) -> None:
        """Raise UsageError if --max-cost could never stop the run, because the price of a model is not known."""
        if self.spec.max_cost is None:
            return
        if not self.suite.roles:
            raise UsageError("--max-cost limits nothing: this run asks no model")
        for name, role in self.suite.roles.items():
            model = self.models[name]
            if isinstance(model, ReplayOnlyModel) or reports_prices(role.model, model.endpoint):
                continue
            if self.prices.find(role.model) is None:
                raise UsageError(
                    f"--max-cost cannot be kept: {self.prices.name} has no price for {role.model}. "
                    "Pass a table with --prices (docs/prices.md); a model that costs nothing has the prices 0. "
                    "Or leave --max-cost out"
                )

    def _check_options_for_secrets(self) -> None:
        options = msgspec.to_builtins(self.spec)
        if self._redactor.clean(options) != options:
            raise UsageError(
                "an option contains a secret of the environment. Options are saved in the run folder: "
                "leave the secret in its variable, and pass the variable's name"
            )

    def _find_folder(self) -> Path | None:
        """Return the folder of the run to continue, or None.

        It is the newest one with the same `ask` fingerprint whose code would read the same files.
        """
        if self._folder is not None:
            return self._folder
        self._refuse_other_shards()
        if self._continued is not None:
            return self._continued
        if self.spec.fresh:
            return None
        self._outdated = None
        for run in reversed(folders.runs_of_suite(self.home, self.spec.suite, self.ask)):
            changed = outdated_files(run / CODE_FILES)
            if not changed:
                return run
            self._outdated = self._outdated or OutdatedRun(run, changed)
        return None

    def _refuse_other_shards(self) -> None:
        """Raise UsageError if the output folder has another shard of this run, or a shard and this is the whole run.

        Such a run asks the same, so it would be continued, and shown as if all cases had ended.
        """
        for run in folders.runs_of_suite(self.home, self.spec.suite, self.ask):
            try:
                other = folders.read_info(run).shard
            except AssayError:
                continue  # whoever continues this run hears of its damage
            if other == self.shard:
                continue
            output = self.spec.output_dir
            if other is None:
                raise UsageError(
                    f"{output} has the whole run: {run}. A shard needs an output folder of its own: pass "
                    "another --output-dir"
                )
            if self.shard is None:
                raise UsageError(
                    f"{output} has shard {other} of this run, not the whole run: {run}. Pass --shard {other} to "
                    "continue it, or choose another --output-dir for the whole run"
                )
            raise UsageError(
                f"{output} has shard {other} of this run: {run}. Each shard needs an output folder of its own: pass "
                f"another --output-dir, such as {output}/shard-{self.shard.number}"
            )

    def finished(self) -> Run | None:
        """Return the run if nothing is left to request, score or write, else None."""
        path = self._find_folder()
        summary = folders.usable_summary(path) if path else None
        if path is None or summary is None or summary.state != "finished" or summary.score != self.score:
            return None
        if self.spec.retry_failed and summary.subject_error:
            return None
        # A result file that was deleted, or overwritten by another run, is written again by `run`.
        if not all(Path(file).is_file() for file in summary.files):
            return None
        # So is one that a killed start with other scores may have replaced.
        if any(is_kept(path, Path(file)) for file in summary.files):
            return None
        if folders.is_overwritten(path, summary, self.spec.suite) or not folders.has_own_newest(path, summary):
            return None
        # A damaged journal is repaired by `run`. The numbers of the summary are right, but no case could be shown.
        if is_damaged(path, summary):
            return None
        try:
            folders.copy_to_newest(path, summary)
        except StopRun as error:
            # The copy is a convenience. A finished run is shown also where nothing can be written.
            why = f"{summary.newest} is not up to date: {error.__cause__}"
            self._notice([f"the run is finished, its files are in {path}; {why}"])
        if summary.report is not None and self._own_command:
            self._notice(self.suite.on_report(summary.report))
        return Run(path, folders.read_info(path), summary, summary.exit_code, asked=False)

    # One start.

    async def start_or_show(self, *, signals: bool = False) -> Run:
        """Return the finished run, or run what is left. Closes the models and the suite.

        With `signals`, Ctrl-C and SIGTERM stop the run kindly. Without, the caller's own handlers stay, and cancelling
        this coroutine stops the run kindly.
        """
        try:
            return self.finished() or await self.run(signals=signals)
        finally:
            await self.close()

    async def run(self, *, signals: bool = False) -> Run:
        """Run and score the unfinished cases, and write the results."""
        self._signals = signals
        self._check_max_cost()
        # Whether a pattern of this run is stopped must not depend on earlier runs in a notebook.
        forget_stops()
        folder, info, cases = self._open()
        # Rows and modules live as long as the run. gc.freeze() hides them from the garbage collector, which otherwise
        # walks them again and again: 5 % of the CPU time of a run with many rows.
        gc.freeze()
        try:
            try:
                run = await self._run_in(folder, info, cases)
            except DamagedRun:
                # A line that the index's sidecar covers was changed. Without sidecar, every line is verified and the
                # journal is repaired.
                forget_sidecars(folder.path)
                run = await self._run_in(folder, info, cases)
            if self._cancelled:
                raise asyncio.CancelledError
            return run
        except (ModelRefused, ExecutorRefused, StartInterrupted) as error:
            # A wrong key or model name is found at the first request, a cluster that is too small before it. The new
            # folder has no reply worth keeping.
            if folder.created:
                folder.discard()
            if not isinstance(error, StartInterrupted):
                raise
            # What callers know: Python's own exit code is about this very class.
            raise (asyncio.CancelledError if self._cancelled else KeyboardInterrupt("interrupted")) from None
        finally:
            gc.unfreeze()
            folder.close()

    async def close(self) -> None:
        """Close every model's connections, and stop the processes that the suite started.

        All of them, also if one raises. The first error is raised at the end.
        """
        models = {id(model): model for model in self.models.values()}.values()
        errors: list[BaseException] = []
        for close in (*(model.close for model in models), self.suite.close):
            try:
                await close()
            except BaseException as error:  # noqa: BLE001 - a cancelled close must not leave servers of other models running
                errors.append(error)
        if errors:
            raise errors[0]

    def _open(self) -> tuple[RunFolder, RunInfo, Cases]:
        """Return the run's folder, locked, with its cases. Reads the data first: bad data creates no folder."""
        path = self._find_folder()
        facts = None
        if path is not None:
            info = folders.read_info(path)
            folders.check_owner(path, info, "" if self._folder else self.ask)
            facts = info.facts
        rows = self.suite.rows(facts)
        cases = Cases(self.suite, rows, self.shard)
        with folders.selection_lock(self.home):
            # Another process may have created the run while this one read the data.
            path = path or self._find_folder()
            if path is not None:
                folder = RunFolder(path, created=False)
                return folder, folder.info(), cases
            self._check_output_is_free()
            self._take_replies_of_outdated_run()
            info = RunInfo(
                suite=self.spec.suite,
                ask=self.ask,
                started=time.time(),
                version=assay.__version__,
                total=cases.total,
                command=self._command(),
                spec=msgspec.to_builtins(self.spec),
                parts=msgspec.to_builtins(
                    {
                        "ask": self.ask_parts,
                        "reuse": self._reuse_identity,
                        "judges": self._score_parts()["models"],
                    },
                    str_keys=True,
                ),
                facts=rows.facts,
                score_parts=self.suite.parts,
                shard=self.shard,
            )
            # The identity of a function contains the values of its module, which may have read a secret. Flags that
            # assay ignores may have one, too.
            info = self._redactor.redacted(info)
            return folders.create_run(self.home, info), info, cases

    def _take_replies_of_outdated_run(self) -> None:
        """Say why this is another run. Its equal requests need not be paid twice."""
        if self._outdated is None:
            return
        run, changed = self._outdated
        reason = f"{_names(changed)}, which the code of the run reads, changed since {run.name}, so this is another run"
        if self.suite.roles and not self._has_python_model:
            self._reused = self._reused or [run]
            reason += f". It takes the replies to equal requests from {self._reused[0].name}"
        self._notice([reason])

    @property
    def _has_python_model(self) -> bool:
        """Whether a model of the run is the user's code. Its replies may depend on the files that it reads."""
        return any(role.model.startswith("python/") for role in self.suite.roles.values())

    def _reusable_calls(self, own: Path) -> list[ReusableCalls]:
        """Return the calls of the runs whose replies to equal requests are taken. `own` is this run's folder.

        Those are the run of `--reuse`, and runs that share the `reuse_identity` of the suite. Replies that may be
        outdated are left out.
        """
        runs = self._reused or self._similar_runs(own)
        usable: list[ReusableCalls] = []
        for run in runs:
            if self._has_python_model and (changed := outdated_files(run / CODE_FILES)):
                why = f"{_names(changed)} changed since, and a model that is Python code may have read it"
                self._notice([f"no reply of {run.name} is reused: {why}"])
            else:
                usable.append(ReusableCalls(run))
        return usable

    def _similar_runs(self, own: Path) -> list[Path]:
        """Return the newest runs with the suite's `reuse_identity`: in the output folder, or in folders beside it."""
        if self._reuse_identity is None or self.spec.fresh or not self._asks:
            return []
        homes = [self.home]
        if self.suite.exclusive_output:
            # Such a suite has one run for each output folder, so the runs to compare stand side by side.
            homes += sorted(self.home.parent.parent.glob(f"*/{HOME}"))
        runs = {run.resolve(): None for home in homes for run in folders.runs_of_suite(home, self.spec.suite)}
        similar = [run for run in runs if run != own.resolve() and self._shares_building(run)]
        return sorted(similar, key=lambda run: run.name, reverse=True)[:_MAX_SIMILAR_RUNS]

    def _shares_building(self, run: Path) -> bool:
        """Return whether a run has the same `reuse_identity`. A run that asks all the same is a repeat on purpose."""
        try:
            info = folders.read_info(run)
        except AssayError:
            # A damaged neighbour, or one of another format, lends nothing. It must not stop this run.
            return False
        return info.ask != self.ask and info.parts.get("reuse") == self._reuse_identity

    def _command(self) -> list[str]:
        """Return the command line for run.json."""
        # Arguments that are not UTF-8 contain surrogates, which JSON cannot encode.
        return [word.encode(errors="replace").decode() for word in self._command_words]

    def _check_output_is_free(self) -> None:
        """Raise UsageError if the output folder has result files of another run, and their names are fixed.

        The new run would overwrite them, and the other run's replies were paid for.
        """
        if self.spec.fresh or not self.suite.exclusive_output:
            return
        others = folders.runs_of_suite(self.home, self.spec.suite)
        if not others:
            return
        now = msgspec.to_builtins(self.ask_parts, str_keys=True)
        options = [
            place.removeprefix("options.")
            for place in differences(folders.read_info(others[0]).parts["ask"], now)
            if place.startswith("options.")
        ]
        changed_options = ", ".join(options) or "data, prompts or code"
        changed = _names(self._outdated.changed) if self._outdated else changed_options
        raise UsageError(
            f"{self.spec.output_dir} already has a run with different settings ({changed}): {others[0]}. "
            "Repeat its command to continue it, choose another --output-dir, or pass --fresh."
        )

    async def _run_in(self, folder: RunFolder, info: RunInfo, cases: Cases) -> Run:
        started = time.perf_counter()
        problems: list[Problem] = []
        if not folder.created:
            problems = file_problems(folder.path, folders.usable_summary(folder.path))
            self._notice([f"{problem}. assay goes on with the lines that are left" for problem in problems])
        before = folders.usable_summary(folder.path)
        if before is not None:
            self._ran_on = before.ran_on
            started -= before.seconds  # the time of a run is that of all its starts
        replaced = self._replaced_scoring(folder.path, before)
        # While only scores are replaced, the earlier scoring stays the run's result.
        only_scores = before is not None and replaced is not None and self._only_scores(before) and not problems
        if before is not None and only_scores:
            earlier: FinishedSummary | None = folders.begin_scoring(folder.path, before)
        else:
            earlier = folders.reopen(folder.path)
        room = Room(folder.path, Path(self.spec.output_dir))
        self.suite.prepare(RunFacts(info.started, 0.0, folder.path))
        self._redactor.redact_file(folder.path / folders.ROWS)
        scorers = [scorer.id for scorer in self.suite.scorers]
        journal = Journal(folder.path, scorers, self._secrets, info.id, lost_lines=bool(problems), room=room)
        try:
            self._notice(repair_notices(journal.repairs))
            if journal.repairs and only_scores:
                only_scores = False  # lost lines may be lines of the earlier scoring
                earlier = folders.reopen(folder.path)
            if not folder.created:
                self.suite.resume(cases.results(journal.reader, scorers))
            code_files = CodeFiles(folder.path / CODE_FILES, apart_from=self.home, known=files_read_on_import())
            if code_files.damaged:
                self._notice([_DAMAGED_FILES])
            # User code may change the working folder; chdir changes it back. It may try to end the process.
            with chdir("."), refuse_exits(), code_files:
                stopped = await self._loop(journal, info, cases)
            if code_files.too_many:
                self._notice([_TOO_MANY_FILES])
            if isinstance(stopped, ModelRefused) and not journal.empty:
                folder.created = False  # keeps the folder: another model of the run has answered
            if stopped and earlier and not self.spec.retry_failed:
                # Only scoring was left, for example by another judge. Its failure leaves the run finished, with the
                # earlier scores and files.
                with suppress(StopRun):  # a full disk
                    folders.restore_summary(folder.path, earlier, journal.spent(), journal.costs())
                if isinstance(stopped, (StopRun, KeyboardInterrupt)):
                    summary = self._summary(journal, cases, time.perf_counter() - started, stopped, None)
                    return Run(folder.path, info, summary, summary.exit_code, reason=str(stopped))
            if isinstance(stopped, StartInterrupted) and folder.created:
                raise stopped
            if stopped and not isinstance(stopped, (StopRun, KeyboardInterrupt)):
                raise stopped
            seconds = time.perf_counter() - started
            if not only_scores:
                earlier = None
            elif replaced is not None and not stopped:
                # From here on result files are replaced one by one. Until the last one is, the copies are the result.
                earlier = folders.begin_scoring(folder.path, replaced)
            return self._finish(journal, folder, info, cases, seconds, stopped, earlier)
        finally:
            journal.close()
            room.close()

    def _replaced_scoring(self, folder: Path, before: Summary | None) -> Summary | None:
        """Keep the scoring that this start replaces, with copies of its result files. None if it replaces none."""
        if before is None or before.report is None or before.score == self.score:
            return None
        if before.state == "unfinished":
            return None  # the start that was killed has kept it, before it asked anything
        return keep_scoring(folder, before)

    def _only_scores(self, before: Summary) -> bool:
        """Return whether this start asks for no answer: all are there, or `assay rescore` takes those that are."""
        return not self._asks or (before.state == "finished" and not self.spec.retry_failed)

    async def _loop(self, journal: Journal, info: RunInfo, cases: Cases) -> BaseException | None:
        """Run every unfinished case. Returns the error that stopped the run early, or None."""
        spec, suite = self.spec, self.suite
        reusable = self._reusable_calls(journal.folder)
        open_logs = [*reusable]
        before = journal.index.spent
        ledger = CallLedger(
            journal,
            self._notify,
            spec.max_calls,
            partial(find_reusable, reusable) if reusable else None,
            spec.max_cost,
            answered=before.calls > before.failed,
            redactor=self._redactor,
        )
        if self._reuse_identity is not None and len(suite.subjects()) > 1:
            ledger.shared = SharedCalls()
            if before.calls:
                # Read before the first call of this start, so it has those of earlier starts only.
                earlier = ReusableCalls(journal.folder)
                ledger.shared = SharedCalls(earlier.find_by_key)
                open_logs.append(earlier)
        stop = self._stop = StopRequest()
        if self._interrupted:
            stop.interrupt()
        with stop if self._signals else nullcontext():
            try:
                executor = await self._open_executor(journal, cases, ledger, stop)
                try:
                    await self._run_cases(journal, info, cases, ledger, executor, stop)
                finally:
                    if executor is not None:
                        stop.begin(executor)
                        await executor.close()
                        self._cancelled = self._cancelled or _is_cancelled()
            except (AssayError, KeyboardInterrupt) as error:
                return error
            finally:
                for calls in open_logs:
                    calls.close()
                self._spent_now = ledger.counts()
        return None

    async def _run_cases(
        self,
        journal: Journal,
        info: RunInfo,
        cases: Cases,
        ledger: CallLedger,
        executor: RayExecutor | None,
        stop: StopRequest,
    ) -> None:
        """Run every unfinished case, here or where `executor` places it. Raises the error that stopped the run."""
        spec, suite = self.spec, self.suite
        models = executor.models if executor else self.models
        upstreams = {name: Upstream(role.model, models[name]) for name, role in suite.roles.items()}
        permits = {addresses_of(up.model): permits_of(up.model, spec.concurrency) for up in upstreams.values()}
        gateway = Gateway(upstreams, {name: role.sdk_params for name, role in suite.roles.items()})
        callers = {
            name: Caller(
                up,
                permits[addresses_of(up.model)],
                ledger,
                seed=spec.seed,
                max_retries=spec.max_retries,
                max_wait=spec.max_wait,
                params=suite.roles[name].params,
                prices=self.prices,
            )
            for name, up in upstreams.items()
        }
        gate = next(iter(permits.values()), Permits(spec.concurrency))
        # A case usually has one request in flight. More open cases than permits would only take memory.
        open_cases = suite.open_cases or gate.max_calls
        if executor is not None:
            open_cases = max(open_cases, executor.workers)
        open_cases = min(open_cases, max(1, cases.total))
        if executor is not None:
            executor.expect(open_cases)
        shared = await self._open_shared_endpoint(gateway, callers, journal, only_open_case=open_cases == 1)

        async def checkpoint(view: View) -> None:
            try:
                await suite.checkpoint(view, journal.folder, self._redactor)
            except OSError as error:
                raise cannot_write(error.filename or spec.output_dir, error) from error

        loop = Loop(
            Setup(
                cases=cases,
                solver=executor.solver if executor else suite.solver,
                scorers=suite.scorers,
                verdict=suite.passed,
                journal=journal,
                models=callers,
                gate=gate,
                halt=ledger.halt,
                notify=self._notify,
                open_cases=open_cases,
                retry_failed=spec.retry_failed,
                seed=spec.seed,
                started=info.started,
                gateway=gateway,
                shared_endpoint=shared,
                checkpoint=checkpoint if suite.checkpoints and self._asks else None,
                asks=self._asks,
            )
        )
        notify.set(self._notify)
        halt.set(ledger.halt_event)
        self._notice([*self._argument_notices, *suite.notices])
        if spec.insecure:
            self._notice(["--insecure: certificates are not checked. Others may read and change what is sent"])
        stop.begin(loop)
        with sdk_environment(shared.endpoint.url) if shared else nullcontext():
            try:
                async with waiting_reports(ledger, permits.values()):
                    await self._run_until_cancelled(loop, stop)
            finally:
                await gateway.close()
                if ledger.lost_replies:
                    self._notice([_lost_replies(ledger.lost_replies)])
                self._unscored = loop.unscored

    async def _open_executor(
        self, journal: Journal, cases: Cases, ledger: CallLedger, stop: StopRequest
    ) -> RayExecutor | None:
        """Start the workers of `--executor ray`. None if the cases run here, or none is left to run."""
        counts = journal.counts(cases.slots)
        solved = counts["ok"] + (0 if self.spec.retry_failed else counts["subject_error"])
        if self.spec.executor == "local" or not self._asks or solved == cases.total:
            return None
        from assay.executors.ray_executor import RayExecutor

        executor = RayExecutor(
            self.suite, self.models, home=self.home, total=cases.total, notify=self._notify, halt=ledger.halt
        )
        stop.begin(executor)
        try:
            await executor.start()
        except StartInterrupted:
            self._cancelled = _is_cancelled()
            raise
        self._ran_on = f"{'1 worker' if executor.workers == 1 else f'{executor.workers} workers'} of Ray"
        # A case that loses its worker begins again with the replies that it had.
        journal.keep_open_calls()
        return executor

    async def _run_until_cancelled(self, loop: Loop, stop: StopRequest) -> None:
        """Run the loop. A cancellation lets running calls finish, because they are paid; a second one does not."""

        async def run_loop() -> BaseException | None:
            # Returned and not raised: a KeyboardInterrupt that leaves a task ends the whole event loop.
            try:
                await loop.run()
            except BaseException as error:  # noqa: BLE001 - raised again below
                return error
            return None

        task = asyncio.create_task(run_loop())
        hide_task(task)
        while not task.done():
            try:
                await asyncio.shield(task)
            except asyncio.CancelledError:
                self._cancelled = True
                stop.interrupt()
        if (error := task.result()) is not None:
            raise error

    def interrupt(self) -> None:
        """Stop kindly, as Ctrl-C does; call it in the thread of the run's event loop. A second call stops at once."""
        self._interrupted = True
        if self._stop is not None:
            self._stop.interrupt()

    async def _open_shared_endpoint(
        self, gateway: Gateway, callers: Mapping[str, Caller], journal: Journal, *, only_open_case: bool
    ) -> SharedEndpoint | None:
        """Open the endpoint for user code that does not know its case, if the suite asks for one."""
        role = self.suite.shared_endpoint
        if role is None or not self._asks:
            return None
        await gateway.start()
        asker = callers[role].bind_shared(journal.shared_replies())
        endpoint = gateway.open_shared_endpoint(role, asker)
        return SharedEndpoint(role, asker, endpoint, only_open_case)

    def _notice(self, sentences: Sequence[str]) -> None:
        for sentence in sentences:
            self._notify(Noted(self._redactor.clean(sentence)))

    def _notify_all(self, event: Event) -> None:
        for observer in self._observers:
            observer(event)

    def _finish(
        self,
        journal: Journal,
        folder: RunFolder,
        info: RunInfo,
        cases: Cases,
        seconds: float,
        stopped: BaseException | None,
        earlier: FinishedSummary | None,
    ) -> Run:
        """Let the suite write its files, then write summary.json.

        The summary comes last, because its state "finished" means that all result files are complete. If the files
        cannot be written, `earlier` stays the run's result.
        """
        outcome: Outcome | None = None
        if not stopped:
            facts = RunFacts(info.started, seconds, folder.path)
            scorers = [scorer.id for scorer in self.suite.scorers]
            results = cases.results(journal.reader, scorers)
            try:
                # Files and numbers of no case would look like a failure.
                is_empty = self.shard is not None and not cases.total
                # Records of a run that this command did not make may have forms that no suite writes.
                with nullcontext() if self._own_command else damage_of(str(folder.path)):
                    outcome = Outcome(Report()) if is_empty else self.suite.finish(results, facts)
                for path in outcome.files:
                    # Replies are redacted in the journal; rows of the data reach the files on their own way.
                    self._redactor.redact_file(path)
                    close_to_others(path)
            except OSError as error:
                stopped, outcome = cannot_write(error.filename or self.spec.output_dir, error), None
                if earlier is not None:
                    with suppress(StopRun):  # a full disk
                        folders.restore_summary(folder.path, earlier, journal.spent(), journal.costs())
                    summary = self._summary(journal, cases, seconds, stopped, None)
                    return Run(folder.path, info, summary, summary.exit_code, reason=str(stopped))
        if outcome is not None:
            report = outcome.report
            # The errors of whole cases, which every run has, and those of tests and questions, which the suite adds.
            report.errors = ErrorCounts([*results.errors(), *report.errors]).all()[:_MAX_ERRORS]
            if self.shard is not None:
                report.notices.insert(0, _shard_notice(cases))
            leave_out_unanswered(report, self._case_counts(journal, cases))
            for entry in report.entries:
                own = [error for name in report.sets_of(entry) for error in results.errors(name, entry.subject)]
                entry.errors = [] if has_score(entry) else ErrorCounts([*own, *entry.errors]).all()[:1]
            if self._own_command:
                # Only the suite's notices: the printer prints report.notices each time it prints the report.
                self._notice(self.suite.on_report(outcome.report))
        summary = self._summary(journal, cases, seconds, stopped, outcome)
        if outcome is not None:
            summary.digests = folders.result_digests(folder.path, outcome.files)
        summary = self._redactor.redacted(summary)
        journal.save_index()
        try:
            folders.write_summary(folder.path, summary)
            folders.copy_to_newest(folder.path, summary)
        except StopRun:
            # On a full disk the summary cannot be written either. The first error has the cause.
            if not stopped:
                raise
        return Run(folder.path, info, summary, summary.exit_code, reason=str(stopped or ""))

    def _case_counts(self, journal: Journal, cases: Cases) -> CaseCounts:
        counts = journal.counts(cases.slots)
        # Subtracted from the total, because cases that never ran are not counted: `assay rescore` runs no cases.
        unanswered = cases.total - counts["ok"] - counts["subject_error"] + self._unscored
        invalid, why = 0, ""
        if counts["infra_error"]:
            failures, first_failures = journal.failures()
            invalid, why = failures.get(BAD_CASE, 0), first_failures.get(BAD_CASE, "")
        return CaseCounts(cases.total, counts["ok"], unanswered, invalid, why)

    def _summary(
        self,
        journal: Journal,
        cases: Cases,
        seconds: float,
        stopped: BaseException | None,
        outcome: Outcome | None,
    ) -> Summary:
        counts = journal.counts(cases.slots)
        case_counts = self._case_counts(journal, cases)
        unanswered = case_counts.unanswered
        if stopped:
            state = "stopped"
        else:
            state = "incomplete" if unanswered else "finished"
        end = RunEnd(0)
        if stopped:
            end = end_of_stopped(stopped)
        elif outcome is not None:
            end = end_of_report(outcome.report, case_counts)
        failures, first_failures = journal.failures()
        failed_calls, first_failed_calls = journal.failed_calls()
        return Summary(
            state=state,
            score=self.score,
            scorers=[scorer.id for scorer in self.suite.scorers],
            total=cases.total,
            ok=counts["ok"],
            subject_error=counts["subject_error"],
            infra_error=counts["infra_error"],
            exit_code=end.code,
            exit_reason=end.reason,
            seconds=seconds,
            spent=journal.spent(),
            # The ledger counts tokens that endpoints reported. Without any, they were not measured.
            this_start={
                name: count
                for name, count in self._spent_now.items()
                if not name.endswith("_tokens") or not self._spent_now["paid"] or self._spent_now["input_tokens"]
            },
            files=[str(path) for path in outcome.files] if outcome else [],
            report=outcome.report if outcome else None,
            failures=failures,
            first_failures=first_failed_calls | first_failures,
            failed_calls=failed_calls,
            newest=str(outcome.newest or "") if outcome else "",
            unscored=self._unscored,
            ran_on=self._ran_on,
            **journal.costs(),
            adapted=journal.index.spent.adapted,
        )


def suite_identity(name: str, suite: type[Suite[Any, Any]]) -> str:
    """Return the suite's part of a fingerprint: its name if it is built in, else a hash of its code."""
    if name in BUILT_IN:
        return name
    return f"{code_sha256(Path(inspect.getfile(suite)))}:{suite.__name__}"


def _is_cancelled() -> bool:
    """Return whether the caller has cancelled the present task, such as that of `assay.arun`."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _shard_notice(cases: Cases) -> str:
    """Return the sentence of a report that says which part of the run it is about."""
    if not cases.total:
        return f"{cases.part}. There are more shards than rows: this one has nothing to do, and is complete"
    return f"{cases.part}. Numbers and files are those of these cases; `assay merge` makes one run of all shards"


def _names(files: Sequence[str]) -> str:
    more = f" and {len(files) - _MAX_NAMES} more" if len(files) > _MAX_NAMES else ""
    return ", ".join(files[:_MAX_NAMES]) + more


def _lost_replies(count: int) -> str:
    """Return the sentence about replies that arrived and could not be saved."""
    what = "1 reply" if count == 1 else f"{count:,} replies"
    again = "its request" if count == 1 else "their requests"
    return f"{what} that arrived could not be saved. The next start sends {again} again"
