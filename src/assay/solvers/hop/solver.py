"""Runs the user's function on one row, with a session that asks our models and traces its steps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.errors import CaseFailed, ModelError
from assay.core.protocols import Context, Solver
from assay.core.status import FAIL
from assay.core.threads import DaemonPool
from assay.core.types import Failure
from assay.core.user_code import UserCodeError
from assay.solvers.hop.blocking import open_sessions
from assay.solvers.hop.calling import call_function
from assay.solvers.hop.observer import HopletObserver
from assay.solvers.hop.session import Session, Side


class HopInputs(Struct, frozen=True):
    """One row: what the function gets, and with which profile."""

    profile: str
    fields: dict[str, Any]


class Sides(Struct, frozen=True):
    """The two models of a profile."""

    run: Side
    verify: Side


class HopSolver(Solver):
    """Emits a `step` for each traced step, then the `answer`: the status and the result as JSON text."""

    def __init__(
        self,
        function: Callable[..., Any],
        profiles: Mapping[str, Sides],
        observer: HopletObserver,
        workers: int,
        timeout: float,
    ) -> None:
        self.function = function
        self._profiles = profiles
        self._observer = observer
        self._pool = DaemonPool(workers, "assay-hop", replaces=True)
        self._timeout = timeout

    async def solve(self, inputs: HopInputs, ctx: Context) -> None:
        """Call the function; what it raises, or returns that is no result, counts against it."""
        sides, trace = self._profiles[inputs.profile], self._observer.run(inputs.fields)
        sessions = open_sessions(ctx, sides.run, sides.verify)
        session = sessions.asynchronous
        session.tracer.listen = trace.step
        try:
            done = await call_function(self.function, sessions, inputs.fields, self._pool, self._timeout)
        except UserCodeError as failed:
            trace.failed(str(failed))
            _emit_steps(ctx, session)
            raise _blamed(session.failure, failed) from None
        except ModelError as error:
            trace.failed(str(error))
            _emit_steps(ctx, session)
            raise
        if session.failure is not None and done.status == FAIL:
            trace.failed(session.failure.message)
            _emit_steps(ctx, session)
            raise ModelError(session.failure)
        trace.end(done.value)
        _emit_steps(ctx, session)
        ctx.emit("answer", {"status": done.status, "result": done.text})


def _emit_steps(ctx: Context, session: Session) -> None:
    for step in session.tracer.steps:
        ctx.emit("step", msgspec.to_builtins(step), str(step.step))


def _blamed(failure: Failure | None, failed: UserCodeError) -> Exception:
    """A function that failed after a call had failed for good is asked again; else it is its own fault."""
    if failure is not None:
        return ModelError(failure)
    return CaseFailed(failed.failure(where=failed.kind))
