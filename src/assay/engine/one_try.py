"""Solves a case once: calls its solver, and tells failures of the case from errors that concern the whole run.

The loop calls it for cases that run in this process, a worker (executors/worker.py) for those that run elsewhere.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from assay.core.errors import CaseFailed, ModelError, WorkerLost
from assay.core.protocols import Solver
from assay.core.types import Failure
from assay.engine.context import TryContext
from assay.usercode.errors import is_failure

CANCELLED = "its code cancelled a task of the run"


async def solve_once(
    solver: Solver, inputs: Any, ctx: TryContext, forgive_cancellation: Callable[[], bool]
) -> Failure | None:
    """Call the solver. Returns the case's failure, or None. Raises errors that concern the whole run.

    `forgive_cancellation` returns whether code of the case has cancelled the present task, which then goes on.
    """
    try:
        ctx.lend_shared_endpoint()
        await solver.solve(inputs, ctx)
    except (ModelError, CaseFailed) as error:
        return error.failure
    except WorkerLost:
        raise
    except BaseException as error:
        if isinstance(error, asyncio.CancelledError) and forgive_cancellation():
            return Failure("user_code", CANCELLED)
        # sys.exit in user code fails its case only. A real Ctrl-C and a cancellation stop the run.
        if not is_failure(error):
            raise
        return ctx.failure_for(error)
    finally:
        ctx.close()
    return None
