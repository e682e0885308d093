"""How a function under test is called: with what, where, for how long, and what may come of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.returned import BadResult, Returned, normalised
from assay.core.threads import DaemonPool
from assay.solvers.hop.blocking import Sessions
from assay.solvers.hop.containing import Raised, contained, enter_user_code, guard, guarded, is_async
from assay.solvers.hop.keeping import Blocked

SESSION = "session"
_GRACE_SECONDS = 1.0
"""For an async function to clean up when its time is over; one that goes on is left to itself."""
_KINDS = {"SystemExit": "exit", "KeyboardInterrupt": "interrupt"}
_BLOCKED = "it blocked all other rows until its time was over; without `async` it has a thread of its own"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class FunctionFailed(Exception):
    """The function has no result. `kind` is exception, timeout, exit, interrupt or bad_result.

    `error` is the name of the exception's type, `where` the last line of the user's own code, if known.
    """

    def __init__(self, kind: str, message: str, error: str = "", where: str = "") -> None:
        self.kind = kind
        self.message = message
        self.error = error
        self.where = where
        super().__init__(f"{message} ({where})" if where else message)


async def call_function(
    function: Callable[..., Any],
    sessions: Sessions,
    fields: Mapping[str, Any],
    pool: DaemonPool,
    timeout: float | None,  # noqa: ASYNC109 - what has to be left behind is not ended by a cancelled await
) -> Returned:
    """What it returned. Raises FunctionFailed, a ModelError it let through, or what stops the run.

    A sync function runs in a thread of the pool, which needs `replaces` and a thread for every open row: the
    time a function waits for a thread is its own. The session is closed when this returns.
    """
    args, kwargs = arguments(function, sessions, fields)
    loop = asyncio.get_running_loop()
    seconds = guard(loop, timeout)
    over = loop.create_future()
    work = _told(over, seconds, contained(function, args, kwargs, pool))
    task = loop.create_task(guarded(work, seconds))
    timer = loop.call_later(timeout, _tell, over) if timeout is not None else None
    try:
        await over
        if not task.done():
            raise FunctionFailed("timeout", f"it took longer than {timeout:g} s", "TimeoutError")
        if task.cancelled():  # by itself: nobody else knows it
            raise FunctionFailed("exception", "[CancelledError] it cancelled its own task", "CancelledError")
        return normalised(task.result())
    except Raised as error:
        raise _failed(error) from error
    except BadResult as error:
        raise FunctionFailed("bad_result", str(error)) from None
    finally:
        if timer is not None:
            timer.cancel()
        sessions.asynchronous.close()
        if not task.done():
            await _left(task)


async def _told(over: asyncio.Future[None], seconds: float, work: Coroutine[Any, Any, Any]) -> Any:
    """The work; whoever waits hears of its end. asyncio.wait for one task, at a third of the cost."""
    enter_user_code(seconds)
    try:
        return await work
    finally:
        _tell(over)


def _tell(over: asyncio.Future[None]) -> None:
    if not over.done():
        over.set_result(None)


async def _left(task: asyncio.Task[Any]) -> None:
    """Tell it that it is over, and wait a little; nobody hears how it ends."""
    task.add_done_callback(lambda ended: ended.cancelled() or ended.exception())
    task.cancel()
    await asyncio.wait((task,), timeout=_GRACE_SECONDS)


def _failed(raised: Raised) -> Exception:
    """A failed call that the function let through is still a failed call."""
    if isinstance(raised.error, ModelError):
        return raised.error
    if isinstance(raised.error, Blocked):
        return FunctionFailed("timeout", _BLOCKED, "TimeoutError", raised.where)
    kind = _KINDS.get(raised.kind, "exception")
    return FunctionFailed(kind, str(raised), raised.kind, raised.where)


def arguments(
    function: Callable[..., Any], sessions: Sessions, fields: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """`f(session, input)`, or the fields by name with the session where one is asked for."""
    names = tuple(fields)
    try:
        way = _way(function, names)
    except TypeError:  # an object that cannot be hashed
        way = _way.__wrapped__(function, names)
    session = sessions.asynchronous if way.awaited else sessions.blocking
    own = {name: _copied(value) for name, value in fields.items()}
    if way.pair:
        return (session, own), {}
    named = own if way.takes is None else {name: own[name] for name in own if name in way.takes}
    return (), {**named, SESSION: session} if way.session else named


def _copied(value: Any) -> Any:
    """What a function does with its input is seen by nobody else: another profile gets the same row."""
    return deepcopy(value) if isinstance(value, (dict, list)) else value


class Way(NamedTuple):
    """How a function is called: as (session, input), or by name; then with which names (None: with all)."""

    awaited: bool
    pair: bool
    session: bool = False
    takes: frozenset[str] | None = None


@lru_cache(256)
def _way(function: Callable[..., Any], fields: tuple[str, ...]) -> Way:
    """By its signature: a second parameter that is called like a field is that field."""
    awaited = is_async(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Way(awaited, pair=True)
    names, parameters = list(signature.parameters), signature.parameters.values()
    every = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    takes = None if every else frozenset(names)
    if names[:1] == [SESSION] and _takes_two(signature) and not set(fields).intersection(names[1:2]):
        return Way(awaited, pair=True)
    if SESSION in names:
        return Way(awaited, pair=False, session=True, takes=takes)
    needed = [each.name for each in parameters if _is_needed(each)]
    nameless = {each.kind for each in parameters} == {inspect.Parameter.VAR_POSITIONAL}
    pair = nameless or (len(needed) == 2 and _takes_two(signature) and not set(needed).issubset(fields))
    return Way(awaited, pair, session=False, takes=takes)


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.kind in _POSITIONAL and parameter.default is parameter.empty


def _takes_two(signature: inspect.Signature) -> bool:
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True
