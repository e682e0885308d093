"""The trace of a function's steps, and `observer.jsonl`, the live log of all calls of the function.

A `Tracer` collects the steps of one call: which operators the function used, with their status and duration.
A `HopletObserver` appends them to a file during the run. Errors in either never stop a run.

    observer = HopletObserver(Path("TestCases/observer.jsonl"), "FactCheck")
    call = observer.run({"question": "2+2?"})        # writes run_start
    call.step(step)                                  # one line for a step that closed
    call.end({"answer": 4}, "OK")                    # writes run_end; or call.failed("[KeyError] 'gone'")
    observer.close()

HOP's own form of the same:

    with HopletObserver("observer.jsonl").trace_run("run 1", "FactCheck", {"question": "2+2?"}) as tracer:
        tracer.trace_step(1, "hop_get", "Add the numbers", "OK", 3.45)
        tracer.set_result({"answer": 4})
"""

from __future__ import annotations

import asyncio
import errno
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

from assay.files.excerpt import cut_end
from assay.files.redact import Redactor, secrets_from_environment
from assay.files.write import FILE_MODE
from assay.suites.hop.result import FAIL, OK

_MAX_TEXT = 500  # characters of a metadata value that JSON cannot represent
_open_step: ContextVar[OpenStep | None] = ContextVar("assay_hop_step", default=None)
_encode = msgspec.json.Encoder().encode


class TraceStep(Struct, frozen=True):
    """A closed step, in JSON values. `auto` is true if an operator opened it, false if the function did."""

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
    """Collects the steps of one call of a function. Safe to use from any thread.

    An operator opens a step unless it runs inside a step of the function. A function that traces its own
    steps therefore gets exactly those.
    """

    def __init__(self, on_step: Callable[[TraceStep], object] | None = None) -> None:
        self._lock = threading.Lock()
        self._steps: list[TraceStep] = []
        self._opened = 0
        self._closed = False
        self._on_step = on_step  # called with each closed step, in the thread that closed it
        self.retries = 0
        """Number of retries of all operators."""

    def trace_step(self, op: str, task: str = "", metadata: dict[str, Any] | None = None) -> StepBlock:
        """Return a step with the next number, for `with` or `async with`. Steps may close in any order."""
        with self._lock:
            self._opened += 1
            step = OpenStep(self, self._opened, op, task)
        step.metadata = metadata or {}
        return StepBlock(step)

    @contextmanager
    def operator(self, op: str, task: Any) -> Iterator[OpenStep]:
        """Yield the step of the function that encloses this operator, or a new step."""
        enclosing = _open_step.get()
        if enclosing is not None and enclosing.tracer is self and not enclosing.auto:
            yield enclosing
            return
        with self.trace_step(op, task) as step:
            step.auto = True
            yield step

    @property
    def steps(self) -> list[TraceStep]:
        """The closed steps, sorted by number."""
        with self._lock:
            return sorted(self._steps, key=lambda step: step.step)

    def add_retries(self, retries: int) -> None:
        """Add the retries of one operator."""
        with self._lock:
            self.retries += retries

    def add_step(self, step: OpenStep) -> None:
        """Add a step that has ended. Dropped if the tracer is closed."""
        trace_step = step.to_trace_step()
        with self._lock:
            if self._closed:
                return
            self._steps.append(trace_step)
        if self._on_step is not None:
            self._on_step(trace_step)

    def close(self) -> None:
        """Drop all later steps. They come from a thread whose function timed out."""
        with self._lock:
            self._closed = True


