"""Calls the function under test on one row, with a session that calls the run's models and traces the steps.

The signature decides the form of the call:

    def f(session, row)                # the session and the whole row
    def f(row)                         # the whole row: a parameter `row`, `record` or `input_data` that is no field
    def f(question, answer, session)   # fields of the row by name; the session is optional

Async functions receive a `Session`, others a `SyncSession`.
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

from assay.core.errors import CaseFailed, ModelError
from assay.core.protocols import Context, Solver
from assay.core.threads import DaemonPool
from assay.core.types import Failure
from assay.suites.hop.result import FAIL, BadResult, HopResult, read_result
from assay.suites.hop.session import ModelSide, Session
from assay.suites.hop.sync_session import SyncSession
from assay.suites.hop.trace import HopletObserver
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError, place_note

SESSION = "session"
ROW_NAMES = ("row", "record", "input_data")
_POSITIONAL_KINDS = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)

# A function that is over time has waited for one reply at least this share of it, or the time was its own: a function
# that never ends asks one quick call after the other, and is nearly always inside one.
_ENDPOINT_SHARE = 0.5


class HopInputs(Struct, frozen=True):
    """The input fields of one row, and the profile whose models the function uses."""

    profile: str
    fields: dict[str, Any]
    feedback: tuple[str, ...] = ()
    """What a person answered to earlier results of this row, in the View."""


class ProfileModels(Struct, frozen=True):
    """The two models of a profile: one answers, one verifies."""

    run: ModelSide
    verify: ModelSide


class HopSolver(Solver):
    """Emits one `step` record per traced step, then one `answer` with the status and the result as JSON text."""

    def __init__(
        self,
        function: Callable[..., Any],
        profiles: Mapping[str, ProfileModels],
        observer: HopletObserver,
        workers: int,
        timeout: float,
        reload: Callable[[], Callable[..., Any]] | None = None,
    ) -> None:
        """`reload`, if given, is called at the first row and returns the function to use instead of `function`."""
        self._function = function
        self._reload = reload
        self._profiles = profiles
        self._observer = observer
        # `replaces`: a thread whose function timed out cannot be stopped, so a new thread takes its place.
        self._pool = DaemonPool(workers, "assay-hop", replaces=True)
        self._timeout = timeout
        self._told: set[str] = set()

    async def solve(self, inputs: HopInputs, ctx: Context) -> None:
        """Call the function on one row. An exception or an invalid result fails the row.

        If a model call failed for a technical reason and the function then raised or returned FAIL, the row
        ends with the model's failure. So does a row whose time is over while it waits for a model that has used up
        most of it. The next start of the run repeats such a row.
        """
        if self._reload is not None:
            self._function = self._reload()
            self._reload = None
        models = self._profiles[inputs.profile]
        observed_run = self._observer.run(inputs.fields, inputs.profile)
        session = Session(
            ctx,
            models.run,
            models.verify,
            on_step=observed_run.step,
            feedback=inputs.feedback,
            told=self._told,
        )
        failure: Exception | None = None
        try:
            result = await call_function(self._function, session, inputs.fields, self._pool, self._timeout)
        except UserCodeError as error:
            observed_run.failed(str(error))
            failure = CaseFailed(error.failure(where=error.kind))
            if session.failure is not None:
                failure = ModelError(session.failure)
            elif (
                error.kind == "timeout"
                and not error.where  # code that blocks the loop has a place, and is the function's own fault
                and session.waited_seconds >= self._timeout * _ENDPOINT_SHARE
            ):
                # The endpoint has used up the function's time. The next start repeats the row, with all replies so far.
                message = f"the model had not answered when the {self._timeout:g} s of the function were over"
                failure = ModelError(Failure("timeout", message))
        except ModelError as error:
            observed_run.failed(str(error))
            failure = error
        else:
            if session.failure is not None and result.status == FAIL:
                observed_run.failed(session.failure.message)
                failure = ModelError(session.failure)
            else:
                observed_run.end(result.value, result.status)
        # The steps of a failed call are recorded too: they show how far it came.
        for step in session.tracer.steps:
            ctx.emit("step", msgspec.to_builtins(step), str(step.step))
        if failure is not None:
            raise failure
        ctx.emit("answer", {"status": result.status, "result": result.text})


async def call_function(
    function: Callable[..., Any],
    session: Session,
    fields: Mapping[str, Any],
    pool: DaemonPool,
    timeout: float | None,  # noqa: ASYNC109 - see user_function.call
) -> HopResult:
    """Call the function and return its result. Closes the session.

    Raises UserCodeError if the function raises, times out or returns an invalid result. A ModelError that
    the function does not catch, and an exception that stops the run, pass through.

    A sync function runs in a thread of `pool`. The pool must have `replaces` set and a thread for every open
    row, because waiting for a thread counts as time of the function.
    """
    form = call_form(function, tuple(fields))
    function_session = session if form.is_async else SyncSession(session, asyncio.get_running_loop())
    # A copy, because the function may change its input and another profile gets the same row.
    kwargs = {name: deepcopy(each) if isinstance(each, (dict, list)) else each for name, each in fields.items()}
    args: tuple[Any, ...] = ()
    if form.is_pair:
        args = (function_session, kwargs)
        kwargs = {}
    else:
        row = kwargs
        if form.names is not None:
            kwargs = {name: each for name, each in kwargs.items() if name in form.names}
        if form.row_name:
            kwargs[form.row_name] = row
        if form.takes_session:
            kwargs[SESSION] = function_session
    try:
        value = await user_function.call(function, args, kwargs, timeout=timeout, pool=pool, close=session.close)
        return read_result(value)
    except UserCodeError as error:
        if error.type_name != "TypeError" or error.where:
            raise
        # No line of the user's code ran: the parameters do not fit the row.
        names = ", ".join(fields)
        text = f"{error.text}. It is called with fields of the row by name ({names}), or as f(session, row) or f(row)"
        raise UserCodeError(text, type_name=error.type_name) from None
    except BadResult as error:
        raise UserCodeError(f"{error}{place_note(function)}", "bad_result") from None


class CallForm(NamedTuple):
    """How to call a function: as `f(session, row)` (`is_pair`), or with fields by name.

    `names` are the fields to pass; None means all fields. `row_name` is the parameter that gets the whole row, if any.
    """

    is_async: bool
    is_pair: bool
    takes_session: bool = False
    names: frozenset[str] | None = None
    row_name: str = ""


def call_form(function: Callable[..., Any], fields: tuple[str, ...]) -> CallForm:
    """Return how to call the function with a row that has these fields.

    A second parameter with the name of a field is that field, not the row.
    """
    try:
        return _cached_call_form(function, fields)
    except TypeError:  # the callable is an object that cannot be hashed
        return _call_form(function, fields)


def _call_form(function: Callable[..., Any], fields: tuple[str, ...]) -> CallForm:
    is_async = user_function.is_async(function)
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # a callable that Python cannot inspect
        return CallForm(is_async, is_pair=True)
    parameters = list(signature.parameters.values())
    names = list(signature.parameters)
    takes_any_name = any(each.kind is each.VAR_KEYWORD for each in parameters)
    field_names = None if takes_any_name else frozenset(names)
    try:
        signature.bind(None, None)
        takes_two = True
    except TypeError:
        takes_two = False
    if names[:1] == [SESSION] and takes_two and names[1:2] and names[1] not in fields:
        return CallForm(is_async, is_pair=True)
    required = [each.name for each in parameters if each.kind in _POSITIONAL_KINDS and each.default is each.empty]
    row_name = next((name for name in names if name in ROW_NAMES and name not in fields), "")
    if row_name and not set(required).issubset({row_name, SESSION, *fields}):
        row_name = ""  # an unknown name beside it: `def f(s, row)` gets the session and the row
    if SESSION in names or row_name:
        return CallForm(is_async, is_pair=False, takes_session=SESSION in names, names=field_names, row_name=row_name)
    if all(each.kind is each.VAR_POSITIONAL for each in parameters) and parameters:
        return CallForm(is_async, is_pair=True)
    is_pair = len(required) == 2 and takes_two and not set(required).issubset(fields)
    return CallForm(is_async, is_pair, names=field_names)


_cached_call_form = lru_cache(256)(_call_form)
