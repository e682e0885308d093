"""The loop: open cases pull from one iterator, are solved, committed, scored. It knows protocols only."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Protocol

from msgspec import Struct
from msgspec.structs import replace

from assay.core.errors import AssayError, CaseFailed, ModelError, ModelRefused, StopRun
from assay.core.events import Ended, Finished, Noted, Notify, Started, Stopping
from assay.core.protocols import Scorer, Solver, View
from assay.core.types import ASK, Case, End, Failure
from assay.core.user_code import failure_of, is_failure
from assay.engine.cases import CaseSource, check_key
from assay.engine.context import Binder, RunContext, SdkGateway, SharedEndpoint, TryContext, Verdict
from assay.journal.journal import Journal, Replies

_MOST_NAMED = 10
_YIELD_SECONDS = 0.05


class Gate(Protocol):
    """Says when another case may be opened."""

    @property
    def crowded(self) -> bool:
        """Whether a new case would find no free permit."""
        ...

    async def room(self) -> None:
        """Wait until it would."""
        ...

    def pass_on(self) -> None:
        """Let another wait no longer: this one takes no case any more."""
        ...


class Setup(Struct, frozen=True):
    """What the loop is given."""

    cases: CaseSource
    solver: Solver
    scorers: Sequence[Scorer]
    journal: Journal
    models: Mapping[str, Binder]
    gate: Gate
    halt: Callable[[AssayError], object]
    notify: Notify
    open_cases: int
    retry_failed: bool
    seed: int
    started: float
    verdict: Verdict | None = None
    """The suite's `passed`."""
    gateway: SdkGateway | None = None
    shared_endpoint: SharedEndpoint | None = None
    asks: bool = True
    """Without it only what has ended is read and scored; no model is asked."""