class OpenStep:
    """An open step. The function may set `status`, `retry_count` and `metadata` until the step closes.

    An operator inside the step sets the status and adds its retries. Later changes by the function win.
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

    def set_outcome(self, status: str, retries: int, metadata: dict[str, Any]) -> None:
        """Record the outcome of an operator inside this step."""
        self.status = status
        self.retry_count = retries + (self.retry_count if type(self.retry_count) is int else 0)
        self._operator_metadata = metadata

    def to_trace_step(self) -> TraceStep:
        """Return the closed step. Never raises, whatever values the function has set."""
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
    """A step as a `with` or `async with` block. An exception sets the status to FAIL and propagates."""

    def __init__(self, step: OpenStep) -> None:
        self._step = step
        self._token: Token[OpenStep | None] | None = None

    def __enter__(self) -> OpenStep:
        self._token = _open_step.set(self._step)
        return self._step

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        assert self._token is not None
        with suppress(ValueError):  # the block was entered in another context, for example another task
            _open_step.reset(self._token)
        if kind is not None:
            self._step.set_outcome(FAIL, 0, {"error": f"{kind.__name__}: {_text(error)}"})
        self._step.tracer.add_step(self._step)

    async def __aenter__(self) -> OpenStep:
        return self.__enter__()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.__exit__(kind, error, trace)


def _text(value: Any) -> str:
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - __str__ of a user's class may raise; tracing never stops a run
        return f"<{type(value).__name__}>"


def _json_metadata(metadata: Any) -> dict[str, Any]:
    """Return the metadata as JSON values. A value that JSON cannot represent becomes text."""
    if not isinstance(metadata, dict):
        return {"metadata": cut_end(_text(metadata), _MAX_TEXT)} if metadata else {}
    values = {}
    for key, value in metadata.items():
        try:
            values[_text(key)] = msgspec.json.decode(msgspec.json.encode(value))
        except Exception:  # noqa: BLE001 - an object of user code may raise anything while it is encoded
            values[_text(key)] = cut_end(_text(value), _MAX_TEXT)
    return values


# The observer's file


class HopletObserver:
    """Appends `run_start`, `step` and `run_end` records to a file. Any thread may write.

    Lines from the event loop's thread are collected and written at the end of the current turn of the loop,
    so the `run_start` of a row is in the file before its function runs. A line that cannot be written is
    dropped and counted in `lost`; `last_error` has the reason. Nothing is raised.
    """

    def __init__(self, log_path: Path | str, hoplet: str = "", redact: Redactor | None = None) -> None:
        """`redact` replaces secrets in every line; without it, those of the environment are replaced."""
        self.path = Path(log_path)
        self.log_path = str(log_path)
        self.hoplet = hoplet
        self.lost = 0
        self.last_error = ""
        redact = Redactor(secrets_from_environment()) if redact is None else redact
        # A Redactor without secrets is falsy. None saves the call for every line.
        self._redact = redact or None
        self._lock = threading.Lock()
        self._fd = -1
        self._line_incomplete = False
        self._pending: list[bytes] = []
        self._run_id_stem = uuid.uuid4().hex[:24]
        self._run_numbers = count(1)

    def run(self, fields: dict[str, Any], profile: str = "", times: ObservedTimes | None = None) -> ObservedRun:
        """Write `run_start` for one call of the function. `run_end` has the profile, so that times can be grouped.

        `times` are those of a call that has ended already, on another machine.
        """
        return ObservedRun(self, fields, profile, times)

    @contextmanager
    def trace_run(self, run_id: str, hoplet: str, input_data: dict[str, Any]) -> Iterator[RunTracer]:
        """Write `run_start`, and `run_end` when the block ends. Its status is that of the last traced step, else OK.

        An exception in the block is logged as FAIL and raised again. This is the form of HOP's documents.
        """
        run = ObservedRun(self, input_data, run_id=run_id, hoplet=hoplet)
        tracer = RunTracer(run)
        try:
            yield tracer
        except Exception as error:
            run.failed(str(error))
            raise
        run.end(tracer.last_result)

    def run_id(self) -> str:
        """Return a new id of 32 hex digits. A counter is cheaper than a random id for each row."""
        return f"{self._run_id_stem}{next(self._run_numbers):08x}"

    def write(self, record: Struct) -> None:
        """Write one line. A record that cannot be encoded is dropped and counted."""
        try:
            line = _encode(record)
            if self._redact is not None:
                line = self._redact(line)
        except Exception as error:  # noqa: BLE001 - an object of user code may raise anything while it is encoded
            self.lost += 1
            self.last_error = str(error)
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
            # One write for all rows that add lines in this turn of the loop.
            loop.call_soon(self._flush)

    def close(self) -> None:
        """Write pending lines and close the file. May be called repeatedly."""
        self._flush()
        with self._lock:
            if self._fd >= 0:
                os.close(self._fd)
            self._fd = -1

    def _flush(self, lines: Sequence[bytes] = ()) -> None:
        """Write the pending lines, then `lines`."""
        with self._lock:
            lines = [*self._pending, *lines]
            if not lines:
                return
            self._pending = []
            block = b"\n".join([*lines, b""])
            self.lost += block.count(b"\n", self._append(block))

    def _append(self, block: bytes) -> int:
        """Write the block and return the number of bytes written.

        A full disk may accept only part of a line. The next write then starts with a line break, so that
        only the incomplete line is damaged.
        """
        try:
            if self._fd < 0:
                self._fd = self._open()
            with _locked(self._fd):
                if self._line_incomplete:
                    os.write(self._fd, b"\n")
                written = os.write(self._fd, block)
        except OSError as error:
            self.last_error = error.strerror or str(error)
            if error.errno == errno.ELOOP:
                self.last_error = "it is a symbolic link, which assay does not follow. Remove the link"
            return 0
        self._line_incomplete = written < len(block)
        if self._line_incomplete:
            self.last_error = "only part of it could be written; the disk may be full"
        return written

    def _open(self) -> int:
        """Open the file. If a killed run left an incomplete line, end that line, so that only it is damaged.

        A link is not followed: in a folder that several people write, it could name any file of this user.
        """
        self.path.parent.mkdir(parents=True, exist_ok=True)
        fd = os.open(self.path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, FILE_MODE)
        with _locked(fd):
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                os.write(fd, b"\n")
        return fd


@contextmanager
def _locked(fd: int) -> Iterator[None]:
    """Lock the file against other processes.

    Without the lock, `_open` could mistake a line that another process is writing for an incomplete one.
    """
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


class ObservedTimes(Struct, frozen=True):
    """When a call of the function started, in seconds since the epoch, and how long it took."""

    started: float
    seconds: float


class ObservedRun:
    """The log of one call of the function."""

    __slots__ = ("_observer", "_profile", "_started", "_status", "_times", "run_id")

    def __init__(
        self,
        observer: HopletObserver,
        fields: dict[str, Any],
        profile: str = "",
        times: ObservedTimes | None = None,
        *,
        run_id: str = "",
        hoplet: str = "",
    ) -> None:
        self.run_id = run_id or observer.run_id()
        self._observer = observer
        self._profile = profile
        self._started = time.perf_counter()
        self._status = OK
        self._times = times
        now = times.started if times else time.time()
        observer.write(_RunStartLine(self.run_id, now, hoplet or observer.hoplet, fields))

    def step(self, step: TraceStep) -> None:
        """Write a `step` line for a closed step."""
        self._status = step.status
        self._observer.write(
            _StepLine(
                self.run_id,
                step.timestamp if self._times else time.time(),
                step.step,
                step.op,
                step.task,
                step.status,
                step.duration,
                step.retry_count,
                step.metadata,
            )
        )

    def end(self, result: Any, status: str = "") -> None:
        """Write `run_end` with the result of the function and its status; without one, that of the last step."""
        metadata = {"profile": self._profile} if self._profile else UNSET
        self._observer.write(
            _RunEndLine(self.run_id, time.time(), self._duration(), status or self._status, result, metadata=metadata)
        )

    def failed(self, error: str) -> None:
        """Write `run_end` for a function that raised, timed out, or returned an invalid result."""
        metadata = {"error": error, "profile": self._profile} if self._profile else {"error": error}
        self._observer.write(_RunEndLine(self.run_id, time.time(), self._duration(), FAIL, metadata=metadata))

    def _duration(self) -> float:
        return round(self._times.seconds if self._times else time.perf_counter() - self._started, 4)


class RunTracer:
    """What `HopletObserver.trace_run` gives: the steps and the result of one call, in the form of HOP's documents."""

    def __init__(self, run: ObservedRun) -> None:
        self._run = run
        self.last_status: str | None = None
        self.last_result: Any = None

    def trace_step(
        self,
        step: int,
        op: str,
        task: str,
        status: str,
        duration: float,
        retry_count: int = 0,
        metadata: dict[str, Any] | None = None,
    ) -> None:
        """Write a `step` line."""
        self.last_status = status
        self._run.step(
            TraceStep(
                step=step,
                op=op,
                task=task,
                status=status,
                duration=round(duration, 4),
                timestamp=time.time(),
                retry_count=retry_count,
                metadata=_json_metadata(metadata),
            )
        )

    def set_result(self, result: Any) -> None:
        """Keep the result for `run_end`."""
        self.last_result = result
