"""One start of a run in its locked folder: the journal is opened and repaired, and the unfinished cases run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import chdir, nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import AssayError, ModelRefused, Problem, StartInterrupted, StopRun, cannot_write
from assay.core.events import halt, notify
from assay.core.protocols import NamedModel, ScorerInput
from assay.core.suite import RunFacts
from assay.engine.caller import Caller, CallLedger
from assay.engine.cases import Cases
from assay.engine.connect import addresses_of, permits_of
from assay.engine.context import SharedEndpoint
from assay.engine.gateway import Gateway, sdk_environment
from assay.engine.loop import Loop, LoopSetup
from assay.engine.permits import Permits
from assay.engine.shared_calls import SharedCalls
from assay.engine.waiting import waiting_reports
from assay.journal import folder as folders
from assay.journal.calls import ReusableCalls, find_reusable
from assay.journal.disk_reserve import DiskReserve
from assay.journal.earlier import keep_scoring
from assay.journal.folder import FinishedSummary, RunFolder, RunInfo, Summary
from assay.journal.integrity import file_problems
from assay.journal.journal import Journal
from assay.journal.repair import repair_notices
from assay.runner.finish import Finish, StartCounts
from assay.runner.identity import RunIdentity
from assay.runner.opened import OpenedRun
from assay.runner.results import Run
from assay.runner.reuse import Reuse
from assay.runner.stop_request import StopRequest
from assay.usercode.modules import files_read_on_import
from assay.usercode.opened_files import CODE_FILES, MAX_FILES, CodeFiles
from assay.usercode.process_end import refuse_exits
from assay.usercode.user_function import hide_task

if TYPE_CHECKING:
    from assay.executors.ray_executor import RayExecutor

_DAMAGED_FILES = (
    f"{CODE_FILES} is damaged: changes of some files that the code read are not noticed. Pass --fresh after such a "
    "change"
)
_TOO_MANY_FILES = (
    f"the code reads more than {MAX_FILES} files. Changes of the others are not noticed: pass --fresh after such a "
    "change"
)


class Start:
    """One start of a run. With `signals`, Ctrl-C and SIGTERM stop it kindly."""

    def __init__(
        self,
        opened: OpenedRun,
        identity: RunIdentity,
        reuse: Reuse,
        folder: RunFolder,
        info: RunInfo,
        cases: Cases,
        *,
        signals: bool,
    ) -> None:
        self._opened = opened
        self._identity = identity
        self._reuse = reuse
        self._folder = folder
        self._info = info
        self._cases = cases
        self._signals = signals
        self._stop = StopRequest()
        self._counts = StartCounts()
        self.is_cancelled = False
        """Whether the caller cancelled the coroutine of the run. The caller expects a CancelledError then."""

    def interrupt(self) -> None:
        """Stop kindly, as Ctrl-C does; call it in the thread of the run's event loop. A second call stops at once."""
        self._stop.interrupt()

    async def run(self) -> Run:
        """Run and score the unfinished cases, and write the results.

        Raises the error that stopped the run early, unless it is one after which the same command continues.
        """
        folder, info, cases = self._folder, self._info, self._cases
        started = time.perf_counter()
        problems: list[Problem] = []
        if not folder.created:
            problems = file_problems(folder.path, folders.usable_summary(folder.path))
            self._opened.notice([f"{problem}. assay goes on with the lines that are left" for problem in problems])
        before = folders.usable_summary(folder.path)
        if before is not None:
            self._counts.ran_on = before.ran_on
            started -= before.seconds  # the time of a run is that of all its starts
        replaced = self._replaced_scoring(folder.path, before)
        # While only scores are replaced, the earlier scoring stays the run's result.
        only_scores = before is not None and replaced is not None and self._only_scores(before) and not problems
        if before is not None and only_scores:
            earlier: FinishedSummary | None = folders.begin_scoring(folder.path, before)
        else:
            earlier = folders.reopen(folder.path)
        reserve = DiskReserve(folder.path, Path(self._opened.spec.output_dir))
        self._opened.suite.prepare(RunFacts(info.started, 0.0, folder.path))
        self._opened.redactor.redact_file(folder.path / folders.ROWS)
        scorers = [scorer.id for scorer in self._opened.suite.scorers]
        journal = Journal(
            folder.path, scorers, self._opened.secrets, info.id, lost_lines=bool(problems), reserve=reserve
        )
        finish = Finish(self._opened, self._identity, folder, info, cases, journal, self._counts)
        try:
            self._opened.notice(repair_notices(journal.repairs))
            if journal.repairs and only_scores:
                only_scores = False  # lost lines may be lines of the earlier scoring
                earlier = folders.reopen(folder.path)
            if not folder.created:
                self._opened.suite.resume(cases.results(journal.reader, scorers))
            code_files = CodeFiles(
                folder.path / CODE_FILES, apart_from=self._identity.home, known=files_read_on_import()
            )
            if code_files.damaged:
                self._opened.notice([_DAMAGED_FILES])
            # User code may change the working folder; chdir changes it back. It may try to end the process.
            with chdir("."), refuse_exits(), code_files:
                stopped = await self._loop(journal)
            if code_files.too_many:
                self._opened.notice([_TOO_MANY_FILES])
            if isinstance(stopped, ModelRefused) and not journal.empty:
                folder.created = False  # keeps the folder: another model of the run has answered
            if stopped and earlier and not self._opened.spec.retry_failed:
                # Only scoring was left, for example by another judge. Its failure leaves the run finished, with the
                # earlier scores and files.
                finish.restore(earlier)
                if isinstance(stopped, (StopRun, KeyboardInterrupt)):
                    return finish.stopped(time.perf_counter() - started, stopped)
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
            return finish.finish(seconds, stopped, earlier)
        finally:
            journal.close()
            reserve.close()

    def _replaced_scoring(self, folder: Path, before: Summary | None) -> Summary | None:
        """Keep the scoring that this start replaces, with copies of its result files. None if it replaces none."""
        if before is None or before.report is None or before.score == self._identity.score:
            return None
        if before.state == "unfinished":
            return None  # the start that was killed has kept it, before it asked anything
        return keep_scoring(folder, before)

    def _only_scores(self, before: Summary) -> bool:
        """Return whether this start asks for no answer: all are there, or `assay rescore` takes those that are."""
        return not self._opened.asks or (before.state == "finished" and not self._opened.spec.retry_failed)

    async def _loop(self, journal: Journal) -> BaseException | None:
        """Run every unfinished case. Returns the error that stopped the run early, or None."""
        spec, suite = self._opened.spec, self._opened.suite
        reusable = self._reuse.calls(journal.folder)
        open_logs = [*reusable]
        before = journal.index.spent
        ledger = CallLedger(
            journal,
            self._opened.notify,
            spec.max_calls,
            partial(find_reusable, reusable) if reusable else None,
            spec.max_cost,
            answered=before.calls > before.failed,
            redactor=self._opened.redactor,
        )
        if self._identity.reuse is not None and len(suite.subjects()) > 1:
            ledger.shared = SharedCalls()
            if before.calls:
                # Read before the first call of this start, so it has those of earlier starts only.
                earlier = ReusableCalls(journal.folder)
                ledger.shared = SharedCalls(earlier.find_by_key)
                open_logs.append(earlier)
        stop = self._stop
        with stop if self._signals else nullcontext():
            try:
                executor = await self._open_executor(journal, ledger)
                try:
                    await self._run_cases(journal, ledger, executor)
                finally:
                    if executor is not None:
                        stop.begin(executor)
                        await executor.close()
                        self.is_cancelled = self.is_cancelled or _is_cancelled()
            except (AssayError, KeyboardInterrupt) as error:
                return error
            finally:
                for calls in open_logs:
                    calls.close()
                self._counts.spent = ledger.counts()
        return None

    async def _open_executor(self, journal: Journal, ledger: CallLedger) -> RayExecutor | None:
        """Start the workers of `--executor ray`. None if the cases run here, or none is left to run."""
        cases = self._cases
        counts = journal.counts(cases.slots)
        solved = counts["ok"] + (0 if self._opened.spec.retry_failed else counts["subject_error"])
        if self._opened.spec.executor == "local" or not self._opened.asks or solved == cases.total:
            return None
        from assay.executors.ray_executor import RayExecutor

        executor = RayExecutor(
            self._opened.suite,
            self._opened.models,
            home=self._identity.home,
            total=cases.total,
            notify=self._opened.notify,
            halt=ledger.halt,
        )
        self._stop.begin(executor)
        try:
            await executor.start()
        except StartInterrupted:
            self.is_cancelled = _is_cancelled()
            raise
        self._counts.ran_on = f"{'1 worker' if executor.workers == 1 else f'{executor.workers} workers'} of Ray"
        # A case that loses its worker begins again with the replies that it had.
        journal.keep_open_calls()
        return executor

    async def _run_cases(
        self,
        journal: Journal,
        ledger: CallLedger,
        executor: RayExecutor | None,
    ) -> None:
        """Run every unfinished case, here or where `executor` places it. Raises the error that stopped the run."""
        spec, suite, cases = self._opened.spec, self._opened.suite, self._cases
        models = executor.models if executor else self._opened.models
        named_models = {name: NamedModel(role.model, models[name]) for name, role in suite.roles.items()}
        permits = {
            addresses_of(named.model): permits_of(named.model, spec.concurrency) for named in named_models.values()
        }
        gateway = Gateway(named_models, {name: role.sdk_params for name, role in suite.roles.items()})
        callers = {
            name: Caller(
                named,
                permits[addresses_of(named.model)],
                ledger,
                seed=spec.seed,
                max_retries=spec.max_retries,
                max_wait=spec.max_wait,
                params=suite.roles[name].params,
                prices=self._opened.prices,
            )
            for name, named in named_models.items()
        }
        # The cases wait for the permits of the first role: the model that answers. A judge's wait would only keep
        # answers from being asked.
        main_permits = next(iter(permits.values()), Permits(spec.concurrency))
        # A case usually has one request in flight. More open cases than permits would only take memory.
        open_cases = suite.open_cases or main_permits.max_calls
        if executor is not None:
            open_cases = max(open_cases, executor.workers)
        open_cases = min(open_cases, max(1, cases.total))
        if executor is not None:
            executor.expect(open_cases)
        shared = await self._open_shared_endpoint(gateway, callers, journal, only_open_case=open_cases == 1)

        async def checkpoint(solved: ScorerInput) -> None:
            try:
                await suite.checkpoint(solved, journal.folder, self._opened.redactor)
            except OSError as error:
                raise cannot_write(error.filename or spec.output_dir, error) from error

        loop = Loop(
            LoopSetup(
                cases=cases,
                solver=executor.solver if executor else suite.solver,
                scorers=suite.scorers,
                passed=suite.passed,
                journal=journal,
                callers=callers,
                permits=main_permits,
                halt=ledger.halt,
                notify=self._opened.notify,
                open_cases=open_cases,
                retry_failed=spec.retry_failed,
                seed=spec.seed,
                started=self._info.started,
                gateway=gateway,
                shared_endpoint=shared,
                checkpoint=checkpoint if suite.checkpoints and self._opened.asks else None,
                asks=self._opened.asks,
            )
        )
        notify.set(self._opened.notify)
        halt.set(ledger.halt_event)
        self._opened.notice([*self._opened.argument_notices, *suite.notices])
        if spec.insecure:
            self._opened.notice(["--insecure: certificates are not checked. Others may read and change what is sent"])
        self._stop.begin(loop)
        with sdk_environment(shared.endpoint.url) if shared else nullcontext():
            try:
                async with waiting_reports(ledger, permits.values()):
                    await self._run_until_cancelled(loop)
            finally:
                await gateway.close()
                if ledger.lost_replies:
                    self._opened.notice([_lost_replies(ledger.lost_replies)])
                self._counts.unscored = loop.unscored

    async def _run_until_cancelled(self, loop: Loop) -> None:
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
                self.is_cancelled = True
                self._stop.interrupt()
        if (error := task.result()) is not None:
            raise error

    async def _open_shared_endpoint(
        self, gateway: Gateway, callers: Mapping[str, Caller], journal: Journal, *, only_open_case: bool
    ) -> SharedEndpoint | None:
        """Open the endpoint for user code that does not know its case, if the suite asks for one."""
        role = self._opened.suite.shared_endpoint
        if role is None or not self._opened.asks:
            return None
        await gateway.start()
        asker = callers[role].bind_shared(journal.shared_replies())
        endpoint = gateway.open_shared_endpoint(role, asker)
        return SharedEndpoint(role, asker, endpoint, only_open_case)


def _is_cancelled() -> bool:
    """Return whether the caller has cancelled the present task, such as that of `assay.arun`."""
    task = asyncio.current_task()
    return task is not None and task.cancelling() > 0


def _lost_replies(count: int) -> str:
    """Return the sentence about replies that arrived and could not be saved."""
    what = "1 reply" if count == 1 else f"{count:,} replies"
    again = "its request" if count == 1 else "their requests"
    return f"{what} that arrived could not be saved. The next start sends {again} again"
