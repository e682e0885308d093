"""Interrupts user code that blocks the event loop.

A coroutine that calls `time.sleep(3600)` stops every other case, and no timeout of asyncio can end it. A step is the
part of a coroutine between two awaits. A timer sends SIGALRM once a second to the main thread. If the current step
is over its time limit, the signal handler raises `Blocked` inside it.

Only the main thread runs signal handlers. A loop in another thread has a ThreadAlarm instead (thread_alarm.py).
"""

from __future__ import annotations

import atexit
import signal
import threading
import time
from collections.abc import Callable
from types import FrameType
from typing import Any, NamedTuple, Protocol, TypeVar

T = TypeVar("T")

_EVERY_SECONDS = 1.0
"""Interval of the check. Code that catches `Blocked` gets it again after this time."""


class Blocked(BaseException):
    """A coroutine blocked the loop beyond its time limit. A BaseException, so that `except Exception` misses it."""


class _Alarm:
    """The signal handler and the deadline that it checks."""

    def __init__(self) -> None:
        self.deadline = 0.0
        """Deadline of the current step; 0 between steps."""

    def ring(self, _number: int, _frame: FrameType | None) -> None:
        """Raise Blocked if the current step is over its deadline. Between steps, switch the timer off."""
        if not self.deadline:
            signal.setitimer(signal.ITIMER_REAL, 0)
        elif time.monotonic() > self.deadline:
            raise Blocked


class StepOwner(NamedTuple):
    """The call of user code that a step belongs to, and the placement of its case on a worker of Ray."""

    placement: int
    call: str


class StepWatch(Protocol):
    """Watches the steps of a thread that is not the main one."""

    def watched(self, seconds: float, owner: StepOwner | None, step: Callable[..., T], *values: Any) -> T:
        """Run one step with a time limit."""
        ...


_alarm = _Alarm()
_thread_alarms: dict[int, StepWatch] = {}


def watch_thread(ident: int, alarm: StepWatch) -> None:
    """Let an alarm watch the steps of this thread, which lives until the process ends."""
    _thread_alarms[ident] = alarm


def can_watch() -> bool:
    """Return whether steps in this thread can be interrupted.

    This needs the main thread, a system with timers, and a SIGALRM that no other code uses; or an alarm of the thread.
    """
    if threading.get_ident() in _thread_alarms:
        return True
    if not hasattr(signal, "setitimer") or threading.current_thread() is not threading.main_thread():
        return False
    if signal.getsignal(signal.SIGALRM) == signal.SIG_DFL:
        signal.signal(signal.SIGALRM, _alarm.ring)
        # Python resets the handler before it exits. A signal after that would kill the process.
        atexit.register(signal.setitimer, signal.ITIMER_REAL, 0)
    return signal.getsignal(signal.SIGALRM) == _alarm.ring


def end_step() -> None:
    """Raise `Blocked` in the current step, if there is one. To be called in a signal handler of the main thread."""
    if _alarm.deadline:
        raise Blocked


def watched(seconds: float, step: Callable[..., T], *values: Any, owner: StepOwner | None = None) -> T:
    """Run one step of user code with a time limit. 0 seconds mean no limit.

    `Blocked` is raised in the step up to a second after the limit: in Python code, and in system calls that a signal
    interrupts, such as sleeping or reading from a socket. C code that does neither cannot be interrupted.
    """
    if not seconds:
        return step(*values)
    if _thread_alarms and (alarm := _thread_alarms.get(threading.get_ident())) is not None:
        return alarm.watched(seconds, owner, step, *values)
    _alarm.deadline = time.monotonic() + seconds
    if not signal.getitimer(signal.ITIMER_REAL)[0]:  # do not replace a timer that other code has set
        signal.setitimer(signal.ITIMER_REAL, _EVERY_SECONDS, _EVERY_SECONDS)
    try:
        return step(*values)
    finally:
        _alarm.deadline = 0.0
