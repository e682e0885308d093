"""The workers of a run as actors of Ray.

    pool = RayPool(plan, RaySettings(address=None, workers=4), notify, stop)
    await pool.start()
    link = await pool.free_worker()

Ray places the actors, starts them again when their process or node is lost, and carries the messages. assay decides
nothing of that. Ray's usage statistics are off.
"""

from __future__ import annotations

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.core.code_files import note_read, note_written
from assay.core.errors import AssayError, ExecutorRefused, MissingExtra, StopRun
from assay.core.events import Noted, Notify
from assay.executors.links import WorkerLink
from assay.executors.messages import Hello, MessageGroup, Opened, Told, ToWorker
from assay.executors.plan import WorkerPlan
from assay.executors.ray_actor import WorkerActor

if TYPE_CHECKING:
    from types import ModuleType

# Ray reads these variables when it is imported. Nothing is sent to Ray's makers, and it prints nothing to the standard
# output, which belongs to the report: a lost worker is told by assay.
_QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DEDUP_LOGS": "1", "RAY_DEDUP_LOGS_SKIP_REGEX": "."}
# Starting an actor takes about a second, importing assay another one. On a cluster other jobs may have to end first.
START_SECONDS = 120.0
# A run without any worker stops after this time. Ray needs seconds to start an actor on another node.
NO_WORKER_SECONDS = 120.0
_RETRY_SECONDS = 0.5
# Workers that do not close what they opened within this time are ended all the same.
_CLOSE_SECONDS = 3.0


class RaySettings(Struct, frozen=True, kw_only=True):
    """The options of `--executor ray`."""

    address: str | None = None
    """Address of a cluster. None starts a cluster of this machine, which ends with the run."""
    workers: int | None = None
    """None: as many as the cluster holds, but at most `max_workers`."""
    max_workers: int = 1
    """More would never have a case."""
    cpus: float = 1.0
    gpus: float = 0.0


