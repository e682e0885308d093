"""A step that calls a function of the user with a session, as `assay hop` does for every row of a file."""

from __future__ import annotations

import inspect
import time
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from msgspec import Struct

from assay.core.errors import ModelError
from assay.core.hop_result import FAIL, OK, HopResult
from assay.core.protocols import Asker, Context
from assay.core.threads import DaemonPool
from assay.core.types import Call, Request, Response
from assay.core.user_code import UserCodeError
from assay.solvers.hop.session import ModelSide, Session
from assay.solvers.hop.solver import call_form, call_function
from assay.solvers.steps.runner import Meter, StepContext, StepFailed, StepRunner

DEFAULT_TIMEOUT = 300.0
_THREADS = 256


class HopStep(Struct, frozen=True, kw_only=True):
    """One model runs and verifies. `inputs` are those of the function's contract, if it has one."""

    function: Callable[..., Any]
    role: str
    inputs: frozenset[str] = frozenset()
    timeout: float = DEFAULT_TIMEOUT
    pool: DaemonPool

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Return the function's result. A status other than OK fails the step.

        An endpoint's failure passes through, even if the function caught it and returned FAIL.
        """
        side = ModelSide(self.role)
        session = Session(cast("Context", _MeteredContext(ctx.case, ctx.meter)), side, side)
        fields = self._fields(values)
        try:
            done = await call_function(self.function, session, fields, self.pool, self.timeout)
        except UserCodeError as error:
            if session.failure is not None:
                raise ModelError(session.failure) from None
            raise StepFailed(str(error), error.kind) from None
        except ModelError as error:
            if error.failure.status == "subject_error":
                raise StepFailed(error.failure.message, error.failure.kind) from None
            raise
        return _output(done, session)

    def _fields(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values that the contract lists; else all, or those the function has parameters for."""
        if self.inputs:
            return {name: value for name, value in values.items() if name in self.inputs}
        names = None
        if not call_form(self.function, tuple(values)).is_pair:
            names = _parameters(self.function)
        if names is None:
            return values
        return {name: values[name] for name in names if name in values}

    @property
    def limits_itself(self) -> bool:
        """A function that blocks keeps its thread, so the call itself gives up waiting for it."""
        return True

    def adapted(self, settings: dict[str, Any]) -> StepRunner:
        """Return itself: what a test gives a function are values for it."""
        return self


def hop_step(
    function: Callable[..., Any], role: str, inputs: frozenset[str], timeout: float | None
) -> HopStep:
    """Build a step with threads of its own. They start when a function that is not async needs them."""
    pool = DaemonPool(_THREADS, "assay-hop-step", replaces=True)
    return HopStep(function=function, role=role, inputs=inputs, timeout=timeout or DEFAULT_TIMEOUT, pool=pool)


def _output(done: HopResult, session: Session) -> Any:
    if done.status == OK:
        return done.value
    if session.failure is not None and done.status == FAIL:
        raise ModelError(session.failure)
    raise StepFailed(f"the function says {done.status}: {done.text}", done.status.lower())


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    """Return the names the function takes; None if it takes any name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters]


class _MeteredAsker(NamedTuple):
    """A model whose calls are counted."""

    name: str
    endpoint: str
    can: frozenset[str]
    asker: Asker
    meter: Meter

    async def call(self, request: Request) -> Call:
        started = time.perf_counter()
        call = await self.asker.call(request)
        self.meter.add(call, time.perf_counter() - started)
        return call

    async def ask(self, request: Request) -> Response:
        response = (await self.call(request)).response
        assert response is not None
        return response


class _MeteredContext:
    """The part of a context that a session uses."""

    def __init__(self, ctx: Context, meter: Meter) -> None:
        self._ctx = ctx
        self._meter = meter
        self.base_url = ctx.base_url

    def model(self, role: str = "main") -> _MeteredAsker:
        asker = self._ctx.model(role)
        return _MeteredAsker(asker.name, asker.endpoint, asker.can, asker, self._meter)
