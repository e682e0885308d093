"""A step that calls a user's function with a HOP session, as `assay hop` does for each row of a file."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NamedTuple, cast

from msgspec import Struct, field

from assay.core.errors import ModelError
from assay.core.protocols import Asker, Context
from assay.core.threads import DaemonPool
from assay.core.types import Call, Request, Response
from assay.suites.hop.result import FAIL, OK, HopResult
from assay.suites.hop.session import ModelSide, Session
from assay.suites.hop.solver import call_form, call_function
from assay.suites.pipeline.steps.runner import Meter, StepContext, StepError, StepRunner
from assay.usercode.errors import UserCodeError

DEFAULT_TIMEOUT = 300.0  # in seconds, for one call of the function
# A function that is not async occupies a thread while it waits for the model, so many threads are needed.
_THREADS = 256


class HopStep(Struct, frozen=True, kw_only=True):
    """Calls `function` with a session and the step's values. One model serves as run and verify model.

    `inputs` are the input names of the function's contract; empty if it has none.
    """

    function: Callable[..., Any]
    role: str
    inputs: frozenset[str] = frozenset()
    timeout: float = DEFAULT_TIMEOUT
    pool: DaemonPool
    told: set[str] = field(default_factory=set)
    """Unused parameters of operators that a notice has named."""

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Return the value of the function's result. A status other than OK fails the step.

        A failed model call raises ModelError, even if the function caught the error and returned FAIL.
        """
        side = ModelSide(self.role)
        session = Session(cast("Context", _MeteredContext(ctx.case, ctx.meter)), side, side, told=self.told)
        fields = self._fields(values)
        try:
            result = await call_function(self.function, session, fields, self.pool, self.timeout)
        except UserCodeError as error:
            # The function may have wrapped the model's failure in an exception of its own.
            if session.failure is not None:
                raise ModelError(session.failure) from None
            raise StepError(str(error), error.kind) from None
        except ModelError as error:
            # The model answered, for example with a refusal. Only this step fails.
            if error.failure.status == "subject_error":
                raise StepError(error.failure.message, error.failure.kind, error.failure.traceback) from None
            raise
        return _output(result, session)

    def _fields(self, values: dict[str, Any]) -> dict[str, Any]:
        """Return the values to pass: those of the contract, else those that the function has parameters for.

        A function of the form `(session, row)` or `(row)`, or with `**kwargs`, gets all values.
        """
        if self.inputs:
            return {name: value for name, value in values.items() if name in self.inputs}
        names = None
        form = call_form(self.function, tuple(values))
        if not form.is_pair and not form.row_name:
            names = _parameters(self.function)
        if names is None:
            return values
        return {name: values[name] for name in names if name in values}

    @property
    def enforces_timeout(self) -> bool:
        """True: a blocking function cannot be cancelled, so `call_function` stops waiting for its thread."""
        return True

    def with_settings(self, settings: dict[str, Any]) -> StepRunner:
        """Return `self`: a hop step has no settings. The test's `step_inputs` are values for the function."""
        return self


def hop_step(function: Callable[..., Any], role: str, inputs: frozenset[str], timeout: float | None) -> HopStep:
    """Build a step with its own thread pool. Threads start when a function that is not async is called."""
    pool = DaemonPool(_THREADS, "assay-hop-step", replaces=True)
    return HopStep(function=function, role=role, inputs=inputs, timeout=timeout or DEFAULT_TIMEOUT, pool=pool)


def _output(result: HopResult, session: Session) -> Any:
    if result.status == OK:
        return result.value
    if session.failure is not None and result.status == FAIL:
        raise ModelError(session.failure)
    raise StepError(f"the function returned {result.status}: {result.text}", result.status.lower())


def _parameters(function: Callable[..., Any]) -> list[str] | None:
    """Return the names of the function's parameters, or None if it takes any name."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return None
    if any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters):
        return None
    return [parameter.name for parameter in parameters]


class _MeteredAsker(NamedTuple):
    """A model whose calls are added to the meter of the step."""

    name: str
    endpoint: str
    can: frozenset[str]
    asker: Asker
    meter: Meter

    async def call(self, request: Request) -> Call:
        return await self.meter.call(self.asker, request)

    async def ask(self, request: Request) -> Response:
        response = (await self.call(request)).response
        assert response is not None
        return response


class _MeteredContext:
    """Wraps the case's context so that the calls of a session are counted. Has only what a session uses."""

    def __init__(self, ctx: Context, meter: Meter) -> None:
        self._ctx = ctx
        self._meter = meter
        self.base_url = ctx.base_url

    def model(self, role: str = "main") -> _MeteredAsker:
        asker = self._ctx.model(role)
        return _MeteredAsker(asker.name, asker.endpoint, asker.can, asker, self._meter)
