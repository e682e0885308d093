"""Runs blocking functions in daemon threads, so that one that hangs never holds the process."""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar

R = TypeVar("R")
_Job = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[[], Any]]


class DaemonPool:
    """At most `size` threads, started when needed. They end with the process, not before."""

    def __init__(self, size: int, name: str) -> None:
        self._size = size
        self._name = name
        self._jobs: queue.SimpleQueue[_Job] = queue.SimpleQueue()
        self._idle = threading.Semaphore(0)
        self._threads = 0

    async def run(self, function: Callable[[], R]) -> R:
        """What the function returns or raises. A cancelled wait abandons the thread to its work."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[R] = loop.create_future()
        self._jobs.put((loop, future, function))
        if not self._idle.acquire(blocking=False) and self._threads < self._size:
            self._threads += 1
            threading.Thread(target=self._work, name=f"{self._name}-{self._threads}", daemon=True).start()
        return await future

    def _work(self) -> None:
        while True:
            loop, future, function = self._jobs.get()
            try:
                result, error = function(), None
            except BaseException as raised:  # noqa: BLE001 - whatever user code raises belongs to the one who waits
                result, error = None, raised
            with suppress(RuntimeError):  # the loop is gone: nobody waits any more
                loop.call_soon_threadsafe(_settle, future, result, error)
            self._idle.release()


def _settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
