"""What user code can keep from others: the loop, and the end of the process."""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from functools import partial
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")
_EVERY_SECONDS = 1.0
"""How often the step that runs is looked at. Code that catches everything is told again so often."""


class Blocked(BaseException):
    """A coroutine kept the loop for itself until its time was over. No `except Exception` catches it."""


class _Alarm:
    """The timer of the process, which rings in the main thread, and what it looks at."""

    def __init__(self) -> None:
        self.until = 0.0
        """When the time of the running step is over; 0 between steps."""

    def look(self, _number: int, _frame: FrameType | None) -> None:
        """End the step that runs, if its time is over. Between steps the timer is let go."""
        if not self.until:
            signal.setitimer(signal.ITIMER_REAL, 0)
        elif time.monotonic() > self.until:
            raise Blocked


_alarm = _Alarm()


def can_time() -> bool:
    """Whether steps in this thread can be timed: only the main thread hears signals, and not every system.

    Where somebody else has a handler for the timer's signal it stays.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
        signal.signal(signal.SIGALRM, _alarm.look)
        # Python gives the signal back before it ends: from then on a timer that rings would kill the process.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    return signal.getsignal(signal.SIGALRM) == _alarm.look


def timed(seconds: float, step: Callable[..., T], *values: Any) -> T:
    """What a step of user code gives in the loop's thread, where no timeout of asyncio could end it.

    Some time after so long Blocked is raised in it: in Python code, and in calls that a signal interrupts,
    such as sleeping and reading a socket. Without seconds it has all the time.
    """
    if not seconds:
        return step(*values)
    _alarm.until = time.monotonic() + seconds
    if not signal.getitimer(signal.ITIMER_REAL)[0]:  # where others use the timer they keep it
        signal.setitimer(signal.ITIMER_REAL, _EVERY_SECONDS, _EVERY_SECONDS)
    try:
        return step(*values)
    finally:
        _alarm.until = 0.0


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
