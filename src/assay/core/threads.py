"""Runs blocking functions in daemon threads, so that a function that hangs never holds the process."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

R = TypeVar("R")


class DaemonPool:
    """At most `size` threads, started when needed. They end with the process, not before.

    With `replaces`, a thread whose result is no longer awaited leaves the pool: another one may be started
    in its place, and it ends when its function does. Functions that hang then leave the pool its full width.
    """

    def __init__(self, size: int, name: str, *, replaces: bool = False) -> None:
        self._size = size
        self._name = name
        self._replaces = replaces
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = 0
        """Jobs that wait or run. There are always as many threads, up to the size."""
        self._threads = 0
        self._started = 0

    async def run(self, function: Callable[[], R]) -> R:
        """What the function returns or raises. If this wait is cancelled, the thread is left to its work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        job = _Job(loop, future, function)
        with self._lock:
            self._open += 1
            self._jobs.put(job)
            self._start_missing()
        try:
            return await future
        except asyncio.CancelledError:
            self._abandon(job)
            raise

    def _start_missing(self) -> None:
        """Start the thread that is missing, if one is. The caller holds the lock."""
        if self._open > self._threads and self._threads < self._size:
            self._threads += 1
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()

    def _abandon(self, job: _Job) -> None:
        """A job that has not begun never will; one that runs costs the pool its thread if `replaces`."""
        with self._lock:
            if job.future.cancelled() and not job.left and (self._replaces or not job.begun):
                job.left = True
                self._open -= 1
                self._threads -= job.begun
                self._start_missing()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with self._lock:
                job.begun = not job.left
            if job.begun and not self._run(job):
                return
            del job  # or it keeps its result until the next one comes

    def _run(self, job: _Job) -> bool:
        """Run a job; say whether this thread still belongs to the pool afterwards."""
        try:
            result, error = job.function(), None
        except BaseException as raised:  # noqa: BLE001 - whatever user code raises belongs to the one who waits
            result, error = None, raised
        with self._lock:
            if job.left:
                return False
            job.left = True
            self._open -= 1
        with suppress(RuntimeError):  # the loop is closed: nobody waits any more
            job.loop.call_soon_threadsafe(_settle, job.future, result, error)
        return True


class _Job:
    """A function and the future that waits for it. `left`: it no longer counts as open."""

    __slots__ = ("begun", "function", "future", "left", "loop")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], function: Callable[[], Any]
    ) -> None:
        self.loop = loop
        self.future = future
        self.function = function
        self.begun = False
        self.left = False


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class DetachedThreads(ThreadPoolExecutor):
    """An executor for `asyncio.to_thread`: one daemon thread for each job, and nobody waits for their end."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Begin at once: jobs that hang must not keep those of other cases waiting."""
        future: Future[R] = Future()
        work = partial(fn, *args, **kwargs)
        threading.Thread(target=_fill, args=(future, work), name="assay-detached", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is nothing to wait for."""


def _fill(future: Future[R], work: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
        future.set_exception(error)
