"""The loop that runs the cases: workers take cases from one iterator, solve them, commit them and score them.

A case is committed when its end is in the journal. After a kill, cases without an end run again from their start;
replies that are in the journal are not requested again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Generator, Iterator, Mapping, Sequence
from types import coroutine

from msgspec import Struct

from assay.core.errors import AssayError, ModelError, ModelRefused, StopRun, WorkerLost
from assay.core.events import Ended, Finished, Notify, Started, Stopping
from assay.core.protocols import Scorer, ScorerInput, Solver
from assay.core.types import ASK, Case, End, Failure
from assay.engine.asker import CaseAsker
from assay.engine.caller import Caller
from assay.engine.cases import Cases, check_key
from assay.engine.context import (
    NOTHING_SPENT,
    PassedFunction,
    RunContext,
    SharedEndpoint,
    Spent,
    TryContext,
)
from assay.engine.gateway import Gateway
from assay.engine.one_try import CANCELLED, solve_once
from assay.engine.permits import Permits
from assay.journal.journal import Journal
from assay.language.patterns import reason_to_stop
from assay.usercode.errors import failure_of, is_failure
from assay.usercode.user_function import hide_task

# At most this many failures of scorers are told. The summary has their count.
_MAX_NOTED = 10
# When a run stops, cases that are still open after this time are waited for, and people are told so. Calls that fail
# together, as at a closed port, have ended by then.
_STOP_SECONDS = 0.3
# A case that was lost with so many workers is not placed again: it may be the case that ends them.
_MAX_LOSSES = 3


class LoopSetup(Struct, frozen=True):
    """The arguments of Loop."""

    cases: Cases
    solver: Solver
    scorers: Sequence[Scorer]
    journal: Journal
    callers: Mapping[str, Caller]
    """By role."""
    permits: Permits
    """No further case starts while all of them are taken."""
    halt: Callable[[AssayError], object]
    """Lets no further call begin."""
    notify: Notify
    notice: Callable[[Sequence[str]], None]
    """Tells sentences without secrets."""
    open_cases: int
    """The number of cases that run at once."""
    retry_failed: bool
    seed: int
    started: float
    """The time of the run's first start."""
    passed: PassedFunction | None = None
    gateway: Gateway | None = None
    shared_endpoint: SharedEndpoint | None = None
    checkpoint: Callable[[ScorerInput], Awaitable[None]] | None = None
    """`Suite.checkpoint`, if the suite has one."""
    asks: bool = True
    """False scores the cases that have ended, and runs no case."""


