"""`--executor ray`: the solver and the models of a run whose cases run on the workers of a Ray cluster.

executor = RayExecutor(suite, models, home=home, total=cases, notify=notify, halt=halt)
await executor.start()
…                          # the loop runs with executor.solver, the callers with executor.models
await executor.close()
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from assay.core.errors import AssayError, ExecutorRefused, StartInterrupted
from assay.core.events import Noted, Notify
from assay.core.protocols import Model
from assay.core.suite import Suite
from assay.executors.plan import computes, make_plan
from assay.executors.ray_cluster import RayCluster, RaySettings
from assay.executors.ray_pool import RayPool
from assay.executors.remote_solver import RemoteModel, RemoteSolver

_SHARED_ENDPOINT = (
    "--executor ray cannot be used with a shared endpoint: workers on other machines have no OPENAI_BASE_URL of this "
    "process, and calls there do not tell their case. Take the session's base_url instead: session.base_url()"
)
_STOPPING = "Stopping before a case has run. Ending what Ray has started; press Ctrl-C to quit now."


class RayExecutor:
    """Runs the cases of one run on a Ray cluster. Its start and its end can be stopped (stop_request.py)."""

    def __init__(
        self,
        suite: Suite[Any, Any],
        models: Mapping[str, Model],
        *,
        home: Path,
        total: int,
        notify: Notify,
        halt: Callable[[AssayError], object],
    ) -> None:
        """`home` is the folder of the run folders, `total` the number of cases."""
        cluster = cluster_of(suite, total)
        self._notify = notify
        self._part: asyncio.Task[None] | None = None
        self._is_starting = False
        self._is_stopped = False
        self._is_cancelled = False
        self._pool = RayPool(make_plan(suite, models, home=home), cluster, notify, halt)
        self.solver = RemoteSolver(self._pool, suite)
        self.models: dict[str, Model] = {
            name: RemoteModel(name, models[name], self._pool) if computes(role) else models[name]
            for name, role in suite.roles.items()
        }

    def expect(self, open_cases: int) -> None:
        """Spread so many open cases over the workers."""
        self._pool.open_cases = open_cases

    @property
    def workers(self) -> int:
        """The number of workers."""
        return self._pool.size

    async def start(self) -> None:
        """Start the workers. Raises ExecutorRefused if the cluster cannot hold them, or has other files.

        Raises StartInterrupted if it is stopped or cancelled. If it raises, nothing is left to close.
        """
        if self._is_stopped:
            raise StartInterrupted("interrupted")
        self._is_starting = True
        try:
            await self._run(self._pool.start())
        except asyncio.CancelledError:
            await self.close()
            raise StartInterrupted("interrupted") from None
        except BaseException:
            await self.close()
            raise
        finally:
            self._is_starting = False

    async def close(self) -> None:
        """End the workers, and the cluster if this run started it."""
        with suppress(asyncio.CancelledError):
            await self._run(self._pool.close())

    def stop(self, reason: BaseException) -> None:
        """Give up the start, also one that has not begun. The end goes on: it does not take long."""
        self._is_stopped = True
        if self._is_starting and self._part is not None:
            self._notify(Noted(_STOPPING))
            self._is_starting = False
            self._part.cancel()

    def cancel(self) -> None:
        """Wait neither for the start nor for the end. The processes of Ray end with this one."""
        self._is_cancelled = True
        if self._part is not None:
            self._part.cancel()

    async def _run(self, part: Coroutine[Any, Any, None]) -> None:
        self._part = asyncio.create_task(part)
        if self._is_cancelled:
            await asyncio.sleep(0)  # a task that is cancelled before its first step would end nothing
            self._part.cancel()
        await self._part


def cluster_of(suite: Suite[Any, Any], total: int) -> RayCluster:
    """Return the cluster that a run of `total` cases would use, not connected. Raises ExecutorRefused if none can."""
    if suite.shared_endpoint is not None:
        raise ExecutorRefused(_SHARED_ENDPOINT)
    spec = suite.spec
    settings = RaySettings(
        address=spec.address,
        workers=spec.workers,
        max_workers=max(1, min(suite.open_cases or spec.concurrency, total)),
        cpus=spec.worker_cpus,
        gpus=spec.worker_gpus,
    )
    return RayCluster(settings)
