"""The interface of a pipeline step: `StepRunner`, its context and its error.

    class EchoStep(StepRunner):
        enforces_timeout = False

        async def run(self, values, ctx):
            if "text" not in values:
                raise StepError("there is no text")
            return values["text"]

        def with_settings(self, settings):
            return self

The kinds of steps are in `prompt_step`, `code_step`, `aggregate_step` and `hop_step`.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any, NamedTuple, Protocol

from assay.core.errors import ModelError
from assay.core.protocols import Asker, Context
from assay.core.types import Call, Request, Response


class StepError(Exception):
    """A step has no output. `kind` is a short word for reports and programs, such as `timeout`.

    `traceback` has the frames of the user's own files, if their code raised. Steps that need this output are skipped.
    Other steps and other tests continue.
    """

    def __init__(self, message: str, kind: str = "failed", traceback: str = "") -> None:
        self.kind = kind
        self.traceback = traceback
        super().__init__(message)


class Meter:
    """Measures the model calls of one step: their number, their tokens, and the time spent waiting for a permit.

    Calls that failed count too. `stopped` counts calls that a timeout ended: the log does not have them.

    The duration of a step is its elapsed time minus `waited`. A replayed call returns at once, but its
    `call.seconds` is the duration of the original call. It therefore makes `waited` negative, so that a
    replayed step gets the duration of the original step.
    """

    __slots__ = ("attempts", "calls", "input", "longest", "output", "stopped", "waited")

    def __init__(self) -> None:
        self.calls = self.stopped = self.input = self.output = 0
        # The highest number of attempts of the step, or of one item of a batch.
        self.attempts = 1
        self.longest = self.waited = 0.0  # in seconds

    async def call(self, asker: Asker, request: Request) -> Call:
        """Make a call and count it. Raises what the asker raises."""
        started = time.perf_counter()
        try:
            call = await asker.call(request)
        except ModelError as error:
            self._add(error.response, error.seconds, time.perf_counter() - started)
            raise
        except asyncio.CancelledError:
            self.stopped += 1
            raise
        self._add(call.response, call.seconds, time.perf_counter() - started)
        return call

    def _add(self, response: Response | None, seconds: float, elapsed: float) -> None:
        """Count a call. `elapsed` is the time until the reply came, the wait for a permit included."""
        self.waited += elapsed - seconds
        self.calls += 1
        self.longest = max(self.longest, seconds)
        if response is not None and response.usage is not None:
            self.input += response.usage.input
            self.output += response.usage.output


class StepContext(NamedTuple):
    """The context of the case, and the meter of the step."""

    case: Context
    meter: Meter


class StepRunner(Protocol):
    """Turns the values of a step into its output."""

    @property
    def enforces_timeout(self) -> bool:
        """True if `run` applies the step's timeout itself, because it must stop a process or a thread.

        The solver applies the timeout of all other runners.
        """
        ...

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Return the output, a JSON value. Raises StepError. A ModelError passes through and fails the case."""
        ...

    def with_settings(self, settings: dict[str, Any]) -> StepRunner:
        """Return a copy with the settings from a test's `step_inputs`, or `self` if no setting applies."""
        ...
