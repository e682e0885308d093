"""Runs blocking functions in daemon threads, so that a function that hangs does not keep the process alive."""

from __future__ import annotations

import asyncio
import os
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar
from weakref import WeakSet

R = TypeVar("R")
_POLL_SECONDS = 0.05


class DaemonPool:
    """A pool of at most `size` daemon threads, started when needed. They live until the process ends.

    With `replaces`, a thread whose result is no longer awaited leaves the pool, and a new thread may take its place.
    So functions that hang do not shrink the pool.
    """

    def __init__(self, size: int, name: str, *, replaces: bool = False) -> None:
        self._size = size
        self._name = name
        self._replaces = replaces
        self._started = 0
        self.forget_threads()
        _pools.add(self)

    def forget_threads(self) -> None:
        """Begin without jobs and threads. A forked process has only the thread that forked it."""
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._lock = threading.Lock()
        self._open = 0
        """Jobs that wait or run. The pool has as many threads, up to its size."""
        self._threads = 0

    @property
    def busy(self) -> int:
        """The number of threads that have a job."""
        return min(self._open, self._size)

    async def run(self, function: Callable[[], R]) -> R:
        """Call the function in a thread; return its value or raise its exception.

        If the caller is cancelled, the thread continues, because Python cannot stop a thread.
        """
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

    def wait(self, seconds: float) -> None:
        """Wait until no job is left, but not longer than this."""
        deadline = time.monotonic() + seconds
        while self._open and time.monotonic() < deadline:
            time.sleep(_POLL_SECONDS)

    def _start_missing(self) -> None:
        """Start a thread if there are more jobs than threads. The caller must hold the lock."""
        if self._open > self._threads and self._threads < self._size:
            self._threads += 1
            self._started += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._started}", daemon=True).start()

    def _abandon(self, job: _Job) -> None:
        """Drop a job that has not started. If it runs, and the pool `replaces`, give up its thread."""
        with self._lock:
            if job.future.cancelled() and not job.closed and (self._replaces or not job.started):
                job.closed = True
                self._open -= 1
                self._threads -= job.started
                self._start_missing()

    def _work(self) -> None:
        while True:
            job = self._jobs.get()
            with self._lock:
                job.started = not job.closed
            if job.started and not self._run(job):
                return
            del job  # otherwise this thread keeps the result in memory until its next job

    def _run(self, job: _Job) -> bool:
        """Run a job. Returns whether this thread still belongs to the pool."""
        try:
            result, error = job.function(), None
        except BaseException as raised:  # noqa: BLE001 - any exception of user code is raised in the caller
            result, error = None, raised
        with self._lock:
            if job.closed:
                return False
            job.closed = True
            self._open -= 1
        with suppress(RuntimeError):  # the loop is closed, so no caller waits for the result
            job.loop.call_soon_threadsafe(_settle, job.future, result, error)
        return True


_pools: WeakSet[DaemonPool] = WeakSet()


def _forget_all_threads() -> None:
    for pool in _pools:
        pool.forget_threads()


os.register_at_fork(after_in_child=_forget_all_threads)


class _Job:
    """A function and the future for its result. A `closed` job is done or abandoned."""

    __slots__ = ("closed", "function", "future", "loop", "started")

    def __init__(
        self, loop: asyncio.AbstractEventLoop, future: asyncio.Future[Any], function: Callable[[], Any]
    ) -> None:
        self.loop = loop
        self.future = future
        self.function = function
        self.started = False
        self.closed = False


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)


class DetachedThreads(ThreadPoolExecutor):
    """An executor for `asyncio.to_thread` with a daemon thread per job. Python does not wait for them at exit."""

    def submit(self, fn: Callable[..., R], /, *args: Any, **kwargs: Any) -> Future[R]:
        """Start the job at once in a new thread, so that jobs that hang do not delay those of other cases."""
        future: Future[R] = Future()
        work = partial(fn, *args, **kwargs)
        threading.Thread(target=_fill, args=(future, work), name="assay-detached", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """Do nothing: the threads are not awaited."""


def _fill(future: Future[R], work: Callable[[], R]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - any exception is raised in the caller
        future.set_exception(error)
