"""`observer.jsonl`: what runs, as it runs. Observing never breaks a run."""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.solvers.hop.tracing import Step

_encode = msgspec.json.Encoder().encode


@contextmanager
def _alone(fd: int) -> Iterator[None]:
    """Nobody else writes meanwhile: a line half written by another looks like one that was cut off."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


class HopletObserver:
    """Appends `run_start`, `step` and `run_end` records to one file.

    Any thread may write. What the event loop's own thread writes goes out before the loop goes on to anything
    that was not ready yet: a row's `run_start` is in the file before its function is called. A line that
    cannot be written is lost and counted in `lost`; `why` says the last reason. Nothing is raised.
    """

    def __init__(self, path: Path, hoplet: str) -> None:
        self.path = path
        self.lost = 0
        self.why = ""
        self._hoplet = hoplet
        self._lock = threading.Lock()
        self._fd = -1
        self._torn = False
        self._waiting: list[bytes] = []
        self._stem = uuid.uuid4().hex[:24]
        self._runs = count(1)

    def run_id(self) -> str:
        """Another one each time; those of one observer begin alike."""
        return f"{self._stem}{next(self._runs):08x}"

    def run(self, fields: dict[str, Any]) -> RunTrace:
        """Begin a run; the trace writes the rest of it."""
        return RunTrace(self, self._hoplet, fields)

    def write(self, record: Struct) -> None:
        """One line, whole or not at all."""
        try:
            line = _encode(record) + b"\n"
        except Exception as error:  # noqa: BLE001 - a value that is no JSON; it may raise anything
            self.lost += 1
            self.why = str(error)
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._write([line])
            return
        with self._lock:
            self._waiting.append(line)
            first = len(self._waiting) == 1
        if first:
            loop.call_soon(self._write)

    def _write(self, lines: Sequence[bytes] = ()) -> None:
        """These lines, after those that wait."""
        with self._lock:
            waiting, self._waiting = self._waiting, []
            block = b"".join([*waiting, *lines])
            done = self._append(block) if block else 0
            self.lost += block.count(b"\n", done)

    def _append(self, block: bytes) -> int:
        """How much of it was written. A disk that gets full takes a part of a line; the next one ends it."""
        try:
            if self._fd < 0:
                self._fd = self._opened()
            with _alone(self._fd):
                if self._torn:
                    os.write(self._fd, b"\n")
                done = os.write(self._fd, block)
        except OSError as error:
            self.why = error.strerror or str(error)
            return 0
        self._torn = done < len(block)
        if self._torn:
            self.why = "the disk took only a part of it"
        return done

    def _opened(self) -> int:
        """A line that a kill cut off is ended first, so that it costs itself only."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with _alone(fd):
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                os.write(fd, b"\n")
        return fd

    def close(self) -> None:
        """Let go of the file; a second time does nothing."""
        self._write()
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


class _RunStart(Struct, tag="run_start", tag_field="type"):
    run_id: str
    timestamp: float
    hoplet: str
    input: dict[str, Any]


class _Step(Struct, tag="step", tag_field="type", omit_defaults=True):
    run_id: str
    timestamp: float
    step: int
    op: str
    task: str
    status: str
    duration: float
    retry_count: int
    metadata: dict[str, Any] = {}


class _RunEnd(Struct, tag="run_end", tag_field="type"):
    run_id: str
    timestamp: float
    duration: float
    status: str
    result: Any | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class RunTrace:
    """One run of the function: its status is that of the last step, unless it raised."""

    def __init__(self, observer: HopletObserver, hoplet: str, fields: dict[str, Any]) -> None:
        self.run_id = observer.run_id()
        self._observer = observer
        self._started = time.perf_counter()
        self._last = "OK"
        observer.write(_RunStart(self.run_id, time.time(), hoplet, fields))

    def step(self, step: Step) -> None:
        """A step that ended; its metadata only where there are any."""
        self._last = step.status
        said = (step.step, step.op, step.task, step.status, step.duration, step.retry_count, step.metadata)
        self._observer.write(_Step(self.run_id, time.time(), *said))

    def end(self, result: Any) -> None:
        """It returned."""
        self._end(self._last, result=result)

    def failed(self, error: str) -> None:
        """It raised, hung, or returned what is no result."""
        self._end("FAIL", metadata={"error": error})

    def _end(self, status: str, **said: Any) -> None:
        duration = round(time.perf_counter() - self._started, 4)
        self._observer.write(_RunEnd(self.run_id, time.time(), duration, status, **said))
