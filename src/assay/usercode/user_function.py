"""Runs the user's code: hop functions, memories, `python/` models, `!function`, loaders. Nothing else runs it.

A call returns a value or raises one `UserCodeError`. `sys.exit`, `os._exit` (`process_end.py`), a `KeyboardInterrupt`
that the code raises itself, code that hangs and code that blocks the event loop fail one case only. Only a crash in C
ends the process, with an exit code that is not 0; the same command then continues the run.

    from assay.usercode.errors import UserCodeError
    from assay.usercode.modules import load_module
    from assay.usercode.user_function import call, call_here

    function = load_module(Path("hop.py")).hop
    try:
        # Sync code runs in a thread, async code in a task.
        value = await call(function, (session, row), timeout=30.0)
        # Short sync code (a metric, a filter, `doc_to_text`) runs in the current thread.
        value = call_here(metric, (answer, reference))
    except UserCodeError as error:
        # `error.message` is "[KeyError] 'gone'", `error.where` is "hop.py:7: raise KeyError('gone')".
        # The failure has the kind `user_code` and a traceback with the user's own frames only.
        raise CaseFailed(error.failure()) from None

`items_of` reads the items of a loader (`path/to/file.py:load`).

These exceptions pass through `call` and `call_here` unchanged: errors that stop the run (StopRun, ModelRefused,
UsageError), failed model calls (ModelError), failed cases (CaseFailed), a real Ctrl-C, and the cancellation of the
caller.
"""

from __future__ import annotations

import asyncio
import inspect
import os
import sys
from collections.abc import Callable, Coroutine, Generator, Iterator, Mapping
from contextvars import ContextVar, copy_context
from functools import partial
from types import FunctionType
from typing import Any, TypeVar, cast

from msgspec import Struct

from assay.core.errors import InputError, Problem
from assay.core.threads import DaemonPool, DetachedThreads
from assay.usercode.blocked_calls import case_calls
from assay.usercode.errors import PASSED_THROUGH, UserCodeError, is_ctrl_c
from assay.usercode.watchdog import Blocked, StepOwner, can_watch, watched

T = TypeVar("T")

POOL = DaemonPool(1_000, "assay-user-code", replaces=True)
"""Threads for sync code. The pool is large because one function may wait for another one in the same pool."""

_GRACE_SECONDS = 1.0
"""Time for an async function to clean up after its time limit. After that it is abandoned."""

_SLACK_SECONDS = 1.0
"""Added to the time limit before a blocking step is interrupted, because a busy machine may delay it."""


