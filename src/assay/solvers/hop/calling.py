"""How a function under test is called: with what, where, for how long, and what may come of it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from assay.core.errors import ModelError
from assay.core.threads import DaemonPool
from assay.solvers.hop.blocking import Sessions
from assay.solvers.hop.containing import Raised, contained, guard, is_async, user_context
from assay.solvers.hop.keeping import Blocked
from assay.solvers.hop.results import BadResult, Returned, normalised

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
    guard(loop)
    task = loop.create_task(contained(function, args, kwargs, pool), context=user_context(timeout))
    try:
        await asyncio.wait((task,), timeout=timeout)
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
        sessions.asynchronous.close()
        if not task.done():
            await _left(task)


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
    session = sessions.asynchronous if is_async(function) else sessions.blocking
    try:
        way = _way(function, frozenset(fields))
    except TypeError:  # an object that cannot be hashed
        way = _way.__wrapped__(function, frozenset(fields))
    if way.pair:
        return (session, dict(fields)), {}
    named = {name: value for name, value in fields.items() if way.takes is None or name in way.takes}
    return (), {**named, SESSION: session} if way.session else named


class Way(NamedTuple):
    """How a function is called: as (session, input), or by name; then with which names (None: with all)."""

    pair: bool
    session: bool = False
    takes: frozenset[str] | None = None


@lru_cache(256)
def _way(function: Callable[..., Any], fields: frozenset[str]) -> Way:
    """By its signature: a second parameter that is called like a field is that field."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return Way(pair=True)
    names, parameters = list(signature.parameters), signature.parameters.values()
    every = any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters)
    takes = None if every else frozenset(names)
    if names[:1] == [SESSION] and _takes_two(signature) and not fields.intersection(names[1:2]):
        return Way(pair=True)
    if SESSION in names:
        return Way(pair=False, session=True, takes=takes)
    needed = [each.name for each in parameters if _is_needed(each)]
    nameless = {each.kind for each in parameters} == {inspect.Parameter.VAR_POSITIONAL}
    pair = nameless or (len(needed) == 2 and _takes_two(signature) and not fields.issuperset(needed))
    return Way(pair, session=False, takes=takes)


def _is_needed(parameter: inspect.Parameter) -> bool:
    return parameter.kind in _POSITIONAL and parameter.default is parameter.empty


def _takes_two(signature: inspect.Signature) -> bool:
    try:
        signature.bind(None, None)
    except TypeError:
        return False
    return True
