"""The workers of a run as actors of Ray.

    pool = RayPool(plan, cluster, notify, stop)
    await pool.start()
    link = await pool.place_case(alone=False)

Ray places the actors on nodes, starts them again when their process or node is lost, and carries the messages.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from functools import partial
from itertools import count
from math import ceil
from typing import Any

from assay.core.errors import AssayError, ExecutorRefused, StopRun
from assay.core.events import Noted, Notify
from assay.executors.links import WorkerLink, last_line
from assay.executors.messages import Hello, MessageGroup, Opened, Told, ToWorker
from assay.executors.plan import WorkerPlan
from assay.executors.ray_cluster import RayCluster
from assay.files.excerpt import cut_end
from assay.usercode.opened_files import note_read, note_written

# Until the first worker answers. Starting an actor takes about a second, importing assay another one. On a cluster
# other jobs may have to end first.
START_SECONDS = 120.0
# A run without any worker stops after this time. Ray needs seconds to start an actor on another node.
NO_WORKER_SECONDS = 120.0
_RETRY_SECONDS = 0.5
# A worker that dies so often before the first hello cannot start at all.
_MAX_DEATHS = 3
# So long the open cases are spread also over workers that are not ready.
_PATIENCE_SECONDS = 20.0
_WATCH_SECONDS = 5.0
# A worker whose exchanges do not return for the time limit and this much longer is ended. Idle ones return every 10 s.
SILENT_SECONDS = 30.0
# Workers that do not close what they opened within this time are ended all the same.
_CLOSE_SECONDS = 3.0


# Numbers of connections to workers. Each is used once, also after a worker was started again.
_connections = count(1)


class RayPool:
    """The actors of one run, and the links to those that answer."""

    def __init__(
        self,
        plan: WorkerPlan,
        cluster: RayCluster,
        notify: Notify,
        stop: Callable[[AssayError], object],
    ) -> None:
        """`stop` is called if the run cannot go on."""
        self._plan = plan
        self._cluster = cluster
        self._notify = notify
        self._stop = stop
        self._actors: list[RayRemote] = []
        self._links: dict[WorkerLink, RayRemote] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._changed = asyncio.Event()
        self._stopped: AssayError | None = None
        self._has_answered = False
        """Whether the process of a worker has started. It is ready when it has read the files of the run."""
        self._is_started = False
        self.open_cases = 1
        """How many cases are open at once. They are spread over all workers, also over those that are not ready yet."""
        self._awaited: dict[RayRemote, float] = {}
        """Workers that have not answered yet, and since when, in seconds of the loop's clock."""

    @property
    def size(self) -> int:
        """The number of workers, those that are lost now included."""
        return len(self._actors)

    async def start(self) -> None:
        """Start or find the cluster and start the workers. Returns when the first one is ready.

        Raises ExecutorRefused if the cluster cannot hold the plan, or if a worker has another version or other files.
        """
        cluster = self._cluster
        if await cluster.is_connected():
            self._notify(Noted("using the Ray connection of this program"))
        elif cluster.is_local:
            self._notify(Noted("starting a Ray cluster of this machine, which takes some seconds"))
        else:
            self._notify(Noted(f"connecting to Ray at {cluster.address}"))
        await cluster.connect()
        count = cluster.worker_count()
        nodes = sum(1 for workers in cluster.capacity().values() if workers)
        what = "1 worker" if count == 1 else f"{count} workers"
        where = "1 node" if nodes == 1 else f"{nodes} nodes"
        self._notify(Noted(f"starting {what} of {cluster.need} on {where} of Ray"))
        # Ray may need seconds for this, and Ctrl-C must be heard meanwhile.
        self._actors = await cluster.call(partial(self._create_actors, count))
        for remote in self._actors:
            self._start_task(self._greet(remote))
        self._start_task(self._watch())
        try:
            async with asyncio.timeout(START_SECONDS):
                await self._wait_until(lambda: self._has_answered)
        except TimeoutError:
            raise StopRun(
                f"no worker started within {START_SECONDS:g} s. {self._cluster.free_room()}. Wait until other jobs "
                "end, or ask for less with --worker-cpus and --worker-gpus"
            ) from None
        # Without a limit: hashing the weights of a large model takes minutes on each machine.
        await self._wait_until(lambda: bool(self._links))
        self._is_started = True

    def _create_actors(self, count: int) -> list[RayRemote]:
        actor = self._cluster.actor_class()
        try:
            plan = self._cluster.ray.put(self._plan)
        except Exception as error:  # noqa: BLE001 - an object of the user's may raise anything while it is pickled
            raise ExecutorRefused(
                f"a function of the run cannot be sent to a worker: {_why_not_sent(error)}. Open clients, files and "
                "locks inside the function"
            ) from None
        return [RayRemote(actor.remote(), plan) for _ in range(count)]

    async def place_case(self, *, alone: bool) -> WorkerLink:
        """Return a worker for a case, `alone` one that has no other case. Waits; raises StopRun if none comes back.

        A worker has at most its share of the open cases, so that those that start later get theirs.
        """
        if alone:
            return await self._reserve()
        while True:
            await self._wait_until_any()
            share = ceil(max(self.open_cases, self.size) / self._expected())
            free = [link for link in self._links if not link.is_reserved and link.cases < share]
            if free:
                return min(free, key=lambda link: link.load)
            await self._wait_for_change()

    async def _reserve(self) -> WorkerLink:
        """Choose a worker on which no further case is placed, and wait until it has none."""
        link: WorkerLink | None = None
        try:
            while True:
                await self._wait_until_any()
                if link is None or not link.is_open:
                    free = [each for each in self._links if not each.is_reserved]
                    link = min(free, key=lambda each: each.cases, default=None)
                    if link is not None:
                        link.is_reserved = True
                if link is not None and link.cases == 0:
                    return link
                await self._wait_for_change()
        except BaseException:
            if link is not None:
                link.is_reserved = False
            raise

    def case_ended(self, link: WorkerLink, *, alone: bool) -> None:
        """The case that was placed there has ended."""
        if alone:
            link.is_reserved = False
        self._changed.set()

    async def free_worker(self) -> WorkerLink:
        """Return the worker with the least to do. Waits while there is none; raises StopRun if none comes back."""
        await self._wait_until_any()
        return min(self._links, key=lambda link: link.load)

    def _expected(self) -> int:
        """Return over how many workers the open cases are spread: those that are ready, or will be soon."""
        now = asyncio.get_running_loop().time()
        soon = [since for since in self._awaited.values() if now - since < _PATIENCE_SECONDS]
        return max(1, len(self._links) + len(soon))

    async def close(self) -> None:
        """End the workers, and the cluster if this run started it."""
        for link in self._links:
            link.close()
        for task in self._tasks:
            task.cancel()
        try:
            with suppress(TimeoutError):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    closing = [remote.close() for remote in self._links.values()]
                    await asyncio.gather(*closing, return_exceptions=True)
        finally:
            # Also if nobody waits for the end any more: the program may go on, and use the cluster again.
            for remote in self._actors:
                self._cluster.ray.kill(remote.actor)
            await self._cluster.leave()

    # The workers.

    def _start_task(self, coroutine: Any) -> None:
        task = asyncio.create_task(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _greet(self, remote: RayRemote) -> None:
        """Wait until a worker answers, and open a link to it."""
        deaths = 0
        self._awaited[remote] = asyncio.get_running_loop().time()
        while True:
            try:
                await remote.answer()
                self._has_answered = True
                self._changed.set()
                hello = await remote.hello()
                break
            except ConnectionError as error:
                # Ray starts it again, where there is room. One that never gets so far will not the next time either.
                deaths += 1
                if deaths == _MAX_DEATHS and not self._is_started:
                    self._fail(f"a worker cannot start: {last_line(error)}")
                    return
                await asyncio.sleep(_RETRY_SECONDS)
            except Exception as error:  # noqa: BLE001 - such as assay that is not installed on that machine
                self._fail(f"a worker cannot start: {last_line(error)}")
                return
        if hello.problem:
            self._fail(_problem_of(hello))
            return
        link = WorkerLink(remote.exchange, hello.name, partial(self._lose, remote), self._report)
        self._links[link] = remote
        self._awaited.pop(remote, None)
        self._changed.set()

    def _lose(self, remote: RayRemote, link: WorkerLink, error: AssayError | None) -> None:
        del self._links[link]
        if error is not None:
            self._stop_run(error)
            return
        if link.must_end:
            self._cluster.ray.kill(remote.actor, no_restart=False)
        self._changed.set()
        self._notify(Noted(f"the worker {link.name} was lost. Its cases go on elsewhere"))
        self._start_task(self._greet(remote))

    def _fail(self, message: str) -> None:
        # Before the first worker is ready, no case has run.
        self._stop_run(StopRun(message) if self._is_started else ExecutorRefused(message))

    def _stop_run(self, reason: AssayError) -> None:
        self._stopped = self._stopped or reason
        if self._is_started:
            self._stop(reason)
        self._changed.set()

    def _report(self, message: Opened | Told) -> None:
        if isinstance(message, Told):
            self._notify(Noted(message.text))
        elif message.file.written:
            note_written(message.file.path)
        else:
            note_read(message.file.path, message.file.size, message.file.mtime_ns)

    async def _watch(self) -> None:
        """End workers that do not answer at all, as when code of a case holds the interpreter's lock for ever."""
        loop = asyncio.get_running_loop()
        began = loop.time()
        told: bool | None = None
        while True:
            slept = loop.time()
            await asyncio.sleep(_WATCH_SECONDS)
            now = loop.time()
            if not self._is_started and told is not self._has_answered and now - began > _PATIENCE_SECONDS:
                told = self._has_answered
                reason = f"no worker has started yet. {self._cluster.free_room()}"
                self._notify(Noted("the workers read the files of the run" if told else reason))
            if now - slept > 2 * _WATCH_SECONDS:
                # This process stood still, as after Ctrl-Z or when Slurm suspends the job: it could hear nobody.
                for link in self._links:
                    link.heard = now
            for link in list(self._links):
                if now - link.heard > self._plan.timeout + SILENT_SECONDS:
                    link.must_end = True
                    link.lose()

    async def _wait_until_any(self) -> None:
        """Wait until there is a worker. Raises the reason to stop, or StopRun if none comes back."""
        if self._stopped is not None:
            raise self._stopped
        if self._links:
            return
        try:
            async with asyncio.timeout(NO_WORKER_SECONDS):
                await self._wait_until(lambda: bool(self._links))
        except TimeoutError:
            raise StopRun(
                f"all workers were lost, and none came back within {NO_WORKER_SECONDS:g} s. The same command "
                "continues the run, on this cluster, another one or without --executor"
            ) from None

    async def _wait_until(self, is_true: Callable[[], bool]) -> None:
        """Wait until something is true of the workers. Raises the reason to stop, if there is one."""
        while not is_true():
            if self._stopped is not None:
                raise self._stopped
            await self._wait_for_change()

    async def _wait_for_change(self) -> None:
        """Wait until a worker comes or goes, or a case has ended. Looks again after a while: patience ends, too."""
        self._changed.clear()
        with suppress(TimeoutError):
            # No wait_for: that of Python 3.11 returns instead of being cancelled if both happen at once, and does not
            # listen before the next turn of the loop.
            async with asyncio.timeout(_WATCH_SECONDS):
                await self._changed.wait()


class RayRemote:
    """A worker that is an actor of Ray. The errors of Ray about lost actors become ConnectionError."""

    def __init__(self, actor: Any, plan: Any) -> None:
        """`plan` is the WorkerPlan in Ray's object store."""
        self.actor = actor
        self._plan = plan
        self._connection = 0

    async def answer(self) -> None:
        """Wait until the process of the worker has started."""
        await _result(self.actor.answer.remote())

    async def hello(self) -> Hello:
        """Say who you are, and forget everything of an earlier connection."""
        self._connection = next(_connections)
        hello: Hello = await _result(self.actor.hello.remote(self._plan, self._connection))
        return hello

    async def close(self) -> None:
        """Close what the cases have opened."""
        await _result(self.actor.close.remote())

    async def exchange(self, number: int, messages: Sequence[ToWorker]) -> MessageGroup:
        """Deliver messages and return some for the driver."""
        batch: MessageGroup = await _result(self.actor.exchange.remote(self._connection, number, messages))
        return batch


async def _result(reference: Awaitable[Any]) -> Any:
    from ray.exceptions import RayError, RayTaskError

    try:
        return await reference
    except RayTaskError as error:
        if isinstance(error.cause, ConnectionResetError):
            raise ConnectionError(str(error.cause)) from None
        raise
    except RayError as error:
        # The actor or its node is gone, or with it an object that was not fetched yet.
        raise ConnectionError(str(error)) from None


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


def _why_not_sent(error: BaseException) -> str:
    found = re.search(r"cannot pickle [^\n]*", str(error))
    return found[0].rstrip(".") if found else f"{type(error).__name__}: {cut_end(str(error), 200)}"
