"""How a function under test is called: with what, where, for how long, and what may come of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

from assay.core import user_code
from assay.core.returned import BadResult, Returned, normalised
from assay.core.threads import DaemonPool
from assay.core.user_code import UserCodeError, is_async
from assay.solvers.hop.blocking import Sessions

SESSION = "session"
_POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


async def call_function(
    function: Callable[..., Any],
    sessions: Sessions,
    fields: Mapping[str, Any],
    pool: DaemonPool,
    timeout: float | None,  # noqa: ASYNC109 - what has to be left behind is not ended by a cancelled await
) -> Returned:
    """What it returned. Raises UserCodeError, a ModelError it let through, or what stops the run.

    A sync function runs in a thread of the pool, which needs `replaces` and a thread for every open row: the
    time a function waits for a thread is its own. The session is closed when this returns.
    """
    args, kwargs = arguments(function, sessions, fields)
    close = sessions.asynchronous.close
    try:
        return normalised(
            await user_code.call(function, args, kwargs, timeout=timeout, pool=pool, close=close)
        )
    except BadResult as error:
        raise UserCodeError(str(error), "bad_result") from None


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
