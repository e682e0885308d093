"""ThreadAlarm: interrupts steps of user code in a thread that is not the main one, as on a worker of Ray.

    ThreadAlarm(threading.get_ident(), on_stuck)   # in the thread of the loop

A second thread looks once a second, and sends `Blocked` to a step that is over its time limit. Python raises it when
the step next runs Python code. A step that waits in C, such as `time.sleep(3600)`, does not get it. In the main
thread a signal would interrupt it. `on_stuck` is told of such a step.
"""

from __future__ import annotations

import ctypes
import sys
import threading
import time
from collections.abc import Callable
from types import FrameType, TracebackType
from typing import Any, TypeVar

from assay.usercode.watchdog import Blocked, StepOwner, watch_thread

T = TypeVar("T")

_EVERY_SECONDS = 1.0
_STUCK_SECONDS = 3.0
"""A step that goes on for so long after its limit has not heard `Blocked`, or has caught it."""


class ThreadAlarm:
    """Watches the steps of one thread, which lives until the process ends."""

    def __init__(self, ident: int, on_stuck: Callable[[StepOwner, Blocked], object]) -> None:
        """`on_stuck` is called once for a step, in another thread: with its owner, and with where it stands."""
        self._ident = ident
        self._on_stuck = on_stuck
        # Held while an exception is sent. So none can come after the end of a step.
        self._lock = threading.Lock()
        self._deadline = 0.0
        self._owner: StepOwner | None = None
        self._is_told = False
        watch_thread(ident, self)
        threading.Thread(target=self._watch, name="assay-alarm", daemon=True).start()

    def watched(self, seconds: float, owner: StepOwner | None, step: Callable[..., T], *values: Any) -> T:
        """Run one step with a time limit. Raises Blocked in it up to a second after the limit."""
        self._owner = owner
        self._is_told = False
        self._deadline = time.monotonic() + seconds
        try:
            try:
                return step(*values)
            finally:
                self._end()
        except Blocked:
            self._end()  # it may have come in the call above
            raise

    def _end(self) -> None:
        with self._lock:
            self._deadline = 0.0
            self._send(None)  # one that was sent and not raised yet is taken back

    def _watch(self) -> None:
        while True:
            time.sleep(_EVERY_SECONDS)
            with self._lock:
                late = time.monotonic() - self._deadline if self._deadline else 0.0
                if late <= 0.0:
                    continue
                self._send(Blocked)
                is_stuck = late > _STUCK_SECONDS and not self._is_told
                self._is_told = self._is_told or is_stuck
                owner = self._owner
                frame = sys._current_frames().get(self._ident)  # noqa: SLF001 - documented, and named so by Python
            if is_stuck and owner is not None:
                self._on_stuck(owner, Blocked().with_traceback(_traceback_to(frame)))

    def _send(self, error: type[BaseException] | None) -> None:
        """Let Python raise an exception in the thread when it next runs Python code. None takes it back."""
        what = None if error is None else ctypes.py_object(error)
        ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(self._ident), what)


def _traceback_to(frame: FrameType | None) -> TracebackType | None:
    """Return the traceback that an exception raised in this frame would have."""
    trace: TracebackType | None = None
    while frame is not None:
        trace = TracebackType(trace, frame, frame.f_lasti, frame.f_lineno)
        frame = frame.f_back
    return trace