def signature_problem(function: Callable[..., Any], parameters: tuple[str, ...]) -> str:
    """Return why a function cannot be called with these positional parameters; an empty text if it can."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # not callable, or written in C without a signature
        return ""
    try:
        signature.bind(*parameters)
    except TypeError as error:
        return f"it is called as f({', '.join(parameters)}), but takes {signature}: {error}"
    return ""


def call(
    function: Callable[..., Any],
    args: tuple[Any, ...] = (),
    kwargs: Mapping[str, Any] | None = None,
    *,
    timeout: float | None = None,
    pool: DaemonPool = POOL,
    own_task: bool = True,
    close: Callable[[], object] | None = None,
) -> Coroutine[Any, Any, Any]:
    """Call a function and return its value. Raises UserCodeError if it raises or takes longer than `timeout`.

    A sync function runs in a thread of the pool. After its time limit the thread is abandoned. Waiting for a free
    thread counts as the function's time.

    An async function runs in a task of its own. So it can be abandoned if it ignores its cancellation, and interrupted
    if it blocks the loop. With `own_task=False` neither is possible, and a call costs 20 µs less.

    `close` is called when the call is over, before code that still runs is cancelled. After that, the session object
    that such code still has can refuse to work.
    """
    keywords = kwargs or {}
    if not is_async(function):
        return _call_in_thread(function, args, keywords, timeout, pool, close)
    if own_task:
        return _call_in_task(function, args, keywords, timeout, close)
    return _call_in_loop(function, args, keywords, timeout, close)


async def _call_in_thread(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    timeout: float | None,  # noqa: ASYNC109 - an abandoned thread is not ended by a cancelled await
    pool: DaemonPool,
    close: Callable[[], object] | None,
) -> Any:
    """Run a sync function in a thread of the pool."""
    context = copy_context()  # the thread gets the caller's context variables
    try:
        async with asyncio.timeout(timeout):
            value, error = await pool.run(partial(context.run, _outcome, function, args, kwargs))
    except TimeoutError:
        raise _too_long(timeout) from None
    finally:
        if close is not None:
            close()
    if error is None:
        return value
    if isinstance(error, PASSED_THROUGH):
        raise error
    raise UserCodeError.of(error) from error


async def _call_in_loop(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    timeout: float | None,  # noqa: ASYNC109
    close: Callable[[], object] | None,
) -> Any:
    """Run an async function in the caller's task."""
    _guard_tasks(asyncio.get_running_loop())
    token = _step_limit.set(_NO_LIMIT)
    limit = asyncio.timeout(timeout)
    try:
        async with limit:
            return await _Guarded(function(*args, **kwargs), _NO_LIMIT)
    except PASSED_THROUGH:
        raise
    except _CtrlC as error:
        raise error.__cause__ or error from None
    except BaseException as error:
        if limit.expired():
            raise _too_long(timeout) from None
        if isinstance(error, UserCodeError):
            raise
        task = asyncio.current_task()
        cancelled = isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling()
        if cancelled or is_ctrl_c(error):
            raise
        raise UserCodeError.of(error) from error
    finally:
        try:
            _step_limit.reset(token)
        finally:
            if close is not None:
                close()


async def _call_in_task(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    timeout: float | None,  # noqa: ASYNC109
    close: Callable[[], object] | None,
) -> Any:
    """Run an async function in a task of its own."""
    loop = asyncio.get_running_loop()
    calls = case_calls.get()
    try:
        owner = calls.begin(function) if calls else None
    except UserCodeError:  # it has blocked another worker
        if close is not None:
            close()
        raise
    factory = _guard_tasks(loop)
    limit = StepLimit(timeout + _SLACK_SECONDS if timeout and factory.can_watch else 0.0, owner)
    # `over` is set by the end of the task or by the timer. This takes a third of the time of asyncio.wait.
    over = loop.create_future()
    task = factory.start(loop, _Guarded(_run(function, args, kwargs, over, limit), limit))
    hide_task(task)
    timer = None if timeout is None else loop.call_later(timeout, _set, over)
    try:
        await over
        in_time = task.done()
    finally:
        if timer is not None:
            timer.cancel()
        if close is not None:
            close()
        if not task.done():
            # Retrieve the exception; otherwise asyncio logs "exception was never retrieved".
            task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
            task.cancel()
            await asyncio.wait((task,), timeout=_GRACE_SECONDS)
            if not task.done():
                # The code ignores the cancellation and is left alone. asyncio would log that when the loop closes.
                task._log_destroy_pending = False  # type: ignore[attr-defined]  # noqa: SLF001
        elif not task.cancelled():
            task.exception()  # retrieved here, because a cancelled caller does not ask for the result
    if not in_time:
        raise _too_long(timeout)
    if task.cancelled():  # only the function itself can reach this task
        raise UserCodeError("it cancelled its own task", type_name="CancelledError")
    try:
        return task.result()
    except _CtrlC as error:
        raise error.__cause__ or error from None
    except (*PASSED_THROUGH, UserCodeError):
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise UserCodeError.of(error) from error


def hide_task(task: asyncio.Task[Any] | None) -> None:
    """Hide a task of the run from `asyncio.all_tasks`. Code that cancels all tasks would end the run."""
    if task is not None:
        asyncio.tasks._unregister_task(task)  # noqa: SLF001 - documented in "Extending asyncio"