class Loop:
    """Runs every case that is not done. Each start of a run has its own Loop."""

    def __init__(self, setup: LoopSetup) -> None:
        self._setup = setup
        self._journal = setup.journal
        self._scorers = setup.scorers
        # In a new run no case has earlier tries, so the lookups are skipped.
        self._is_new_run = setup.journal.empty
        self._run = RunContext(
            self._bind,
            setup.journal,
            seed=setup.seed,
            started=setup.started,
            gateway=setup.gateway,
            passed=setup.passed,
            shared_endpoint=setup.shared_endpoint,
        )
        self._cases: Iterator[Case] = iter(())
        self._workers: list[asyncio.Task[None]] = []
        self.stopped: BaseException | None = None
        self.unscored = 0
        """Cases of which a scorer failed, for example because the judge was unreachable. The next start scores them."""
        self._noted = 0
        self._cancelled = False
        self._lost: set[int] = set()  # open cases whose worker was lost

    async def run(self) -> None:
        """Run until all cases are done or the run is stopped. Raises the error that stopped it."""
        setup = self._setup
        done = self._journal.done_map(setup.cases.slots, retry_failed=setup.retry_failed)
        done_count = done.count(1)
        setup.notify(Started(setup.cases.total, done_count))
        self._cases = setup.cases.load(done.__getitem__ if done_count else None, setup.open_cases)
        # Replies that arrive together end their cases together.
        self._journal.group_commits(asyncio.get_running_loop().call_soon, self.stop)
        try:
            for _ in range(setup.open_cases):
                worker = asyncio.create_task(self._worker())
                hide_task(worker)
                self._workers.append(worker)
                # Let each worker start before the next one is created, so that a case with many calls takes its
                # permits before the next case opens.
                await asyncio.sleep(0)
            await asyncio.wait(self._workers)
        finally:
            # This task may be cancelled while it waits. The workers must end first: the journal is closed next.
            self.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
            try:
                self._journal.end_groups()
            except AssayError as error:
                self.stop(error)
        setup.notify(Finished())
        if self.stopped is not None:
            raise self.stopped

    def stop(self, reason: BaseException) -> None:
        """Start no further case and no further call. Calls in flight may finish, because they are paid for."""
        if self.stopped is None:
            self.stopped = reason
            self._setup.halt(StopRun(str(reason)))
            # If the endpoint refuses us, it refuses the calls in flight too. "Waiting for open requests" would mislead.
            if not isinstance(reason, ModelRefused):
                asyncio.get_running_loop().call_later(_STOP_SECONDS, self._tell_stopping, str(reason))

    def _tell_stopping(self, reason: str) -> None:
        if not all(worker.done() for worker in self._workers):
            self._setup.notify(Stopping(reason))

    def cancel(self) -> None:
        """Abandon the open cases. Every reply that arrived is in the journal."""
        self._cancelled = True
        for worker in self._workers:
            worker.cancel()

    def _bind(self, role: str, ctx: TryContext) -> CaseAsker | None:
        caller = self._setup.callers.get(role)
        if caller is None:
            return None
        case = ctx.case
        if self._is_new_run and case.index not in self._lost:
            return caller.bind(case, ctx.stage, ctx.try_, {})
        replies = self._journal.replies(case.index, ctx.stage, self._journal.last_try(case.index))
        return caller.bind(case, ctx.stage, ctx.try_, replies)

    async def _worker(self) -> None:
        permits = self._setup.permits
        try:
            while self.stopped is None:
                if permits.crowded:
                    await permits.wait_for_one()
                case = next(self._cases, None)
                if case is None or self.stopped is not None:
                    return
                if reason := reason_to_stop():
                    self.stop(StopRun(reason))
                    return
                await self._case(case)
                await self._give_way()
        except asyncio.CancelledError:
            return
        except BaseException as error:  # noqa: BLE001 - an error of one worker stops the run, with its reason
            self.stop(error)
        finally:
            permits.pass_on()

    async def _case(self, case: Case) -> None:
        if self._is_new_run or not self._journal.solved(case.index, retry_failed=self._setup.retry_failed):
            if not self._setup.asks:
                return
            solved = await self._solve(case)
            await self._give_way()
        else:
            solved = self._read(case)
        if solved.end.status != "infra_error":
            if self._setup.checkpoint is not None:
                await self._setup.checkpoint(solved)
            is_scored = True
            for scorer in self._scorers:
                # Code of a scorer may take long. Whoever presses Ctrl-C waits for calls that are paid for, not for
                # scores: the next start scores this case.
                if isinstance(self.stopped, KeyboardInterrupt):
                    break
                is_scored = await self._score(scorer, solved) and is_scored
            self.unscored += not is_scored

    @coroutine
    def _give_way(self) -> Generator[None, None, None]:
        """Let the other workers do the same step before this one goes on.

        Their replies arrive together. If all of them are logged, then all are scored, then all next requests are sent,
        a run of short calls takes a tenth less CPU time. A model in this process never awaits: without this, Ctrl-C and
        timers would have no effect.
        """
        try:
            yield  # as asyncio.sleep(0) does, with two coroutines fewer
        except asyncio.CancelledError:
            if not self._forgive_cancellation():
                raise

    def _read(self, case: Case) -> ScorerInput:
        ended = self._journal.reader.ended(case.index)
        assert ended is not None
        end, records = ended
        check_key(case.key, end)
        return ScorerInput(case, end, records)

    async def _solve(self, case: Case) -> ScorerInput:
        earlier = 0 if self._is_new_run else self._journal.last_try(case.index)
        ctx = TryContext(case, ASK, earlier + 1, self._run)
        started = time.perf_counter()
        failure = case.failure
        if failure is None:
            try:
                failure = await solve_once(self._setup.solver, case.inputs, ctx, self._forgive_cancellation)
            except WorkerLost as lost:
                ctx, failure = await self._solve_elsewhere(case, ctx, lost)
        end = _end(case, ASK, ctx.try_, started, ctx.spent(), failure, ctx.written)
        end, last = self._journal.end_case(end, ctx.pending)
        if last:
            # Without secrets, as the scorers would read them from the journal.
            ctx.records[-len(last) :] = last
        self._setup.notify(Ended(case, end))
        return ScorerInput(case, end, ctx.records)

    async def _solve_elsewhere(
        self, case: Case, ctx: TryContext, lost: WorkerLost
    ) -> tuple[TryContext, Failure | None]:
        """Call the solver again, as often as the worker of the case is lost. Returns the last placement's context.

        A new context of the same try gets every reply that the lost one had, so nothing is asked again. Records of
        the lost one are not named by the case's end, so nobody reads them.
        """
        losses: list[WorkerLost] = []
        self._lost.add(case.index)
        try:
            while True:
                losses += [lost] if lost.counts else []
                if len(losses) == _MAX_LOSSES:
                    places = ", ".join(loss.worker for loss in losses)
                    message = f"{_MAX_LOSSES} workers were lost while they ran this case: {places}"
                    return ctx, Failure("worker_lost", message)
                ctx = TryContext(case, ASK, ctx.try_, self._run)
                try:
                    return ctx, await solve_once(self._setup.solver, case.inputs, ctx, self._forgive_cancellation)
                except WorkerLost as next_loss:
                    lost = next_loss
        finally:
            self._lost.discard(case.index)

    def _forgive_cancellation(self) -> bool:
        """Return whether code of the case has cancelled this task. The task then goes on."""
        task = asyncio.current_task()
        if self._cancelled or task is None:
            return False
        while task.cancelling():
            task.uncancel()
        return True

    async def _score(self, scorer: Scorer, solved: ScorerInput) -> bool:
        """Return whether the case has the scores of this scorer."""
        if self._journal.index.stages[scorer.id].code(solved.case.index):
            return True
        ctx: TryContext | None = None
        started = time.perf_counter()
        try:
            scores = scorer.score_at_once(solved)
            if scores is None:
                ctx = TryContext(solved.case, scorer.call_stage, solved.end.try_, self._run)
                scores = await scorer.score(solved, ctx)
        except ModelError as error:
            self._note(solved.case, f"could not be judged: {error}")
            return False
        except asyncio.CancelledError:
            if not self._forgive_cancellation():
                raise
            self._note(solved.case, f"could not be scored: {CANCELLED}")
            return False
        except Exception as error:
            if not is_failure(error):
                raise
            failure = failure_of(error)
            where = f"\n{failure.traceback}" if failure.traceback else ""
            self._note(solved.case, f"could not be scored: {failure.message}{where}")
            return False
        finally:
            if ctx is not None:
                ctx.close()
        # The scores of each scorer end on their own, also where scorers share the log of their calls (`call_stage`).
        spent = ctx.spent() if ctx is not None else NOTHING_SPENT
        end = _end(solved.case, scorer.id, solved.end.try_, started, spent, None, [])
        self._journal.end_scoring(end, scores)
        return True

    def _note(self, case: Case, why: str) -> None:
        self._noted += 1
        if self._noted <= _MAX_NOTED:
            self._setup.notice([f"{case.set} {case.label} {why}"])


def _end(
    case: Case, stage: str, try_: int, started: float, spent: Spent, failure: Failure | None, lines: list[int]
) -> End:
    """Return the end of a stage that has just ended. That of the solver also has what reports need of the case."""
    seconds = round(time.perf_counter() - started, 6)
    usage, calls, cost = spent
    label, tags = (case.label, case.tags) if stage == ASK else ("", ())
    # Without names of fields, which take longer than the rest: this runs for every stage of every case.
    return End(
        case.index,
        case.key,
        case.set,
        case.subject,
        stage,
        try_,
        failure.status if failure else "ok",
        lines,
        failure,
        usage,
        calls,
        seconds,
        label,
        tags,
        cost,
    )
