"""CaseCalls: numbers the calls of async user code in a case, so that a call that blocked its worker is known again.

A case on a worker may call code that blocks the loop in C, as `time.sleep` does. Nothing interrupts it there. So the
worker is ended, and the case begins again on another one, where the same call raises at once what it raises in a run
without workers. It then ends as it would there.

    calls = CaseCalls(placement, [blocked])   # what earlier placements have met
    case_calls.set(calls)                   # for all code of the case
    owner = calls.begin(function)           # "hop#2", the second call of this function. UserCodeError if it blocked
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from contextvars import ContextVar
from typing import Any

from msgspec import Struct

from assay.usercode.errors import UserCodeError
from assay.usercode.watchdog import StepOwner


class BlockedCall(Struct, frozen=True):
    """A call that blocked its worker: its name among the calls of the case, and where its code stood."""

    name: str
    where: str
    traceback: str

    @classmethod
    def of(cls, name: str, error: BaseException) -> BlockedCall:
        """Return the call with the place of the exception that could not be raised in it."""
        failed = UserCodeError.of(error)
        return cls(name, failed.where, failed.traceback)


class CaseCalls:
    """The calls of one placement of a case."""

    def __init__(self, placement: int, blocked: Sequence[BlockedCall]) -> None:
        """`blocked` are the calls that have blocked workers in earlier placements."""
        self._placement = placement
        self._blocked = {call.name: call for call in blocked}
        self._counts: Counter[str] = Counter()

    def begin(self, function: Callable[..., Any]) -> StepOwner:
        """Return the owner of a call's steps. Raises UserCodeError if the call has blocked a worker before."""
        function_name = getattr(function, "__qualname__", type(function).__name__)  # a partial has none
        self._counts[function_name] += 1
        name = f"{function_name}#{self._counts[function_name]}"
        if (blocked := self._blocked.get(name)) is not None:
            raise UserCodeError.of_blocked(blocked.where, blocked.traceback)
        return StepOwner(self._placement, name)


case_calls: ContextVar[CaseCalls | None] = ContextVar("assay_case_calls", default=None)
"""The calls of the present placement. None where nothing begins again: in the process of the run."""
