"""One start of a run in its locked folder: the journal is opened and repaired, and the unfinished cases run."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import chdir, closing, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from assay.core.errors import AssayError, ModelRefused, StartInterrupted, cannot_write
from assay.core.events import halt, notify
from assay.core.protocols import ScorerInput
from assay.core.suite import RunFacts
from assay.core.types import Call, Case
from assay.engine.asker import facts_of
from assay.engine.caller import Caller, CallLedger
from assay.engine.cases import Cases
from assay.engine.connect import addresses_of, permits_of
from assay.engine.context import SharedEndpoint
from assay.engine.gateway import Gateway, sdk_environment
from assay.engine.loop import Loop, LoopSetup
from assay.engine.permits import Permits
from assay.engine.shared_calls import SharedCalls
from assay.journal.calls import ReusableCalls
from assay.journal.disk_reserve import DiskReserve
from assay.journal.earlier_result import EarlierResult
from assay.journal.folder import RunFolder
from assay.journal.integrity import file_problems
from assay.journal.journal import Journal
from assay.journal.repair import repair_notices
from assay.journal.run_files import ROWS, RunInfo, Summary, journal_sizes
from assay.runner.borrowed_replies import BorrowedReplies
from assay.runner.finish import Finish, StartCounts
from assay.runner.identity import RunIdentity
from assay.runner.opened import OpenedRun
from assay.runner.results import Run
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
        borrowed: BorrowedReplies,
        folder: RunFolder,
        info: RunInfo,
        cases: Cases,
        *,
        signals: bool,
    ) -> None:
        self._opened = opened
        self._identity = identity
        self._borrowed = borrowed
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
        opened, folder, info = self._opened, self._folder, self._info
        started = time.perf_counter()
        earlier = EarlierResult(folder.path)
        problems = [] if folder.is_new else file_problems(folder.path, earlier.summary)
        opened.notice([f"{problem}. assay goes on with the lines that are left" for problem in problems])
        if earlier.summary is not None:
            self._counts.ran_on = earlier.summary.ran_on
            started -= earlier.summary.seconds  # the time of a run is that of all its starts
        with closing(DiskReserve(folder.path, Path(opened.spec.output_dir))) as reserve:
            earlier.begin(
                self._identity.score, asks_nothing=self._asks_nothing(earlier.summary), has_all_lines=not problems
            )
            sizes = journal_sizes(folder.path)
            try:
                opened.suite.prepare(RunFacts(info.started, 0.0, folder.path))
                opened.redactor.redact_file(folder.path / ROWS)
                journal = Journal(
                    folder.path,
                    [scorer.id for scorer in opened.suite.scorers],
                    opened.secrets,
                    info.id,
                    lost_lines=bool(problems),
                    reserve=reserve,
                )
            except BaseException:
                # Such as a full disk. Nothing was asked or scored, so the run keeps the result that it had, unless
                # damaged lines are gone already: then the next start must find that cases are missing.
                if journal_sizes(folder.path) == sizes:
                    earlier.restore()
                raise
            with closing(journal):
                return await self._run_cases(journal, earlier, started)

    async def _run_cases(self, journal: Journal, earlier: EarlierResult, started: float) -> Run:
        """Run and score the unfinished cases, and write the results.

        `started` is when the run would have begun if all of its starts had followed one another at once.
        """
        opened, folder, cases = self._opened, self._folder, self._cases
        finish = Finish(opened, self._identity, folder, self._info, cases, journal, self._counts, earlier)
        opened.notice(repair_notices(journal.repairs))
        if journal.repairs:
            earlier.lose_lines()
        if not folder.is_new:
            opened.suite.resume(cases.results(journal.reader, [scorer.id for scorer in opened.suite.scorers]))
        stopped = await self._run_cases_watched(journal)
        if isinstance(stopped, ModelRefused) and not journal.empty:
            folder.is_new = False  # another model of the run has answered
        seconds = time.perf_counter() - started
        return finish.complete(seconds) if stopped is None else finish.stop(seconds, stopped)

    def _asks_nothing(self, before: Summary | None) -> bool:
        """Return whether this start asks for no answer: all were there, or `assay rescore` takes those that are."""
        if before is None:
            return False
        return not self._opened.asks or (before.state == "finished" and not self._opened.spec.retry_failed)

    async def _run_cases_watched(self, journal: Journal) -> BaseException | None:
        """Run every unfinished case, and note the files that user code opens. Returns the error that stopped the run.

        User code may change the working folder, and may try to end the process: neither lasts.
        """
        code_files = CodeFiles(
            journal.folder / CODE_FILES, apart_from=self._identity.home, known=files_read_on_import()
        )
        if code_files.damaged:
            self._opened.notice([_DAMAGED_FILES])
        with chdir("."), refuse_exits(), code_files:
            stopped = await self._run_cases_within_budget(journal)
        if code_files.too_many:
            self._opened.notice([_TOO_MANY_FILES])
        return stopped

    async def _run_cases_within_budget(self, journal: Journal) -> BaseException | None:
        """Run every unfinished case, with a ledger of the calls. Returns the error that stopped the run early."""
        spec, suite = self._opened.spec, self._opened.suite
        reusable = self._borrowed.calls(journal.folder, is_complete=self._is_solved(journal))
        open_logs = [*reusable]

        def find_reply(case: Case, stage: str, request_hash: str, n: int) -> Call | None:
            for calls in reusable:
                if (call := calls.find(case.key, stage, request_hash, n)) is not None:
                    return call
            return None

        before = journal.index.spent
        ledger = CallLedger(
            journal,
            self._opened.notify,
            spec.max_calls,
            find_reply if reusable else None,
            spec.max_cost,
            redactor=self._opened.redactor,
        )
        if self._identity.reuse_identity is not None and len(suite.subjects()) > 1:
            ledger.shared = SharedCalls()
            if before.calls:
                # Read before the first call of this start, so it has those of earlier starts only.
                earlier = ReusableCalls(journal.folder)
                ledger.shared = SharedCalls(earlier.find)
                open_logs.append(earlier)
        stop = self._stop
        with stop if self._signals else nullcontext():
            try:
                executor = await self._open_executor(journal, ledger)
                try:
                    await self._run_loop(journal, ledger, executor)
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
        if self._opened.spec.executor == "local" or not self._opened.asks or self._is_solved(journal):
            return None
        from assay.executors.ray_executor import RayExecutor

        executor = RayExecutor(
            self._opened.suite,
            self._opened.models,
            home=self._identity.home,
            total=self._cases.total,
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

    def _is_solved(self, journal: Journal) -> bool:
        """Return whether no case is left to run. Some may be left to score."""
        counts = journal.counts(self._cases.slots)
        solved = counts["ok"] + (0 if self._opened.spec.retry_failed else counts["subject_error"])
        return solved == self._cases.total

    async def _run_loop(self, journal: Journal, ledger: CallLedger, executor: RayExecutor | None) -> None:
        """Run every unfinished case, here or where `executor` places it. Raises the error that stopped the run."""
        spec, suite, cases = self._opened.spec, self._opened.suite, self._cases
        models = executor.models if executor else self._opened.models
        facts = {name: facts_of(role, models[name]) for name, role in suite.roles.items()}
        permits = {addresses_of(models[name]): permits_of(models[name], spec.concurrency) for name in facts}
        gateway = Gateway(facts)
        callers = {
            name: Caller(
                facts[name],
                models[name],
                permits[addresses_of(models[name])],
                ledger,
                seed=spec.seed,
                max_retries=spec.max_retries,
                max_wait=spec.max_wait,
                prices=self._opened.prices,
            )
            for name in facts
        }
        replies = journal.index.spent
        for name, caller in callers.items():
            is_judge = suite.roles[name].mark == "score"
            caller.answered = (
                replies.judge_replies > 0 if is_judge else replies.calls > replies.failed + replies.judge_replies
            )
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
                notice=self._opened.notice,
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
                async with ledger.reports(permits.values()):
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
