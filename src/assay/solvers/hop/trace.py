"""What a function did, step by step, and `observer.jsonl`, the log of all calls as they happen.

A `Tracer` keeps the steps of one call of a function: the operators it called, how they ended and how long
they took. A `HopletObserver` appends them to a file while the run goes on. Neither ever breaks a run.

    observer = HopletObserver(Path("TestCases/observer.jsonl"), "FactCheck")
    call = observer.run({"question": "2+2?"})        # writes run_start
    call.step(step)                                  # one line for a step that closed
    call.end({"answer": 4})                          # writes run_end; or call.failed("[KeyError] 'gone'")
    observer.close()
"""

from __future__ import annotations

import asyncio
import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from itertools import count
from pathlib import Path
from types import TracebackType
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.core.hop_result import FAIL, OK

_SHOWN_CHARACTERS = 500
_open_step: ContextVar[OpenStep | None] = ContextVar("assay_hop_step", default=None)
_encode = msgspec.json.Encoder().encode


class TraceStep(Struct, frozen=True):
    """One step as it ended, in JSON values only. `auto`: an operator opened it, not the function."""

    step: int
    op: str
    task: str
    status: str
    duration: float
    timestamp: float
    retry_count: int = 0
    metadata: dict[str, Any] = {}
    auto: bool = False


class Tracer:
    """The steps of one call of a function. It may be used from any thread.

    An operator opens a step of its own only where no other step is open around it: a function that opens its
    own steps gets exactly those.
    """

    def __init__(self, on_step: Callable[[TraceStep], object] | None = None) -> None:
        self._lock = threading.Lock()
        self._steps: list[TraceStep] = []
        self._opened = 0
        self._closed = False
        self._on_step = on_step  # called with each step as it closes, in whichever thread that is
        self.retries = 0
        """Retries of all operators, traced or not."""

    def trace_step(self, op: str, task: str = "", metadata: dict[str, Any] | None = None) -> StepBlock:
        """A step with the next number, for `with` or `async with`. It is kept when it closes, in any order."""
        with self._lock:
            self._opened += 1
            step = OpenStep(self, self._opened, op, task)
        step.metadata = metadata or {}
        return StepBlock(step)

    @contextmanager
    def operator(self, op: str, task: Any) -> Iterator[OpenStep]:
        """The step that the function opened around an operator, else one of the operator's own."""
        around = _open_step.get()
        if around is not None and around.tracer is self and not around.auto:
            yield around
            return
        with self.trace_step(op, task) as step:
            step.auto = True
            yield step

    @property
    def steps(self) -> list[TraceStep]:
        """The steps that have closed, by their numbers."""
        with self._lock:
            return sorted(self._steps, key=lambda step: step.step)

    def add_retries(self, retries: int) -> None:
        """Add what one operator needed."""
        with self._lock:
            self.retries += retries

    def keep(self, step: OpenStep) -> None:
        """Add a step that closed; after `close` it is dropped."""
        closed = step.closed()
        with self._lock:
            if self._closed:
                return
            self._steps.append(closed)
        if self._on_step is not None:
            self._on_step(closed)

    def close(self) -> None:
        """The call is over: steps of a thread that was abandoned are dropped from now on."""
        with self._lock:
            self._closed = True


class OpenStep:
    """What `trace_step` gives: set `status`, `retry_count` and `metadata` as you like until it closes.

    An operator inside sets its status and adds its retries. What the function sets after that stands.
    """

    def __init__(self, tracer: Tracer, number: int, op: Any, task: Any) -> None:
        self.tracer = tracer
        self.number = number
        self.op = op
        self.task = task
        self.status: Any = OK
        self.retry_count: Any = 0
        self.metadata: Any = {}
        self.auto = False
        self._operator_metadata: dict[str, Any] = {}
        self._started = time.perf_counter()

    def note(self, status: str, retries: int, metadata: dict[str, Any]) -> None:
        """Take over how an operator inside this step ended."""
        self.status = status
        self.retry_count = retries + (self.retry_count if type(self.retry_count) is int else 0)
        self._operator_metadata = metadata

    def closed(self) -> TraceStep:
        """As it is kept. Whatever values the user has set, this does not raise."""
        return TraceStep(
            self.number,
            _text(self.op),
            _text(self.task),
            _text(getattr(self.status, "value", self.status)),
            round(time.perf_counter() - self._started, 4),
            time.time(),
            self.retry_count if type(self.retry_count) is int else 0,
            {**self._operator_metadata, **_json_metadata(self.metadata)},
            self.auto,
        )


class StepBlock:
    """A step as a `with` or `async with` block. An exception in it makes it FAIL, and goes on."""

    def __init__(self, step: OpenStep) -> None:
        self._step = step
        self._token: Token[OpenStep | None] | None = None

    def __enter__(self) -> OpenStep:
        self._token = _open_step.set(self._step)
        return self._step

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None
    ) -> None:
        assert self._token is not None
        with suppress(ValueError):  # closed in another context than it was opened in
            _open_step.reset(self._token)
        if kind is not None:
            self._step.note(FAIL, 0, {"error": f"{kind.__name__}: {_text(error)}"})
        self._step.tracer.keep(self._step)

    async def __aenter__(self) -> OpenStep:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _text(value: Any) -> str:
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a user's own __str__ may raise; tracing never breaks a run
        return f"<{type(value).__name__}>"


