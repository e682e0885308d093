"""Calls the function under test on one row, with a session that asks the run's models and traces its steps.

How the function is called depends on its signature: `f(session, row)`, or the fields of the row by name, with
`session` where it has a parameter of that name. Async functions get a `Session`, others a `SyncSession`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Mapping
from copy import deepcopy
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.core import user_code
from assay.core.errors import CaseFailed, ModelError
from assay.core.hop_result import FAIL, BadResult, HopResult, read_result
from assay.core.protocols import Context, Solver
from assay.core.threads import DaemonPool
from assay.core.user_code import UserCodeError
from assay.solvers.hop.session import ModelSide, Session
from assay.solvers.hop.sync_session import SyncSession
from assay.solvers.hop.trace import HopletObserver

SESSION = "session"
_POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)


class HopInputs(Struct, frozen=True):
    """One row: what the function gets, and with which profile."""

    profile: str
    fields: dict[str, Any]


class ProfileModels(Struct, frozen=True):
    """The two models of a profile."""

    run: ModelSide
    verify: ModelSide


class HopSolver(Solver):
    """Emits a `step` for each traced step, then the `answer`: the status and the result as JSON text."""

    def __init__(
        self,
        function: Callable[..., Any],
        profiles: Mapping[str, ProfileModels],
        observer: HopletObserver,
        workers: int,
        timeout: float,
        reload: Callable[[], Callable[..., Any]] | None = None,
    ) -> None:
        """`reload` gives the function that is called in place of `function`; it is asked at the first row."""
        self._function = function
        self._reload = reload
        self._profiles = profiles
        self._observer = observer
        self._pool = DaemonPool(workers, "assay-hop", replaces=True)
        self._timeout = timeout

    async def solve(self, inputs: HopInputs, ctx: Context) -> None:
        """Call the function. What it raises, or returns that is no result, counts against it.

        A call that failed for good is not the function's fault: the row is asked again in the next start if
        the function failed after it, or returned FAIL.
        """
        if self._reload is not None:
            self._function, self._reload = self._reload(), None
        models = self._profiles[inputs.profile]
        observed = self._observer.run(inputs.fields)
        session = Session(ctx, models.run, models.verify, on_step=observed.step)
        failed: Exception | None = None
        try:
            result = await call_function(self._function, session, inputs.fields, self._pool, self._timeout)
        except UserCodeError as error:
            observed.failed(str(error))
            failed = CaseFailed(error.failure(where=error.kind))
            if session.failure is not None:
                failed = ModelError(session.failure)
        except ModelError as error:
            observed.failed(str(error))
            failed = error
        else:
            if session.failure is not None and result.status == FAIL:
                observed.failed(session.failure.message)
                failed = ModelError(session.failure)
            else:
                observed.end(result.value)
        for step in session.tracer.steps:
            ctx.emit("step", msgspec.to_builtins(step), str(step.step))
        if failed is not None:
            raise failed
        ctx.emit("answer", {"status": result.status, "result": result.text})


async def call_function(
    function: Callable[..., Any],
    session: Session,
    fields: Mapping[str, Any],
    pool: DaemonPool,
    timeout: float | None,  # noqa: ASYNC109 - see user_code.call
) -> HopResult:
    """What the function returned. Raises UserCodeError, a ModelError that it let through, or what stops the run.

    A sync function runs in a thread of the pool, which needs `replaces` and a thread for every open row: the
    time a function waits for a thread is its own. The session is closed when this returns.
    """
    form = call_form(function, tuple(fields))
    given = session if form.is_async else SyncSession(session, asyncio.get_running_loop())
    # The function may change its input: another profile gets the same row.
    own = {name: deepcopy(each) if isinstance(each, (dict, list)) else each for name, each in fields.items()}
    args: tuple[Any, ...] = ()
    if form.is_pair:
        args, own = (given, own), {}
    else:
        if form.names is not None:
            own = {name: each for name, each in own.items() if name in form.names}
        if form.takes_session:
            own[SESSION] = given
    try:
        value = await user_code.call(function, args, own, timeout=timeout, pool=pool, close=session.close)
        return read_result(value)
    except BadResult as error:
        raise UserCodeError(str(error), "bad_result") from None


class CallForm(NamedTuple):
    """How a function is called: as `(session, row)`, or by name, with these names (None: with all)."""

    is_async: bool
    is_pair: bool
    takes_session: bool = False
    names: frozenset[str] | None = None


def call_form(function: Callable[..., Any], fields: tuple[str, ...]) -> CallForm:
    """By the function's signature; a second parameter that has the name of a field is that field."""
    try:
        return _cached_call_form(function, fields)
    except TypeError:  # an object that cannot be hashed
        return _call_form(function, fields)


def _call_form(function: Callable[..., Any], fields: tuple[str, ...]) -> CallForm:
    is_async = user_code.is_async(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return CallForm(is_async, is_pair=True)
    parameters = list(signature.parameters.values())
    names = list(signature.parameters)
    takes_all = any(each.kind is each.VAR_KEYWORD for each in parameters)
    taken = None if takes_all else frozenset(names)
    try:
        signature.bind(None, None)
        takes_two = True
    except TypeError:
        takes_two = False
    if names[:1] == [SESSION] and takes_two and names[1:2] and names[1] not in fields:
        return CallForm(is_async, is_pair=True)
    if SESSION in names:
        return CallForm(is_async, is_pair=False, takes_session=True, names=taken)
    if all(each.kind is each.VAR_POSITIONAL for each in parameters) and parameters:
        return CallForm(is_async, is_pair=True)
    required = [
        each.name for each in parameters if each.kind in _POSITIONAL_KINDS and each.default is each.empty
    ]
    is_pair = len(required) == 2 and takes_two and not set(required).issubset(fields)
    return CallForm(is_async, is_pair, names=taken)


_cached_call_form = lru_cache(256)(_call_form)
