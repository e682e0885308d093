"""The driver's conversation with a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any, cast

from assay.core.errors import StopRun, WorkerLost
from assay.core.suite import Suite
from assay.executors.links import WorkerLink
from assay.executors.messages import Abandon, CaseBlocked, MessageGroup, StartCase, Told, ToWorker
from assay.executors.ray_pool import RayPool
from assay.executors.remote_solver import RemoteSolver
from assay.usercode.blocked_calls import BlockedCall

from support.engine_run import bare_context, case


class HeldWorker:
    """A worker whose answers come when the test says so."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[tuple[Sequence[ToWorker], asyncio.Future[MessageGroup]]] = asyncio.Queue()

    def exchange(self, number: int, messages: Sequence[ToWorker]) -> asyncio.Future[MessageGroup]:
        """Hold the answer."""
        answer: asyncio.Future[MessageGroup] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait((messages, answer))
        return answer


class HeldWorkers(RayPool):
    """One worker, until it is lost. After that there is none."""

    def __init__(self) -> None:
        self.remote = HeldWorker()
        self.alone: list[bool] = []
        self._link = WorkerLink(self.remote.exchange, "node/1", lambda link, error: None, lambda message: None)

    async def place_case(self, *, alone: bool) -> WorkerLink:
        """Return the worker."""
        self.alone.append(alone)
        if not self._link.is_open:
            raise StopRun("no worker is left")
        return self._link

    def case_ended(self, link: WorkerLink, *, alone: bool) -> None:
        """Nobody waits for it."""

    async def free_worker(self) -> WorkerLink:
        """Return the worker."""
        return self._link

    async def close(self) -> None:
        """Nothing to end."""


def test_an_exchange_waits_at_the_worker_after_two_have_ended_at_once() -> None:
    """As on a busy machine, where Ray delivers both answers together. Otherwise the worker's next words stay there."""

    async def converse() -> list[str]:
        worker, told = HeldWorker(), asyncio.Queue[str]()

        def report(message: object) -> None:
            assert isinstance(message, Told)
            told.put_nowait(message.text)

        link = WorkerLink(worker.exchange, "node/1", lambda link, error: None, report)
        link.send(Abandon(1))
        (_, first), (_, second) = await worker.begun.get(), await worker.begun.get()
        first.set_result(MessageGroup(1, [Told("first")]))
        second.set_result(MessageGroup(2, [Told("second")]))
        heard = [await told.get(), await told.get()]
        _, third = await worker.begun.get()
        third.set_result(MessageGroup(3, [Told("third")]))
        heard.append(await told.get())
        link.close()
        return heard

    assert asyncio.run(asyncio.wait_for(converse(), 20)) == ["first", "second", "third"]


def test_only_the_case_that_blocked_a_worker_runs_alone_next() -> None:
    """The others have done nothing. It is no loss of theirs, and they need no worker of their own."""

    async def converse() -> tuple[list[bool], list[bool]]:
        workers = HeldWorkers()
        solver = RemoteSolver(workers, cast("Suite[Any, Any]", None))  # asked when a case has ended
        first = [asyncio.create_task(solver.solve({}, bare_context(case(index)))) for index in (0, 1)]
        started: list[StartCase] = []
        while len(started) < len(first):
            messages, answer = await workers.remote.begun.get()
            started += [message for message in messages if isinstance(message, StartCase)]
        blocked = CaseBlocked(started[0].placement, BlockedCall("hop#1", "hop.py:3", ""))
        answer.set_result(MessageGroup(1, [blocked]))
        losses = await asyncio.gather(*first, return_exceptions=True)
        workers.alone.clear()
        again = [asyncio.create_task(solver.solve({}, bare_context(case(index)))) for index in (0, 1)]
        await asyncio.gather(*again, return_exceptions=True)
        return [isinstance(loss, WorkerLost) and loss.counts for loss in losses], workers.alone

    counts, alone = asyncio.run(asyncio.wait_for(converse(), 20))
    assert counts == [False, False]
    assert alone == [True, False]