def _json_metadata(metadata: Any) -> dict[str, Any]:
    """As JSON can hold it; a value that JSON cannot hold is shown as text."""
    if not isinstance(metadata, dict):
        return {"metadata": _text(metadata)[:_SHOWN_CHARACTERS]} if metadata else {}
    values = {}
    for key, value in metadata.items():
        try:
            values[_text(key)] = msgspec.json.decode(msgspec.json.encode(value))
        except Exception:  # noqa: BLE001 - any object may stand there, and its encoding raise anything
            values[_text(key)] = _text(value)[:_SHOWN_CHARACTERS]
    return values


# The observer's file


class HopletObserver:
    """Appends `run_start`, `step` and `run_end` records to one file.

    Any thread may write. What the event loop's own thread writes goes out before the loop goes on to anything
    that was not ready yet: a row's `run_start` is in the file before its function is called. A line that
    cannot be written is lost and counted in `lost`; `why` is the last reason. Nothing is raised.
    """

    def __init__(self, path: Path, hoplet: str) -> None:
        self.path = path
        self.hoplet = hoplet
        self.lost = 0
        self.why = ""
        self._lock = threading.Lock()
        self._fd = -1
        self._torn = False
        self._pending: list[bytes] = []
        self._run_id_stem = uuid.uuid4().hex[:24]
        self._run_numbers = count(1)

    def run(self, fields: dict[str, Any]) -> ObservedRun:
        """Begin a run: one call of the function."""
        return ObservedRun(self, fields)

    def run_id(self) -> str:
        """Another one each time; those of one observer begin alike."""
        return f"{self._run_id_stem}{next(self._run_numbers):08x}"

    def write(self, record: Struct) -> None:
        """One line, whole or not at all."""
        try:
            line = _encode(record) + b"\n"
        except Exception as error:  # noqa: BLE001 - a value that is no JSON may raise anything
            self.lost += 1
            self.why = str(error)
            return
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            self._flush([line])
            return
        with self._lock:
            self._pending.append(line)
            is_first = len(self._pending) == 1
        if is_first:
            loop.call_soon(self._flush)  # what other rows write in this turn of the loop goes out together

    def close(self) -> None:
        """Let go of the file; a second time does nothing."""
        self._flush()
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1

    def _flush(self, lines: Sequence[bytes] = ()) -> None:
        """Write the pending lines and then these."""
        with self._lock:
            pending, self._pending = self._pending, []
            block = b"".join([*pending, *lines])
            written = self._append(block) if block else 0
            self.lost += block.count(b"\n", written)

    def _append(self, block: bytes) -> int:
        """Write it, and return how much was written. A full disk takes a part of a line; the next write ends it."""
        try:
            if self._fd < 0:
                self._fd = self._open()
            with _locked(self._fd):
                if self._torn:
                    os.write(self._fd, b"\n")
                written = os.write(self._fd, block)
        except OSError as error:
            self.why = error.strerror or str(error)
            return 0
        self._torn = written < len(block)
        if self._torn:
            self.why = "the disk took only a part of it"
        return written

    def _open(self) -> int:
        """Open the file. A line that a kill cut off is ended first, so that it costs itself only."""
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o644)
        with _locked(fd):
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                os.write(fd, b"\n")
        return fd


@contextmanager
def _locked(fd: int) -> Iterator[None]:
    """No other process writes meanwhile: a line half written by another looks like one that was cut off."""
    fcntl.flock(fd, fcntl.LOCK_EX)
    try:
        yield
    finally:
        fcntl.flock(fd, fcntl.LOCK_UN)


class _RunStartLine(Struct, tag="run_start", tag_field="type"):
    run_id: str
    timestamp: float
    hoplet: str
    input: dict[str, Any]


class _StepLine(Struct, tag="step", tag_field="type", omit_defaults=True):
    run_id: str
    timestamp: float
    step: int
    op: str
    task: str
    status: str
    duration: float
    retry_count: int
    metadata: dict[str, Any] = {}


class _RunEndLine(Struct, tag="run_end", tag_field="type"):
    run_id: str
    timestamp: float
    duration: float
    status: str
    result: Any | UnsetType = UNSET
    metadata: dict[str, Any] | UnsetType = UNSET


class ObservedRun:
    """One call of the function. Its status is that of the last step, unless the function failed."""

    def __init__(self, observer: HopletObserver, fields: dict[str, Any]) -> None:
        self.run_id = observer.run_id()
        self._observer = observer
        self._started = time.perf_counter()
        self._status = OK
        observer.write(_RunStartLine(self.run_id, time.time(), observer.hoplet, fields))

    def step(self, step: TraceStep) -> None:
        """A step that ended."""
        self._status = step.status
        self._observer.write(
            _StepLine(
                self.run_id,
                time.time(),
                step.step,
                step.op,
                step.task,
                step.status,
                step.duration,
                step.retry_count,
                step.metadata,
            )
        )

    def end(self, result: Any) -> None:
        """The function returned."""
        self._observer.write(
            _RunEndLine(self.run_id, time.time(), self._duration(), self._status, result=result)
        )

    def failed(self, error: str) -> None:
        """The function raised, took too long, or returned what is no result."""
        self._observer.write(
            _RunEndLine(self.run_id, time.time(), self._duration(), FAIL, metadata={"error": error})
        )

    def _duration(self) -> float:
        return round(time.perf_counter() - self._started, 4)
