"""How long an operation of a memory takes: the time of the memory, without the queues of assay.

Several conversations run at once, and share an event loop, Python's interpreter lock and the permits of a model. What a
memory waits for because of the others is not its time:

| code of the memory | its time |
|---|---|
| a quick memory of ours, which computes in the loop | CPU time of the thread |
| a coroutine | time from its first step to its last; it may wait, also by blocking the loop |
| a plain method, in a thread | CPU time of the thread if it computes; time from its start to its end if it waits |
| calls of a model | from the moment when they are sent: `call_correction` takes the time before it off |
"""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from assay.core.types import CallTime

T = TypeVar("T")

# So many calls of a plain method tell whether it computes or waits. They run one at a time, because a thread that waits
# for the interpreter lock looks like one that waits for a service.
_PROBES = 3
# A method waits if even the best of these calls took so many times its CPU time.
_WAITING_RATIO = 4.0


class ThreadTime(NamedTuple):
    """The time of a call in a thread, by the clock and by the CPU."""

    wall: float
    cpu: float


class PlainMethod:
    """Chooses the clock of one plain method of a memory."""

    def __init__(self) -> None:
        self._ratio = math.inf
        self._probes = _PROBES
        self.turn = asyncio.Lock()
        """Held by calls while the clock is not chosen."""

    @property
    def is_known(self) -> bool:
        """Whether the clock is chosen."""
        return self._probes <= 0

    def seconds(self, took: ThreadTime) -> float:
        """Return the time of a call: that of the CPU if the method computes, else that of the clock."""
        if not self.is_known:
            self._probes -= 1
            self._ratio = min(self._ratio, took.wall / max(took.cpu, 1e-9))
        return took.wall if self._ratio > _WAITING_RATIO else took.cpu


def timed(function: Callable[[], T]) -> tuple[T, ThreadTime]:
    """Call a function in this thread. Returns its value and its time."""
    wall, cpu = time.perf_counter(), time.thread_time()
    value = function()
    return value, ThreadTime(time.perf_counter() - wall, time.thread_time() - cpu)


async def timed_coroutine(function: Callable[[], Awaitable[T]]) -> tuple[T, float]:
    """Await what an async function returns. Returns its value and the time from its first step to its last.

    The time before its first step, in which the loop is busy with others, does not count.
    """
    began = time.perf_counter()
    value = await function()
    return value, time.perf_counter() - began


def call_correction(calls: Sequence[CallTime]) -> float:
    """Return what to add to the time of an operation for its model calls.

    The time from a call's beginning to its end is replaced by the time that the model took. They differ by the wait for
    a permit, and by a retry. A reply from the log takes no time now, but took some when it was sent.
    """
    here = _union((call.began, call.ended) for call in calls)
    sent = _union((call.ended - call.seconds, call.ended) for call in calls if not call.replayed)
    return sent + sum(call.seconds for call in calls if call.replayed) - here


def _union(intervals: Iterable[tuple[float, float]]) -> float:
    """Return the length of the union of intervals. Calls that run side by side count once."""
    total, reached = 0.0, -math.inf
    for begin, end in sorted(intervals):
        total += max(0.0, end - max(begin, reached))
        reached = max(reached, end)
    return total