class RayPool:
    """The actors of one run, and the links to those that answer."""

    def __init__(
        self,
        plan: WorkerPlan,
        settings: RaySettings,
        notify: Notify,
        stop: Callable[[StopRun], object],
    ) -> None:
        """`stop` is called if the run cannot go on."""
        self._plan = plan
        self._settings = settings
        self._notify = notify
        self._stop = stop
        self._ray: ModuleType | None = None
        self._owns_cluster = False
        self._actors: list[RayRemote] = []
        self._links: dict[WorkerLink, RayRemote] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._stopped: AssayError | None = None
        self._is_started = False

    @property
    def size(self) -> int:
        """The number of workers, those that are lost now included."""
        return len(self._actors)

    async def start(self) -> None:
        """Start or find the cluster and start the workers. Returns when the first one is ready.

        Raises ExecutorRefused if the cluster cannot hold the plan, or if a worker has another version or other files.
        """
        if self._settings.address is None and not os.environ.get("RAY_ADDRESS"):
            self._notify(Noted("starting a Ray cluster of this machine, which takes some seconds"))
        ray = self._ray = await asyncio.to_thread(self._connect)
        room = room_of(ray, self._settings)
        count = self._count(room)
        nodes = sum(1 for workers in room.values() if workers)
        what = "1 worker" if count == 1 else f"{count} workers"
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        self._notify(Noted(f"starting {what} of {self._need()} on a Ray cluster of {where}"))
        actor = ray.remote(WorkerActor).options(
            num_cpus=self._settings.cpus,
            num_gpus=self._settings.gpus,
            max_restarts=-1,
            max_concurrency=16,
            scheduling_strategy="SPREAD",
        )
        try:
            plan = ray.put(self._plan)
        except TypeError as error:
            raise ExecutorRefused(
                f"a function of the run cannot be sent to a worker: {_first_line(error)}. Open clients, files and "
                "locks inside the function"
            ) from None
        self._actors = [RayRemote(actor.remote(), plan) for _ in range(count)]
        for remote in self._actors:
            self._start_task(self._greet(remote))
        try:
            await asyncio.wait_for(self._wait_for_worker(), START_SECONDS)
        except TimeoutError:
            free = ", ".join(f"{value:g} {name}" for name, value in _plain(ray.available_resources()).items())
            raise StopRun(
                f"no worker started within {START_SECONDS:g} s. Each needs {self._need()}, and the cluster has {free} "
                "free. Wait until other jobs end, or ask for less with --worker-cpus and --worker-gpus"
            ) from None
        self._is_started = True

    async def free_worker(self) -> WorkerLink:
        """Return the worker with the least to do. Waits while there is none; raises StopRun if none comes back."""
        if self._stopped is not None:
            raise self._stopped
        if not self._links:
            try:
                await asyncio.wait_for(self._wait_for_worker(), NO_WORKER_SECONDS)
            except TimeoutError:
                raise StopRun(
                    f"all workers were lost, and none came back within {NO_WORKER_SECONDS:g} s. The same command "
                    "continues the run, on this cluster, another one or without --executor"
                ) from None
        return min(self._links, key=lambda link: link.load)

    async def close(self) -> None:
        """End the workers, and the cluster if this run started it."""
        for link in self._links:
            link.close()
        for task in self._tasks:
            task.cancel()
        ray = self._ray
        if ray is None:
            return
        with suppress(TimeoutError):
            closing = [remote.close() for remote in self._links.values()]
            await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), _CLOSE_SECONDS)
        for remote in self._actors:
            ray.kill(remote.actor)
        if self._owns_cluster:
            await asyncio.to_thread(ray.shutdown)

    # The cluster.

    def _connect(self) -> ModuleType:
        """Import Ray, and connect to the cluster or start one."""
        os.environ.update(_QUIET)
        try:
            ray = import_module("ray")
        except ImportError:
            raise MissingExtra("--executor ray", "ray") from None
        if ray.is_initialized():
            return ray
        try:
            ray.init(
                address=self._settings.address,
                include_dashboard=None if self._settings.address else False,
                log_to_driver=False,
                logging_level=logging.ERROR,
            )
        except (ConnectionError, RuntimeError, ValueError) as error:
            place = self._settings.address or os.environ.get("RAY_ADDRESS") or "this machine"
            raise ExecutorRefused(f"Ray cannot be used at {place}: {error}") from None
        self._owns_cluster = True
        return ray

    def _need(self) -> str:
        gpus = f" and {self._settings.gpus:g} GPU" if self._settings.gpus else ""
        return f"{self._settings.cpus:g} CPU{gpus}"

    def _count(self, room: dict[str, int]) -> int:
        """Return how many workers to start. Raises ExecutorRefused if the cluster cannot hold them."""
        total = sum(room.values())
        wanted = self._settings.workers
        nodes = ", ".join(f"{node}: {count}" for node, count in room.items())
        if total == 0:
            raise ExecutorRefused(
                f"the cluster holds no worker of {self._need()} (room on its nodes: {nodes or 'it has none'}). "
                "Ask for less with --worker-cpus and --worker-gpus"
            )
        if wanted is not None and wanted > total:
            raise ExecutorRefused(
                f"--workers {wanted} do not fit: the cluster holds {total} workers of {self._need()} ({nodes}). "
                f"Pass --workers {total}, or ask for less with --worker-cpus and --worker-gpus"
            )
        return wanted or min(total, self._settings.max_workers)

    # The workers.

    def _start_task(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _greet(self, remote: RayRemote) -> None:
        """Wait until a worker answers, and open a link to it."""
        while True:
            try:
                hello = await remote.hello()
                break
            except ConnectionError:
                # Ray starts it again, where there is room.
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001 - such as assay that is not installed on that machine
                self._fail(f"a worker cannot start: {_last_line(error)}")
                return
        if hello.problem:
            self._fail(_problem_of(hello))
            return
        link = WorkerLink(
            remote, hello.name, lambda link: self._lose(link, remote), self._report, self._on_bug
        )
        self._links[link] = remote
        self._changed.set()

    def _lose(self, link: WorkerLink, remote: RayRemote) -> None:
        del self._links[link]
        self._notify(Noted(f"the worker {link.name} was lost. Its cases go on elsewhere"))
        self._start_task(self._greet(remote))

    def _on_bug(self, error: BaseException) -> None:
        self._fail(f"a worker failed: {_last_line(error)}")

    def _fail(self, message: str) -> None:
        # Before the first worker is ready, no case has run.
        self._stopped = self._stopped or (StopRun(message) if self._is_started else ExecutorRefused(message))
        if self._is_started:
            self._stop(StopRun(message))
        self._changed.set()

    def _report(self, message: Opened | Told) -> None:
        if isinstance(message, Told):
            self._notify(Noted(message.text))
        elif message.file.written:
            note_written(message.file.path)
        else:
            note_read(message.file.path, message.file.size, message.file.mtime_ns)

    async def _wait_for_worker(self) -> None:
        while not self._links:
            if self._stopped is not None:
                raise self._stopped
            self._changed.clear()
            await self._changed.wait()


class RayRemote:
    """A worker that is an actor of Ray. The errors of Ray about lost actors become ConnectionError."""

    def __init__(self, actor: Any, plan: Any) -> None:
        """`plan` is the WorkerPlan in Ray's object store."""
        self.actor = actor
        self._plan = plan
        self._connection = 0

    async def hello(self) -> Hello:
        """Say who you are, and forget everything of an earlier connection."""
        hello: Hello = await _result(self.actor.hello.remote(self._plan))
        self._connection = hello.connection
        return hello

    async def close(self) -> None:
        """Close what the cases have opened."""
        await _result(self.actor.close.remote())

    async def exchange(self, number: int, messages: Sequence[ToWorker]) -> MessageGroup:
        """Deliver messages and return some for the driver."""
        batch: MessageGroup = await _result(self.actor.exchange.remote(self._connection, number, messages))
        return batch


async def _result(reference: Awaitable[Any]) -> Any:
    from ray.exceptions import (
        ActorUnavailableError,
        NodeDiedError,
        RayActorError,
        RayTaskError,
        WorkerCrashedError,
    )

    try:
        return await reference
    except (RayActorError, ActorUnavailableError, NodeDiedError, WorkerCrashedError) as error:
        raise ConnectionError(str(error)) from None
    except RayTaskError as error:
        if isinstance(error.cause, ConnectionResetError):
            raise ConnectionError(str(error.cause)) from None
        raise


def room_of(ray: ModuleType, settings: RaySettings) -> dict[str, int]:
    """Return how many workers each node of the cluster holds, by the node's name."""
    room: dict[str, int] = {}
    for node in ray.nodes():
        if not node["Alive"]:
            continue
        resources = node["Resources"]
        fits = [
            int(resources.get(name, 0.0) / need)
            for name, need in (("CPU", settings.cpus), ("GPU", settings.gpus))
            if need
        ]
        name = f"{node['NodeManagerHostname']}:{node['NodeID'][:6]}"
        room[name] = min(fits, default=0)
    return room


def _plain(resources: dict[str, float]) -> dict[str, float]:
    return {name: value for name, value in resources.items() if name in ("CPU", "GPU")}


def _problem_of(hello: Hello) -> str:
    """Return the sentence for a worker that cannot run cases of this run."""
    where = f"the worker {hello.name}"
    if hello.kind == "version":
        return f"{where} cannot be used: {hello.problem}. Install the same version on all machines"
    if hello.kind == "files":
        return (
            f"{where} has other files than the driver: {hello.problem}. Start the run in a folder that all machines "
            "share, or let Ray copy it: ray job submit --working-dir . -- assay …"
        )
    if hello.kind == "models":
        return f"{where} has another model than the driver: {hello.problem}"
    return f"{where} cannot build the run: {hello.problem}. Are the files of the run on that machine?"


def _first_line(error: BaseException) -> str:
    return str(error).partition("\n")[0].strip() or type(error).__name__


def _last_line(error: BaseException) -> str:
    lines = [line for line in str(error).splitlines() if line.strip()]
    return lines[-1].strip() if lines else type(error).__name__
