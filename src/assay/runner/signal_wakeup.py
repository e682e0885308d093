"""Lets Ctrl-C and SIGTERM interrupt whatever the main thread waits for.

    with SignalWakeup():    # in the main thread, beside handlers of SIGINT and SIGTERM
        ...

Python calls signal handlers between two instructions of the main thread. A signal that comes after the last instruction
before a system call, such as that of `time.sleep(1000)`, does not interrupt the call, and its handler is not called
before the call returns. The same is true of a signal that the system gives to another thread. But in both cases the
number of the signal is written to a file descriptor at once (`signal.set_wakeup_fd`). A thread waits for it, and sends
the main thread a signal whose handler does nothing. That one interrupts the system call, and Python then calls the
handlers of all signals that came before.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import threading
import time
from contextlib import suppress

# The system sends it for urgent data at a socket, to programs that ask for it. By default it does nothing.
_HARMLESS = signal.SIGURG
# Seconds after a signal. The first wake-up may come just before the system call, as the signal did.
_WAKE_AT = (0.0, 0.01, 0.1, 1.0)
_END = 0  # no signal has this number


class SignalWakeup:
    """Wakes the main thread after each Ctrl-C and SIGTERM. Elsewhere than in the main thread it does nothing.

    A copy of this process that user code makes writes to the same file descriptor. The main thread is then woken for
    nothing, which does no harm. Without uvloop, code of a case that calls `loop.add_signal_handler` switches this off.
    """

    def __init__(self) -> None:
        self._thread: threading.Thread | None = None
        self._reader: socket.socket
        self._writer: socket.socket
        self._writer_before = -1

    def __enter__(self) -> None:
        main = threading.main_thread()
        if threading.current_thread() is not main or signal.getsignal(_HARMLESS) != signal.SIG_DFL:
            return
        self._reader, self._writer = socket.socketpair()
        self._writer.settimeout(0)  # a signal must not wait
        # The event loop may have a file descriptor of its own here. The thread passes every number on to it.
        self._writer_before = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        signal.signal(_HARMLESS, lambda *_: None)
        self._thread = threading.Thread(target=self._listen, args=(main.ident,), name="assay-signals", daemon=True)
        self._thread.start()

    def _listen(self, main: int) -> None:
        reader = select.poll()
        reader.register(self._reader, select.POLLIN)
        wake_at: list[float] = []
        while True:
            milliseconds = max(0.0, wake_at[0] - time.monotonic()) * 1000 if wake_at else None
            if not reader.poll(milliseconds):
                del wake_at[0]
                signal.pthread_kill(main, _HARMLESS)
                continue
            numbers = self._reader.recv(64)
            if _END in numbers:
                break
            if self._writer_before >= 0:
                with suppress(OSError):  # it is full, so that the loop wakes up anyway, or closed
                    os.write(self._writer_before, numbers)
            if signal.SIGINT in numbers or signal.SIGTERM in numbers:
                wake_at = [time.monotonic() + delay for delay in _WAKE_AT]

    def __exit__(self, *_: object) -> None:
        if self._thread is None:
            return
        signal.set_wakeup_fd(self._writer_before, warn_on_full_buffer=False)
        self._writer.settimeout(None)
        self._writer.send(bytes([_END]))
        # The loop closes its descriptor next. The thread must not write to a file that gets the same number.
        self._thread.join()
        signal.signal(_HARMLESS, signal.SIG_DFL)
        self._reader.close()
        self._writer.close()
        self._thread = None
