"""The driver's side of a case that runs on a worker.

To the engine's loop, RemoteSolver is a solver like any other: `solve(inputs, ctx)`. It places the case on a worker and
answers what the case asks through the same `ctx` that a local solver would use. So log, replay, permits, retries and
budget are those of every run.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Coroutine
from typing import Any, Protocol

from msgspec.structs import replace

from assay.core.errors import CaseFailed, ModelError, StopRun, UsageError, WorkerLost
from assay.core.protocols import Context, Model, Solver
from assay.core.suite import RemoteCase, Suite
from assay.core.types import Failure, Record, Request, Response
from assay.engine.context import TryContext
from assay.executors.links import WorkerLink
from assay.executors.messages import Ask, CaseBlocked, EndCase, PartPassed, Passed, Reply, Stopped
from assay.usercode.blocked_calls import BlockedCall

# A call of a model inside a worker is given up when so many workers were lost with it.
_MAX_LOSSES = 3


class Workers(Protocol):
    """The workers of a run."""

    async def place_case(self, *, alone: bool) -> WorkerLink:
        """Return a worker for a case, `alone` one that has no other case. Waits; raises StopRun if none comes back."""
        ...

    def case_ended(self, link: WorkerLink, *, alone: bool) -> None:
        """The case that was placed there has ended."""
        ...

    async def free_worker(self) -> WorkerLink:
        """Return the worker with the least to do. Waits while there is none; raises StopRun if none comes back."""
        ...

    async def close(self) -> None:
        """End all workers."""
        ...


class RemoteSolver(Solver):
    """Runs every case on a worker."""

    def __init__(self, workers: Workers, suite: Suite[Any, Any]) -> None:
        self._workers = workers
        self._suite = suite
        self._lost: set[int] = set()
        """Open cases that may have ended a worker. They run alone next, so that they take no other case with them."""
        self._blocked: dict[int, list[BlockedCall]] = {}
        """Calls of open cases that have blocked a worker."""

    async def solve(self, inputs: Any, ctx: Context) -> None:
        """Run one case on a worker. Raises WorkerLost when every call of the case in flight has ended."""
        assert isinstance(ctx, TryContext)
        started, began = time.time(), time.perf_counter()
        index = ctx.case.index
        alone = index in self._lost
        link = await self._workers.place_case(alone=alone)
        case = RemoteTry(link, ctx)
        # Gold stays here.
        bare = replace(ctx.case, gold=None, failure=None)
        placement = link.start(bare, ctx.try_, ctx.now(), self._blocked.get(index, ()), case)
        case.placement = placement
        try:
            failure = await case.result()
        except WorkerLost as lost:
            if case.blocked is not None:
                self._blocked.setdefault(index, []).append(case.blocked)
            if lost.counts or case.blocked is not None:
                self._lost.add(index)
            raise
        finally:
            link.abandon(placement)
            self._workers.case_ended(link, alone=alone)
        self._lost.discard(index)
        self._blocked.pop(index, None)
        seconds = time.perf_counter() - began
        self._suite.write_remote_case(RemoteCase(ctx.case, ctx.records, failure, started, seconds))
        if failure is not None:
            raise CaseFailed(failure)


class RemoteTry:
    """One placement of a case on a worker: answers what it asks, until it ends."""

    def __init__(self, link: WorkerLink, ctx: TryContext) -> None:
        self.placement = 0
        self.blocked: BlockedCall | None = None
        """The call with which this case has blocked the worker."""
        self._link = link
        self._ctx = ctx
        self._ended: asyncio.Future[EndCase] = asyncio.get_running_loop().create_future()
        self._answers: set[asyncio.Task[None]] = set()

    async def result(self) -> Failure | None:
        """Wait for the end of the case, and return its failure. Raises errors that concern the whole run."""
        try:
            end = await self._ended
        except asyncio.CancelledError:
            await self._drop_answers()
            raise
        except Exception:
            # Calls in flight are paid. If the worker was lost, the next placement finds their replies in the log.
            await asyncio.gather(*self._answers, return_exceptions=True)
            raise
        # The case has ended without waiting for these, as code does that takes the first of several replies.
        await self._drop_answers()
        self._emit(end.records)
        return end.failure

    async def _drop_answers(self) -> None:
        for answer in self._answers:
            answer.cancel()
        await asyncio.gather(*self._answers, return_exceptions=True)

    def receive(self, message: Ask | Passed | EndCase | CaseBlocked | Stopped) -> None:
        """Take a message of the case."""
        if isinstance(message, Ask):
            self._start(self._answer(message))
        elif isinstance(message, Passed):
            self._emit(message.records)
            self._start(self._tell_passed(message))
        elif isinstance(message, CaseBlocked):
            self.blocked = message.call
        elif isinstance(message, EndCase):
            if not self._ended.done():
                self._ended.set_result(message)
        else:
            kind = UsageError if message.exit_code == UsageError.exit_code else StopRun
            self.fail(kind(message.message))

    def fail(self, error: Exception) -> None:
        """End the case with an error: WorkerLost, or one that concerns the whole run."""
        if not self._ended.done():
            self._ended.set_exception(error)

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(coroutine)
        self._answers.add(task)
        task.add_done_callback(self._answers.discard)

    async def _answer(self, ask: Ask) -> None:
        try:
            asker = self._ctx.model(ask.role)
            call, replayed = await asker.call_numbered(ask.request, ask.hash, ask.n, ask.purpose)
        except Exception as error:  # noqa: BLE001 - raised again where the loop waits for the case
            self.fail(error)
            return
        if self._link.is_open:
            self._link.send(Reply(self.placement, ask.number, call, replayed))

    async def _tell_passed(self, question: Passed) -> None:
        try:
            passed = await self._ctx.passed(question.part)
        except Exception as error:  # noqa: BLE001 - a bug of an expectation's code stops the case, as it would here
            self.fail(error)
            return
        if self._link.is_open:
            self._link.send(PartPassed(self.placement, question.number, passed))

    def _emit(self, records: list[Record]) -> None:
        for record in records:
            self._ctx.emit(record.kind, record.data, record.part)


class RemoteModel:
    """A model that computes in the workers: `local/`, `hf/` or a Python function.

    Only `send` goes to a worker. Permits, retries, budget and log are the driver's, as for every model.
    """

    def __init__(self, role: str, model: Model, workers: Workers) -> None:
        self.endpoint = model.endpoint
        self.can = model.can
        self._role = role
        self._workers = workers

    async def send(self, request: Request, seed: int) -> Response:
        """Send a request to the worker with the least to do, and to another one if that is lost."""
        lost: list[str] = []
        while len(lost) < _MAX_LOSSES:
            link = await self._workers.free_worker()
            sent = await link.ask_model(self._role, request, seed)
            if sent is None:
                lost.append(link.name)
                continue
            if sent.failure is not None:
                raise ModelError(sent.failure, retry=sent.retry, wait=sent.wait, response=sent.response)
            assert sent.response is not None
            return sent.response
        places = ", ".join(lost)
        raise ModelError(
            Failure("worker_lost", f"{_MAX_LOSSES} workers were lost while they computed this reply: {places}")
        )

    async def close(self) -> None:
        """Nothing to close: the workers end with the run."""
