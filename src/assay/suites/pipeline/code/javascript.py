"""Runs JavaScript in child processes, without files, network or `require`: code of pipeline files and of testsets.

    runner = JavaScriptRunner(workers=2)
    value = await runner.run(Code(source, "clean.js", "javascript"), {"text": "…"}, timeout=10)

The engine is QuickJS from the package quickjs-ng (`assay[javascript]`); `javascript_engine.py` is its interface.
"""

from __future__ import annotations

import os
from functools import cache
from importlib.util import find_spec
from typing import Any

from assay.core.errors import MissingExtra
from assay.suites.pipeline.code.process_runner import ProcessRunner
from assay.suites.pipeline.code.runner import Code

# The engine stops code at its time limit, which it counts in seconds of CPU. A process that is still busy this many
# seconds after the same limit by the clock is killed: some functions of the engine do not look at the time, such as
# the join of a very long array.
_GRACE_SECONDS = 1.0
# Variables of assay's environment that the process gets: Python may need them to start. The code cannot read them.
_ENVIRONMENT = ("LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class JavaScriptRunner:
    """Runs trusted and untrusted JavaScript alike. The time limit of a call is its timeout, at most `seconds`.

    Every call has a context of its own. The same code and argument give the same result: `Math.random` has a
    fixed seed, and dates are in UTC. Only the current time differs.
    """

    def __init__(self, workers: int = 2, seconds: float | None = None) -> None:
        self._seconds = seconds
        # Dates have the same time zone on every machine.
        environment = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ} | {"TZ": "UTC"}
        self._processes = ProcessRunner(workers, language="javascript", environment=environment, grace=_GRACE_SECONDS)

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - it kills a process
        """Return the value of the code's entry function. Raises CodeError, and MissingExtra without the engine."""
        require_engine()
        return await self._processes.run(code, argument, min(timeout, self._seconds or timeout))

    async def close(self) -> None:
        """Kill every process and wait until it has exited."""
        await self._processes.close()


@cache
def require_engine() -> None:
    """Raise MissingExtra if the engine is not installed."""
    if find_spec("quickjs") is None:
        raise MissingExtra("JavaScript code", "javascript")


def javascript_problem(source: str) -> tuple[int | None, str] | None:
    """Return line and message of the first syntax error, or None. Nothing is executed. Raises MissingExtra."""
    require_engine()
    # Imported late: only files with JavaScript need it.
    from assay.suites.pipeline.code.javascript_engine import syntax_error

    return syntax_error(source)
