"""Runs the user's function on one row, with a session that asks our models and traces its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from msgspec import Struct

from assay.core.errors import CaseFailed, ModelError
from assay.core.protocols import Context
from assay.core.threads import DaemonPool
from assay.core.types import Failure
from assay.solvers.hop.calling import FunctionFailed, call_function
from assay.solvers.hop.observer import HopletObserver, RunTrace
from assay.solvers.hop.session import Session, Side


class HopInputs(Struct, frozen=True):
    """One row: what the function gets, and with which profile."""

    profile: str
    fields: dict[str, Any]


class Sides(Struct, frozen=True):
    """The two models of a profile."""

    run: Side
    verify: Side


class HopSolver:
    """Emits a `step` for each traced step, then the `answer`: the status and the result as JSON text."""

    def __init__(
        self,
        function: Callable[..., Any],
        profiles: Mapping[str, Sides],
        observer: HopletObserver,
        workers: int,
        timeout: float,
    ) -> None:
        self._function = function
        self._profiles = profiles
        self._observer = observer
        self._pool = DaemonPool(workers, "assay-hop")
        self._timeout = timeout

    async def solve(self, inputs: HopInputs, ctx: Context) -> None:
        """Call the function; what it raises, or returns that is no result, counts against it."""
        sides, trace = self._profiles[inputs.profile], self._observer.run(inputs.fields)
        session = Session(ctx, sides.run, sides.verify, lambda step: _traced(ctx, trace, step))
        try:
            done = await call_function(self._function, session, inputs.fields, self._pool, self._timeout)
        except FunctionFailed as failed:
            trace.failed(str(failed))
            if session.failure is not None:
                raise ModelError(session.failure) from None
            raise CaseFailed(Failure("user_code", str(failed), failed.kind)) from None
        if session.failure is not None and done.status == "FAIL":
            trace.failed(session.failure.message)
            raise ModelError(session.failure)
        trace.end(done.value)
        ctx.emit("answer", {"status": done.status, "result": done.text})


def _traced(ctx: Context, trace: RunTrace, step: dict[str, Any]) -> None:
    ctx.emit("step", step, str(step["step"]))
    trace.step(step)
