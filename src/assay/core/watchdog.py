"""Ends a step of user code that blocks the event loop.

A coroutine that calls `time.sleep(3600)` stops every other case, and no timeout of asyncio can end it. The
timer of the process rings once a second, in the main thread; if the step that runs has used up its time,
`Blocked` is raised in it.
"""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")

_EVERY_SECONDS = 1.0
"""How often the running step is looked at. Code that catches `Blocked` gets it again as often."""


class Blocked(BaseException):
    """A coroutine held the loop until its time was over. No `except Exception` catches it."""


class _Alarm:
    """The timer of the process and the deadline it looks at."""

    def __init__(self) -> None:
        self.deadline = 0.0
        """When the time of the running step is over; 0 between steps."""

    def ring(self, _number: int, _frame: FrameType | None) -> None:
        """End the running step if its time is over. Between steps the timer is switched off."""
        if not self.deadline:
            signal.setitimer(signal.ITIMER_REAL, 0)
        elif time.monotonic() > self.deadline:
            raise Blocked


_alarm = _Alarm()


def can_watch() -> bool:
    """Whether steps in this thread can be ended: only the main thread gets signals, and not on every system.

    A handler that somebody else has set for SIGALRM stays; then nothing is watched.
    """
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
        signal.signal(signal.SIGALRM, _alarm.ring)
        # Python resets the handler before it exits. A timer that rings after that would kill the process.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    return signal.getsignal(signal.SIGALRM) == _alarm.ring


def watched(seconds: float, step: Callable[..., T], *values: Any) -> T:
    """Run one step of user code in the loop's thread; 0 seconds mean any time.

    Up to a second after its time `Blocked` is raised in it: in Python code, and in calls that a signal
    interrupts, such as sleeping and reading from a socket.
    """
    if not seconds:
        return step(*values)
    _alarm.deadline = time.monotonic() + seconds
    if not signal.getitimer(signal.ITIMER_REAL)[0]:  # a timer that somebody else has set stays
        signal.setitimer(signal.ITIMER_REAL, _EVERY_SECONDS, _EVERY_SECONDS)
    try:
        return step(*values)
    finally:
        _alarm.deadline = 0.0
