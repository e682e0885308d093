"""What user code can keep from others: the loop, and the end of the process."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_AGAIN_SECONDS = 1.0
"""Code that catches everything is told again so often."""


class Blocked(BaseException):
    """A coroutine kept the loop for itself until its time was over. No `except Exception` catches it."""


class _Alarm:
    """The timer of the process. It rings in the main thread."""

    on = False
    before: Any = None

    def ring(self, number: int, frame: FrameType | None) -> None:
        """Others who want the signal get it while no step is timed."""
        if self.on:
            raise Blocked
        if callable(self.before):
            self.before(number, frame)


_alarm = _Alarm()


def can_time() -> bool:
    """Whether steps in this thread can be timed: only the main thread hears signals, and not every system."""
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGALRM) != _alarm.ring:
        _alarm.before = signal.signal(signal.SIGALRM, _alarm.ring)
    return True


def timed(step: Callable[[], T], seconds: float) -> T:
    """What a step of user code gives in the loop's thread, where no timeout of asyncio could end it.

    After so long Blocked is raised in it: in Python code, and in calls that a signal interrupts, such as
    sleeping and reading a socket. Without seconds it has all the time.
    """
    if not seconds:
        return step()
    before = signal.setitimer(signal.ITIMER_REAL, seconds, _AGAIN_SECONDS)
    _alarm.on = True
    try:
        return step()
    finally:
        _alarm.on = False
        signal.setitimer(signal.ITIMER_REAL, *before)


class LeftThreads(ThreadPoolExecutor):
    """For `asyncio.to_thread`: daemon threads, one for each job that runs, and nobody waits for their end."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Begin at once: jobs that hang must not keep those of other rows waiting."""
        future: Future[T] = Future()
        work = partial(fn, *args, **kwargs)
        threading.Thread(target=_fill, args=(future, work), name="assay-hop-left", daemon=True).start()
        return future

    def shutdown(self, wait: bool = True, *, cancel_futures: bool = False) -> None:
        """There is nothing to wait for."""


def _fill(future: Future[T], work: Callable[[], T]) -> None:
    if not future.set_running_or_notify_cancel():
        return
    try:
        future.set_result(work())
    except BaseException as error:  # noqa: BLE001 - it belongs to the one who waits
        future.set_exception(error)