class Loop:
    """Runs every case that is not done. One per start of a run."""

    def __init__(self, setup: Setup) -> None:
        self._setup = setup
        self._journal = setup.journal
        self._scorers = setup.scorers
        # In a new run no case has a history, so nothing is looked up.
        self._new = setup.journal.empty
        self._run = RunContext(
            setup.models,
            setup.journal,
            self._replies,
            seed=setup.seed,
            started=setup.started,
            gateway=setup.gateway,
            verdict=setup.verdict,
            shared_endpoint=setup.shared_endpoint,
        )
        self._cases: Iterator[Case] = iter(())
        self._workers: list[asyncio.Task[None]] = []
        self.stopped: BaseException | None = None
        self.unscored = 0
        """Cases whose judge could not be asked: they are scored in the next start."""
        self._last_yield = time.monotonic()

    async def run(self) -> None:
        """Until nothing is left, or until it is stopped. Raises what stopped it."""
        setup = self._setup
        done = self._journal.done_map(setup.cases.slots, retry_failed=setup.retry_failed)
        setup.notify(Started(setup.cases.total, done.count(1)))
        self._cases = setup.cases.load(done.__getitem__)
        try:
            for _ in range(setup.open_cases):
                self._workers.append(asyncio.create_task(self._worker()))
                # Workers start one by one: a case with many calls takes its permits before the next case opens.
                await asyncio.sleep(0)
            await asyncio.wait(self._workers)
        finally:
            # The caller may be cancelled while it waits; no worker may outlive the journal it writes to.
            self.cancel()
            await asyncio.gather(*self._workers, return_exceptions=True)
        setup.notify(Finished())
        if self.stopped is not None:
            raise self.stopped

    def stop(self, reason: BaseException) -> None:
        """Take no further case and make no further call. Calls in flight finish, because they are paid."""
        if self.stopped is None:
            self.stopped = reason
            self._setup.halt(StopRun(str(reason)))
            # After a refusal the calls in flight will be refused as well: there is nothing to wait for.
            if not isinstance(reason, ModelRefused):
                self._setup.notify(Stopping(str(reason)))

    def cancel(self) -> None:
        """Abandon the open cases. The journal has every reply that arrived."""
        for worker in self._workers:
            worker.cancel()

    def _replies(self, index: int, stage: str) -> Replies:
        if self._new:
            return {}
        # A scorer judges the try that ended last. Replies of its judge are reused, failed calls are not.
        return self._journal.replies(index, stage, self._journal.last_try(index))

    async def _worker(self) -> None:
        gate = self._setup.gate
        try:
            while self.stopped is None:
                if gate.crowded:
                    await gate.room()
                if time.monotonic() - self._last_yield > _YIELD_SECONDS:
                    # A model in this process never waits; without this, Ctrl-C and timers would not be heard.
                    await asyncio.sleep(0)
                    self._last_yield = time.monotonic()
                case = next(self._cases, None)
                if case is None or self.stopped is not None:
                    return
                await self._case(case)
        except asyncio.CancelledError:
            return
        except BaseException as error:  # noqa: BLE001 - an error of one worker stops the run, with its reason
            self.stop(error)
        finally:
            gate.pass_on()

    async def _case(self, case: Case) -> None:
        if self._new or not self._journal.asked(case.index, retry_failed=self._setup.retry_failed):
            if not self._setup.asks:
                return
            view = await self._ask(case)
        else:
            view = self._read(case)
        if view.end.status != "infra_error":
            for scorer in self._scorers:
                await self._score(scorer, view)

    def _read(self, case: Case) -> View:
        reader = self._journal.reader
        end = reader.end(case.index)
        assert end is not None
        check_key(case.key, end)
        return View(case, end, reader.records(case.index))

    async def _ask(self, case: Case) -> View:
        earlier = 0 if self._new else self._journal.last_try(case.index)
        ctx = TryContext(case, ASK, earlier + 1, self._run)
        started = time.perf_counter()
        failure = case.failure or await self._attempt(case, ctx)
        end = _end(ctx, failure, time.perf_counter() - started, case.label, case.tags)
        self._journal.end_case(end, ctx.pending)
        self._setup.notify(Ended(case, end))
        return View(case, end, ctx.records)

    async def _attempt(self, case: Case, ctx: TryContext) -> Failure | None:
        """Solve the case; returns why it failed. Errors that concern the whole run are raised."""
        try:
            ctx.lend_shared_endpoint()
            await self._setup.solver.solve(case.inputs, ctx)
        except (ModelError, CaseFailed) as error:
            return error.failure
        except BaseException as error:
            # sys.exit in user code is an error of its case; a real Ctrl-C and a cancellation are not.
            if not is_failure(error):
                raise
            return ctx.failure_for(error)
        finally:
            ctx.close()
        return None

    async def _score(self, scorer: Scorer, view: View) -> None:
        if self._journal.index.stages[scorer.id].code(view.case.index):
            return
        ctx = TryContext(view.case, scorer.call_stage, view.end.try_, self._run)
        started = time.perf_counter()
        try:
            scores = await scorer.score(view, ctx)
        except ModelError as error:
            self._not_scored(view.case, f"could not be judged: {error}")
            return
        except Exception as error:
            if not is_failure(error):
                raise
            failure = failure_of(error)
            where = f"\n{failure.traceback}" if failure.traceback else ""
            self._not_scored(view.case, f"could not be scored: {failure.message}{where}")
            return
        finally:
            ctx.close()
        end = _end(ctx, None, time.perf_counter() - started)
        self._journal.end_scoring(replace(end, stage=scorer.id), scores)

    def _not_scored(self, case: Case, why: str) -> None:
        self.unscored += 1
        if self.unscored <= _MOST_NAMED:
            self._setup.notify(Noted(f"{case.set} {case.label} {why}"))


def _end(
    ctx: TryContext, failure: Failure | None, seconds: float, label: str = "", tags: tuple[str, ...] = ()
) -> End:
    case = ctx.case
    return End(
        *case.head,
        stage=ctx.stage,
        try_=ctx.try_,
        status=failure.status if failure else "ok",
        lines=ctx.written,
        failure=failure,
        usage=ctx.usage,
        calls=ctx.calls,
        seconds=round(seconds, 6),
        label=label,
        tags=tags,
    )
