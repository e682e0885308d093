"""`observer.jsonl`: what runs, as it runs. Observing never breaks a run."""

from __future__ import annotations

import os
import threading
import time
import uuid
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from assay.solvers.hop.tracing import Step

_encode = msgspec.json.Encoder().encode


class HopletObserver:
    """Appends `run_start`, `step` and `run_end` records to one file; every line is one write.

    Any thread may write. A line that cannot be written is lost and counted in `lost`, and `why` says what was
    the last reason; nothing is raised.
    """

    def __init__(self, path: Path, hoplet: str) -> None:
        self.path = path
        self.lost = 0
        self.why = ""
        self._hoplet = hoplet
        self._lock = threading.Lock()
        self._fd = -1
        self._torn = False
        self._stem = uuid.uuid4().hex[:24]
        self._runs = count(1)

    def run_id(self) -> str:
        """Another one each time; those of one observer begin alike."""
        return f"{self._stem}{next(self._runs):08x}"

    def run(self, fields: dict[str, Any]) -> RunTrace:
        """Begin a run; the trace writes the rest of it."""
        return RunTrace(self, self._hoplet, fields)

    def write(self, record: dict[str, Any]) -> None:
        """One line, whole or not at all."""
        with self._lock:
            try:
                self._append(_encode(record) + b"\n")
            except Exception as error:  # noqa: BLE001 - a full disk, a folder that is gone, no JSON
                self.lost += 1
                self.why = getattr(error, "strerror", None) or str(error)

    def _append(self, line: bytes) -> None:
        """A disk that gets full takes a part of a line; the next one ends it first."""
        if self._fd < 0:
            self._fd = self._opened()
        if self._torn:
            os.write(self._fd, b"\n")
        self._torn = os.write(self._fd, line) < len(line)
        if self._torn:
            self.lost += 1
            self.why = "the disk took only a part of it"

    def _opened(self) -> int:
        """A line that a kill cut off is ended first, so that it costs itself only."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        size = os.fstat(fd).st_size
        if size and os.pread(fd, 1, size - 1) != b"\n":
            os.write(fd, b"\n")
        return fd

    def close(self) -> None:
        """Let go of the file; a second time does nothing."""
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1


class RunTrace:
    """One run of the function: its status is that of the last step, unless it raised."""

    def __init__(self, observer: HopletObserver, hoplet: str, fields: dict[str, Any]) -> None:
        self.run_id = observer.run_id()
        self._observer = observer
        self._started = time.perf_counter()
        self._last = "OK"
        self._write("run_start", {"hoplet": hoplet, "input": fields})

    def step(self, step: Step) -> None:
        """A step that ended; the optional parts of its record only where they say something."""
        self._last = step.status
        told: dict[str, Any] = {"step": step.step, "op": step.op, "task": step.task}
        told |= {"status": step.status, "duration": step.duration, "retry_count": step.retry_count}
        self._write("step", told | ({"metadata": step.metadata} if step.metadata else {}))

    def end(self, result: Any) -> None:
        """It returned."""
        self._write("run_end", {"duration": self._duration(), "status": self._last, "result": result})

    def failed(self, error: str) -> None:
        """It raised, hung, or returned what is no result."""
        said = {"duration": self._duration(), "status": "FAIL", "metadata": {"error": error}}
        self._write("run_end", said)

    def _duration(self) -> float:
        return round(time.perf_counter() - self._started, 4)

    def _write(self, kind: str, values: dict[str, Any]) -> None:
        self._observer.write({"type": kind, "run_id": self.run_id, "timestamp": time.time(), **values})
