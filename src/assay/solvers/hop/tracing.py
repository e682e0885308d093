"""What a function did, step by step: the operators it called, how they ended and how long they took."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar, Token
from types import TracebackType
from typing import Any

import msgspec

from assay.core.status import FAIL, OK

_SHOWN = 500
_open_step: ContextVar[OpenStep | None] = ContextVar("assay_hop_step", default=None)


class Step(msgspec.Struct, frozen=True):
    """One step as it ended, in JSON values only. `auto`: the function did not open it, an operator did."""

    step: int
    op: str
    task: str
    status: str
    duration: float
    timestamp: float
    retry_count: int = 0
    metadata: dict[str, Any] = {}
    auto: bool = False


class OpenStep:
    """What `trace_step` gives: set `status`, `retry_count` and `metadata` as you like until it closes.

    An operator inside sets its status and adds its retries; what the function sets afterwards stands.
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
        self._operator: dict[str, Any] = {}
        self._began = time.perf_counter()

    def closed(self) -> Step:
        """As it is kept. Whatever a user's values are, this does not raise."""
        return Step(
            self.number,
            _text(self.op),
            _text(self.task),
            _text(getattr(self.status, "value", self.status)),
            round(time.perf_counter() - self._began, 4),
            time.time(),
            self.retry_count if type(self.retry_count) is int else 0,
            {**self._operator, **_json_values(self.metadata)},
            self.auto,
        )

    def note(self, status: str, retries: int, metadata: dict[str, Any]) -> None:
        """Take what an operator inside this step came to."""
        self.status = status
        self.retry_count = retries + (self.retry_count if type(self.retry_count) is int else 0)
        self._operator = metadata


class Tracing:
    """A step as a context, `with` or `async with`. An exception in it makes it FAIL, and goes on."""

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


class Tracer:
    """The steps of one call of a function. It may be used from any thread.

    An operator traces itself only where no step is open around it: a function that opens its own steps gets
    exactly those.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._steps: list[Step] = []
        self._opened = 0
        self._closed = False
        self._retries = 0
        self.listen: Callable[[Step], object] | None = None
        """Told of each step as it closes, in whichever thread that is."""

    def trace_step(self, op: str, task: str = "", metadata: dict[str, Any] | None = None) -> Tracing:
        """A step with the next number; it is kept when it closes, in whatever order that happens."""
        with self._lock:
            self._opened += 1
            step = OpenStep(self, self._opened, op, task)
        step.metadata = metadata or {}
        return Tracing(step)

    @property
    def steps(self) -> list[Step]:
        """The steps that have closed, by their numbers."""
        with self._lock:
            return sorted(self._steps, key=lambda step: step.step)

    @property
    def retries(self) -> int:
        """Retries of all operators, traced or not."""
        return self._retries

    def count(self, retries: int) -> None:
        """Add what one operator needed."""
        with self._lock:
            self._retries += retries

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

    def keep(self, step: OpenStep) -> None:
        """Add a step that closed; after `close` it is dropped."""
        closed = step.closed()
        with self._lock:
            if self._closed:
                return
            self._steps.append(closed)
        if self.listen is not None:
            self.listen(closed)

    def close(self) -> None:
        """The function is over: what an abandoned thread traces from now on is nobody's."""
        with self._lock:
            self._closed = True


def _text(value: Any) -> str:
    try:
        return str(value).encode(errors="backslashreplace").decode()
    except Exception:  # noqa: BLE001 - a user's own __str__ may raise; to observe never breaks a run
        return f"<{type(value).__name__}>"


def _json_values(metadata: Any) -> dict[str, Any]:
    """As JSON can hold it; what it cannot is shown as text."""
    if not isinstance(metadata, dict):
        return {"metadata": _text(metadata)[:_SHOWN]} if metadata else {}
    return {_text(key): _json_value(value) for key, value in metadata.items()}


def _json_value(value: Any) -> Any:
    try:
        return msgspec.json.decode(msgspec.json.encode(value))
    except Exception:  # noqa: BLE001 - any object may stand there, and its encoding raise anything
        return _text(value)[:_SHOWN]
