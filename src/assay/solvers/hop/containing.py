"""Runs a user's own callable so that whatever it does ends in a value or one exception, never in our end.

A sync one runs in a daemon thread, an async one in the loop. `sys.exit` and KeyboardInterrupt are exceptions
like others here, in tasks that the code starts as well.
"""

from __future__ import annotations

import asyncio
import inspect
import linecache
import sysconfig
from collections.abc import Callable, Coroutine, Mapping
from contextvars import ContextVar, copy_context
from functools import partial
from pathlib import Path
from types import CodeType
from typing import Any, cast

from assay.core.errors import ModelRefused, StopRun, UsageError
from assay.core.threads import DaemonPool
from assay.solvers.hop.keeping import Blocked, LeftThreads, can_time, timed

_OTHERS = (str(Path(__file__).parents[2]), sysconfig.get_path("stdlib"), "<frozen")
"""Where code stands that is not the user's: ours, Python's own; and see `site-packages`."""
_LONGEST = 2_000
STOPPING = (StopRun, ModelRefused, UsageError)
"""What concerns the whole run: it passes through."""
HELPERS = DaemonPool(1_000, "assay-hop", replaces=True)
"""For tools and verifiers. Wide, since one may wait for another that a thread of this pool runs."""
_SLACK_SECONDS = 1.0
"""Before a step is ended by force: on a busy machine a short one may take longer than its time."""
_inside: ContextVar[float | None] = ContextVar("assay_hop_inside", default=None)
"""In user code: the seconds that one of its steps may keep the loop, 0 for any time."""


class Raised(Exception):
    """User code raised: `[TypeName] what it said`. `kind` is the type's name, `where` its own last line."""

    def __init__(self, error: BaseException) -> None:
        self.error = error
        self.kind = type(error).__name__
        self.where = _last_line(error)
        super().__init__(f"[{self.kind}] {said(error)}")


async def contained(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    pool: DaemonPool = HELPERS,
) -> Any:
    """What it returns; raises Raised, what stops the run, or our own cancellation."""
    if not is_async(function):
        value, error = await pool.run(partial(copy_context().run, _outcome, function, args, kwargs))
        if error is not None:
            raise _passed_on(error)
        return value
    try:
        return await function(*args, **kwargs)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise Raised(error) from error  # the code's own doing
    except BaseException as error:
        raise _passed_on(error) from error


def is_async(function: Callable[..., Any]) -> bool:
    """Whether calling it gives a coroutine: also a partial, or an object with an async `__call__`."""
    if inspect.iscoroutinefunction(function):
        return True
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - its kind is asked


def outcome_here(function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]) -> Any:
    """The same for a sync one, in the thread that calls this."""
    value, error = _outcome(function, args, kwargs)
    if error is not None:
        raise _passed_on(error)
    return value


def _outcome(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, BaseException | None]:
    try:
        return function(*args, **kwargs), None
    except BaseException as error:  # noqa: BLE001 - StopIteration and SystemExit among them
        return None, error


def _passed_on(error: BaseException) -> BaseException:
    return error if isinstance(error, (Raised, *STOPPING)) else Raised(error)


def said(error: BaseException) -> str:
    """An exception's text, as far as it can be had and written."""
    try:
        text = str(error)
    except Exception:  # noqa: BLE001 - a user's own __str__ may raise
        return ""
    return text[:_LONGEST].encode(errors="backslashreplace").decode()


def _last_line(error: BaseException) -> str:
    """`file.py:12: the line` of the innermost frame of the user's own code, if any."""
    found: tuple[CodeType, int] | None = None
    trace = error.__traceback__
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(_OTHERS) and "site-packages" not in code.co_filename:
            found = code, trace.tb_lineno
        trace = trace.tb_next
    if found is None:
        return ""
    code, number = found
    line = linecache.getline(code.co_filename, number).strip()
    return f"{Path(code.co_filename).name}:{number}: {line}" if line else f"{code.co_filename}:{number}"


def enter_user_code(seconds: float) -> None:
    """From here on tasks are guarded, see `guard`, and keep the loop for at most so long."""
    _inside.set(seconds)


def guard(loop: asyncio.AbstractEventLoop, timeout: float | None) -> float:
    """Let no task that user code starts end the loop, or keep it; nor a thread that it starts the process.

    asyncio hands SystemExit on to whoever runs the loop, and waits for the threads of `asyncio.to_thread`.
    Gives the seconds for `guarded` and `enter_user_code`; 0 where steps cannot be timed.
    """
    before: Any = loop.get_task_factory()
    if not isinstance(before, _Factory):
        before = _Factory(before, timed=can_time())
        loop.set_task_factory(cast("Any", before))
        loop.set_default_executor(LeftThreads())
    return timeout + _SLACK_SECONDS if timeout and before.timed else 0.0


def guarded(coro: Coroutine[Any, Any, Any], seconds: float) -> Coroutine[Any, Any, Any]:
    """A coroutine that does not end the loop, nor keep it for longer; 0 seconds are any time."""
    return _Guarded(coro, seconds)


class _Factory:
    """Makes tasks; those of user code are guarded."""

    def __init__(self, before: Any, *, timed: bool) -> None:
        self._before = before
        self.timed = timed

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
    ) -> asyncio.Future[Any]:
        context = kwargs.get("context")
        seconds = _inside.get() if context is None else context.get(_inside)
        coro = coro if seconds is None else _Guarded(coro, seconds)
        if self._before is None:
            return asyncio.Task(coro, loop=loop, **kwargs)
        made: asyncio.Future[Any] = self._before(loop, coro, **kwargs)
        return made


class _Guarded(Coroutine[Any, Any, Any]):
    """A coroutine as it is, but for its exceptions and time. None around it: that would have to begin."""

    def __init__(self, inner: Coroutine[Any, Any, Any], seconds: float) -> None:
        self._inner = inner
        self._seconds = seconds

    def send(self, value: Any) -> Any:
        try:
            return timed(self._seconds, self._inner.send, value)
        except (SystemExit, KeyboardInterrupt, Blocked) as error:
            raise Raised(error) from error

    def throw(self, *error: Any) -> Any:
        try:
            return timed(self._seconds, self._inner.throw, *error)
        except (SystemExit, KeyboardInterrupt, Blocked) as raised:
            raise Raised(raised) from raised

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Any:
        return self._inner.__await__()