async def _run(
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: Mapping[str, Any],
    over: asyncio.Future[None],
    limit: StepLimit,
) -> Any:
    _step_limit.set(limit)
    try:
        return await function(*args, **kwargs)
    except asyncio.CancelledError as error:
        task = asyncio.current_task()
        if task is not None and task.cancelling():
            raise
        raise UserCodeError.of(error) from error  # the code raised it itself
    finally:
        _set(over)


def _set(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


def _too_long(timeout: float | None) -> UserCodeError:
    return UserCodeError(f"it took longer than {timeout:g} s", "timeout", type_name="TimeoutError")


def call_here(function: Callable[..., T], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None) -> T:
    """Call a sync function in this thread, without a time limit. Raises UserCodeError if it raises."""
    before = _copies
    try:
        return function(*args, **(kwargs or {}))
    except PASSED_THROUGH:
        raise
    except BaseException as error:
        if is_ctrl_c(error):
            raise
        raise UserCodeError.of(error) from error
    finally:
        _end_if_copied(before)


def _outcome(
    function: Callable[..., Any], args: tuple[Any, ...], kwargs: Mapping[str, Any]
) -> tuple[Any, BaseException | None]:
    """Return the value and the exception; one of them is None.

    The exception is returned because a future cannot carry StopIteration, and SystemExit in a future ends the loop.
    """
    before = _copies
    try:
        return function(*args, **kwargs), None
    except BaseException as error:  # noqa: BLE001 - user code may raise anything
        return None, error
    finally:
        _end_if_copied(before)


def is_async(function: Callable[..., Any]) -> bool:
    """Return whether a call returns a coroutine, also for a partial or an object with an async `__call__`."""
    # The usual case first: inspect.iscoroutinefunction takes a microsecond, and this is asked for every call.
    if type(function) is FunctionType and function.__code__.co_flags & inspect.CO_COROUTINE:
        return True
    if inspect.iscoroutinefunction(function):
        return True
    while isinstance(function, partial):
        function = function.func
    return inspect.iscoroutinefunction(getattr(function, "__call__", None))  # noqa: B004 - its kind is asked


def items_of(function: Callable[..., Any], args: tuple[Any, ...], item: type[T], name: str) -> Iterator[T]:
    """Yield the items of a user's loader. `name` is the loader's name for messages.

    Raises InputError if the loader raises, returns something that is not iterable, or yields another type.
    """
    try:
        items = call_here(function, args)
        if isinstance(items, (str, bytes, Mapping)) or not hasattr(items, "__iter__"):
            raise InputError(
                Problem(name, f"it returned {_described(items)}; return a list of {item.__name__} objects")
            )
        iterator = call_here(iter, (items,))
        end = object()
        for number in range(sys.maxsize):
            value = call_here(next, (iterator, end))
            if value is end:
                return
            if not isinstance(value, item):
                raise InputError(Problem(name, f"item {number} is {_described(value)}, expected {item.__name__}"))
            yield value
    except UserCodeError as error:
        raise InputError(Problem(name, f"it raised {error.raised}")) from error


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


# Tasks that user code starts


class StepLimit(Struct, frozen=True):
    """The seconds for which one step of a coroutine may block the loop, 0 without limit, and what it belongs to."""

    seconds: float
    owner: StepOwner | None


_NO_LIMIT = StepLimit(0.0, None)
_step_limit: ContextVar[StepLimit | None] = ContextVar("assay_user_code_step_limit", default=None)
"""Set inside user code."""


def _guard_tasks(loop: asyncio.AbstractEventLoop) -> _TaskFactory:
    """Prepare the loop so that tasks of user code cannot end or block it, and its threads cannot delay the exit.

    By default, asyncio passes SystemExit of a task on to the caller of the loop, and waits for the threads of
    `asyncio.to_thread`. Returns the loop's task factory, which then is a `_TaskFactory`.
    """
    current: Any = loop.get_task_factory()
    if isinstance(current, _TaskFactory):
        return current
    factory = _TaskFactory(current, can_watch=can_watch())
    loop.set_task_factory(cast("Any", factory))
    loop.set_default_executor(DetachedThreads())
    return factory


class _TaskFactory:
    """The loop's task factory. It guards the tasks that user code starts.

    `can_watch` tells whether steps of user code can be interrupted.
    """

    def __init__(self, previous: Any, *, can_watch: bool) -> None:
        self._previous = previous
        self.can_watch = can_watch

    def __call__(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
    ) -> asyncio.Future[Any]:
        context = kwargs.get("context")
        limit = _step_limit.get() if context is None else context.get(_step_limit)
        if limit is not None and type(coro) is not _Guarded:
            coro = _Guarded(coro, limit)
        return self.start(loop, coro, **kwargs)

    def start(
        self, loop: asyncio.AbstractEventLoop, coro: Coroutine[Any, Any, Any], **kwargs: Any
    ) -> asyncio.Task[Any]:
        """Start a coroutine that needs no guard, or has one."""
        if self._previous is None:
            return asyncio.Task(coro, loop=loop, **kwargs)
        task: asyncio.Task[Any] = self._previous(loop, coro, **kwargs)
        return task


class _CtrlC(Exception):
    """A real Ctrl-C inside a task of user code. A KeyboardInterrupt that leaves a task would end the event loop."""


class _Guarded(Coroutine[Any, Any, Any]):
    """Wraps a coroutine: limits the time of its steps, and turns SystemExit and the like into UserCodeError.

    It is an object with `send` and `throw`, not a coroutine that awaits the inner one. If a task is cancelled before
    its first step, such a coroutine would never start the inner one, and Python would warn "was never awaited".
    """

    __slots__ = ("_before", "_inner", "_limit")

    def __init__(self, inner: Coroutine[Any, Any, Any], limit: StepLimit) -> None:
        self._inner = inner
        self._limit = limit
        self._before = _copies

    def send(self, value: Any) -> Any:
        return self._step(self._inner.send, value)

    def throw(self, *error: Any) -> Any:
        return self._step(self._inner.throw, *error)

    def _step(self, step: Callable[..., Any], *values: Any) -> Any:
        try:
            return watched(self._limit.seconds, step, *values, owner=self._limit.owner)
        except (SystemExit, KeyboardInterrupt, Blocked) as error:
            if is_ctrl_c(error):
                raise _CtrlC from error
            raise UserCodeError.of(error) from error
        finally:
            _end_if_copied(self._before)

    def close(self) -> None:
        self._inner.close()

    def __await__(self) -> Generator[Any, Any, Any]:
        """Run the steps in the task that awaits this object."""
        step: Callable[[Any], Any] = self.send
        value: Any = None
        while True:
            try:
                awaited = step(value)
            except StopIteration as end:
                return end.value
            try:
                value = yield awaited
                step = self.send
            except BaseException as error:  # noqa: BLE001 - whatever the task raises belongs to the coroutine
                step, value = self.throw, error


# Copies of the process
#
# The code may copy the process with `os.fork` and let the copy return. A copy that goes on would write the journal
# twice, read the replies of the run's connections, and hold the run's lock. So it ends after the code's step. A copy
# that ends by itself, as those of `multiprocessing` do, never comes here.

_copies = 0
"""How often this process was copied from another one. Counted in the copy only, so a process that was forked before it
began a run is no copy."""


def _count_copy() -> None:
    global _copies  # noqa: PLW0603 - the copy has no other place to learn it from
    _copies += 1


os.register_at_fork(after_in_child=_count_copy)


def _end_if_copied(before: int) -> None:
    """End this process at once if it is a copy that was made after `before` was counted."""
    if _copies != before:
        os._exit(0)
