"""The driver's conversation with a worker."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from assay.executors.links import WorkerLink
from assay.executors.messages import Abandon, MessageGroup, Told, ToWorker


class HeldWorker:
    """A worker whose answers come when the test says so."""

    def __init__(self) -> None:
        self.begun: asyncio.Queue[asyncio.Future[MessageGroup]] = asyncio.Queue()

    def exchange(self, number: int, messages: Sequence[ToWorker]) -> asyncio.Future[MessageGroup]:
        """Hold the answer."""
        answer: asyncio.Future[MessageGroup] = asyncio.get_running_loop().create_future()
        self.begun.put_nowait(answer)
        return answer


def test_an_exchange_waits_at_the_worker_after_two_have_ended_at_once() -> None:
    """As on a busy machine, where Ray delivers both answers together. Otherwise the worker's next words stay there."""

    async def converse() -> list[str]:
        worker, told = HeldWorker(), asyncio.Queue[str]()

        def report(message: object) -> None:
            assert isinstance(message, Told)
            told.put_nowait(message.text)

        link = WorkerLink(worker, "node/1", lambda _: None, report, lambda _: None)
        link.send(Abandon(1))
        first, second = await worker.begun.get(), await worker.begun.get()
        first.set_result(MessageGroup(1, [Told("first")]))
        second.set_result(MessageGroup(2, [Told("second")]))
        heard = [await told.get(), await told.get()]
        third = await worker.begun.get()
        third.set_result(MessageGroup(3, [Told("third")]))
        heard.append(await told.get())
        link.close()
        return heard

    assert asyncio.run(asyncio.wait_for(converse(), 20)) == ["first", "second", "third"]
