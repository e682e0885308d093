"""What a kind of step is: something that makes an output of values, and what it may use meanwhile."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

from assay.core.protocols import Context
from assay.core.types import Call


class Meter:
    """Counts what one step asked: tokens, calls, and the time it waited for a turn to ask.

    A replayed call takes no time at all: then the wait is negative, and the call's own seconds are added.
    """

    __slots__ = ("attempts", "calls", "input", "longest", "output", "waited")

    def __init__(self) -> None:
        self.calls = self.input = self.output = 0
        self.attempts = 1
        """The most that the step, or one of its items, took."""
        self.longest = self.waited = 0.0

    def add(self, call: Call, took: float) -> None:
        """One call with its reply, and how long it was waited for."""
        self.waited += took - call.seconds
        self.calls += 1
        self.longest = max(self.longest, call.seconds)
        if call.response is not None and call.response.usage is not None:
            self.input += call.response.usage.input
            self.output += call.response.usage.output


class StepContext(NamedTuple):
    """The case's context, and the meter of this step."""

    case: Context
    meter: Meter


class Runner(Protocol):
    """One kind of step."""

    async def run(self, values: dict[str, Any], ctx: StepContext) -> Any:
        """The output, as JSON has it. Raises StepFailed; ModelError passes through."""
        ...

    def adapted(self, told: dict[str, Any]) -> Runner:
        """This step with settings that a test gives it; the same where it has none to give."""
        ...
