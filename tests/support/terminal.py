"""A real terminal: starts `assay` in a pseudo-terminal of a given width, types keys and reads the screen."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
from pathlib import Path
from types import TracebackType
from typing import Self

# Long enough for a busy machine. A test never waits for it, unless it fails.
_PATIENCE = 60.0
_STYLES = re.compile(r"\x1b\[[0-9;]*m")


def is_readable(descriptor: int, seconds: float) -> bool:
    """Wait until there is something to read. Unlike `select.select` it takes any number of open files."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(seconds * 1000))


class Terminal:
    """`assay` as a process in a terminal. `text` is everything that it has printed, without colours."""

    def __init__(self, *words: str, cwd: Path, columns: int = 80) -> None:
        self._master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 50, columns, 0, 0))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "assay", *words], cwd=cwd, stdin=slave, stdout=slave, stderr=slave
        )
        os.close(slave)
        self.raw = ""
        self._seen = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._master)

    @property
    def text(self) -> str:
        """Everything that was printed so far."""
        return _STYLES.sub("", self.raw).replace("\r\n", "\n")

    def wait_for(self, text: str) -> str:
        """Read until this text is printed after the text of the last call. Returns everything between, and the text."""
        start = self._seen
        while (place := self.text.find(text, start)) < 0:
            assert self._read(), f"the process ended without {text!r}:\n{self.text}"
        self._seen = place + len(text)
        return self.text[start : self._seen]

    def type(self, keys: str, then: str) -> str:
        """Type keys and wait for a text. Returns what was printed."""
        os.write(self._master, keys.encode())
        return self.wait_for(then)

    def interrupt(self) -> int:
        """Send the signal that a terminal sends for Ctrl-C. Returns the exit code."""
        self._process.send_signal(signal.SIGINT)
        return self.end()

    def end(self, keys: str = "") -> int:
        """Type keys, read to the end of the process and return its exit code."""
        os.write(self._master, keys.encode())
        while self._read():
            pass
        return self._process.wait(_PATIENCE)

    def _read(self) -> bool:
        assert is_readable(self._master, _PATIENCE), f"nothing was printed for a minute:\n{self.text}"
        try:
            data = os.read(self._master, 1 << 16)
        except OSError:  # Linux says EIO when the other side is closed
            return False
        self.raw += data.decode(errors="replace")
        return bool(data)
