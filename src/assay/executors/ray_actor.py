"""The actor of Ray that holds a CaseWorker. Ray imports this module on the machine of the worker."""

from __future__ import annotations

from collections.abc import Sequence

from assay.executors.messages import Hello, MessageGroup, ToWorker
from assay.executors.plan import WorkerPlan
from assay.executors.worker import CaseWorker


class WorkerActor:
    """Calls of its methods come from the driver. They run in Ray's event loop, the cases in a thread."""

    def __init__(self) -> None:
        self._worker: CaseWorker | None = None

    async def answer(self) -> None:
        """Let the driver know that this process has started."""

    async def hello(self, plan: WorkerPlan, connection: int) -> Hello:
        """Say who this is once the suite is built. Ray may have started this actor again: it knows nothing then.

        `connection` is a number that the driver uses once. Exchanges of an earlier connection are refused.
        """
        self._worker = self._worker or CaseWorker(plan)
        return await self._worker.hello(connection)

    async def exchange(self, connection: int, number: int, messages: Sequence[ToWorker]) -> MessageGroup:
        """Deliver messages and return some for the driver."""
        if self._worker is None:
            # Started again between two messages. The driver says hello first.
            raise ConnectionResetError("this worker was started again")
        return await self._worker.exchange(connection, number, messages)

    async def close(self) -> None:
        """Close what the cases have opened. The process ends soon after."""
        if self._worker is not None:
            await self._worker.close()
