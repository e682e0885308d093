"""Ctrl-C and SIGTERM: how a run is asked to stop, also while code of a case blocks its event loop."""

from __future__ import annotations

import asyncio
import signal
import threading
from contextlib import suppress
from types import FrameType
from typing import Protocol

from assay.runner.signal_wakeup import SignalWakeup

# After Ctrl-C, requests in flight have this long to finish: they are paid for.
GRACE_SECONDS = 10.0
# After this time a signal counts as not heard by the event loop, because code of a case blocks it.
UNHEARD_SECONDS = 3.0
# The same for the second signal and later ones: whoever sends them does not want to wait.
UNHEARD_AGAIN_SECONDS = 0.5


class Stoppable(Protocol):
    """A part of a run that can be stopped: the start of the workers, the loop over cases, the end of the workers."""

    def stop(self, reason: BaseException) -> None:
        """Begin nothing new, and end with what is open."""
        ...

    def cancel(self) -> None:
        """Wait for nothing."""
        ...


class StopRequest:
    """Stops the present part of a run: the first request waits for model calls in flight, the second stops at once.

    As a context manager it turns Ctrl-C and SIGTERM into requests. If code of a case blocks the event loop, so that a
    request is not heard, that code is interrupted after some seconds.
    """

    def __init__(self) -> None:
        self._part: Stoppable | None = None
        self._count = 0
        self._signals = 0
        self._is_unheard = False
        self._insists = False
        self._events: asyncio.AbstractEventLoop | None = None
        self._timers: list[threading.Timer] = []
        self._is_over = False
        self._lock = threading.Lock()
        self._wakeup = SignalWakeup()

    # add_signal_handler raises these outside the main thread and on platforms without signals. We then run
    # without signal handling.
    _UNAVAILABLE = (NotImplementedError, RuntimeError, ValueError)

    def __enter__(self) -> None:
        self._events = asyncio.get_running_loop()
        with suppress(*self._UNAVAILABLE):
            for number in (signal.SIGINT, signal.SIGTERM):
                # A signal wakes the event loop by a file descriptor, which this sets. Python calls the handler below
                # also while the loop waits for code of a case.
                self._events.add_signal_handler(number, lambda: None)
                signal.signal(number, self._on_signal)
        self._wakeup.__enter__()  # after the handlers, which set another file descriptor

    def _on_signal(self, number: int, frame: FrameType | None) -> None:
        if self._insists:
            self._insists = False
            if not self._is_unheard:
                return  # the loop heard the first signal meanwhile
            signal.default_int_handler(number, frame)  # raises KeyboardInterrupt in the code that blocks
        assert self._events is not None
        self._signals += 1
        self._is_unheard = True
        self._events.call_soon_threadsafe(self._hear)
        self._insist_after(UNHEARD_SECONDS if self._signals == 1 else UNHEARD_AGAIN_SECONDS, number)

    def _hear(self) -> None:
        self._is_unheard = False
        if not self._is_over:
            self.interrupt()

    def _insist_after(self, seconds: float, number: int) -> None:
        timer = threading.Timer(seconds, self._insist, (number,))
        timer.daemon = True
        self._timers.append(timer)
        timer.start()

    def _insist(self, number: int) -> None:
        """Repeat a signal that the event loop has not heard, so that it interrupts the code that runs instead."""
        main = threading.main_thread().ident
        with self._lock:
            if self._is_over or not self._is_unheard or main is None:
                return
            self._insists = True
            signal.pthread_kill(main, number)
        # The code may catch the interrupt and go on.
        self._insist_after(UNHEARD_AGAIN_SECONDS, number)

    def __exit__(self, *_: object) -> None:
        # A signal after this would hit the code that comes after the run.
        with self._lock:
            self._is_over = True
        self._is_unheard = False
        for timer in self._timers:
            timer.cancel()
        self._wakeup.__exit__()
        with suppress(*self._UNAVAILABLE):
            for number in (signal.SIGINT, signal.SIGTERM):
                asyncio.get_running_loop().remove_signal_handler(number)

    def begin(self, part: Stoppable) -> None:
        """This part of the run begins. Requests that came before it stop it, too."""
        self._part = part
        if self._count:
            self._stop(part)

    def interrupt(self) -> None:
        """Take no further case, and wait for running calls; a second time, wait for nothing."""
        self._count += 1
        if self._part is not None:
            self._stop(self._part)

    def _stop(self, part: Stoppable) -> None:
        if self._count == 1:
            part.stop(KeyboardInterrupt("interrupted"))
            asyncio.get_running_loop().call_later(GRACE_SECONDS, part.cancel)
        else:
            part.cancel()
