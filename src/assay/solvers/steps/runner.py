"""What a kind of step is: a runner that turns values into an output, with its context and its failure.

    class EchoStep(StepRunner):
        async def run(self, values, ctx):
            if "text" not in values:
                raise StepFailed("there is no text")
            return values["text"]

The kinds are `prompt_step`, `code_step`, `aggregate_step` and `hop_step`.
"""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from assay.core.protocols import Context
from assay.core.types import Call


class StepFailed(Exception):
    """A step gave no output. The message is for people; `kind` is a word a program can branch on.

    It ends what depends on the step, never the run.
    """

    def __init__(self, message: str, kind: str = "failed") -> None:
        self.kind = kind
        super().__init__(message)


class Meter:
    """Counts what one step asked: calls, tokens, and the time it waited for a permit to ask.

    A replayed call takes no time at all: then the wait is negative, and the call's own seconds are added.
    """

    __slots__ = ("attempts", "calls", "input", "longest", "output", "waited")

    def __init__(self) -> None:
        self.calls = self.input = self.output = 0
        # The most attempts that the step, or one of its items, took.
        self.attempts = 1
        self.longest = self.waited = 0.0

    def add(self, call: Call, elapsed: float) -> None:
        """Count one call with its reply. `elapsed` is how long the step waited for it."""
        self.waited += elapsed - call.seconds
        self.calls += 1
        self.longest = max(self.longest, call.seconds)
        if call.response is not None and call.response.usage is not None:
            self.input += call.response.usage.input
            self.output += call.response.usage.output


class StepContext(NamedTuple):
    """The case's context, and the meter of this step."""

    case: Context
    meter: Meter


class StepRunner(Protocol):
    """One kind of step."""

    @property
    def limits_itself(self) -> bool:
        """Whether the runner keeps the step's timeout itself, because it must stop what it started."""
        ...

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """Return the output, a JSON value. Raises StepFailed; a ModelError passes through."""
        ...

    def adapted(self, settings: dict[str, Any]) -> StepRunner:
        """Return this step with settings that a test gives it; the same if it takes none."""
        ...
