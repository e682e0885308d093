"""The driver's side of a case that runs on a worker.

To the engine's loop, RemoteSolver is a solver like any other: `solve(inputs, ctx)`. It places the case on a worker and
answers what the case asks through the same `ctx` that a local solver would use. So log, replay, permits, retries and
budget are those of every run.
"""

from __future__ import annotations

import time
from typing import Any

from msgspec.structs import replace

from assay.core.errors import CaseFailed, ModelError, WorkerLost
from assay.core.protocols import Context, Model, Solver
from assay.core.suite import RemoteCase, Suite
from assay.core.types import Failure, Request, Response
from assay.engine.context import TryContext
from assay.executors.links import RemoteTry
from assay.executors.ray_pool import RayPool
from assay.usercode.blocked_calls import BlockedCall

# A call of a model inside a worker is given up when so many workers were lost with it.
_MAX_LOSSES = 3


class RemoteSolver(Solver):
    """Runs every case on a worker."""

    def __init__(self, workers: RayPool, suite: Suite[Any, Any]) -> None:
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


class RemoteModel:
    """A model that computes in the workers: `local/`, `hf/` or a Python function.

    Only `send` goes to a worker. Permits, retries, budget and log are the driver's, as for every model.
    """

    def __init__(self, role: str, model: Model, workers: RayPool) -> None:
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
