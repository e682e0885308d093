"""How long an operation of a memory takes: the time of the memory, without the queues of assay.

Several conversations run at once, and share an event loop, Python's interpreter lock and the permits of a model. What a
memory waits for because of the others is not its time:

| code of the memory | its time |
|---|---|
| a quick memory of ours, which computes in the loop | CPU time of the thread |
| a coroutine | time from its first step to its last; it may wait, also by blocking the loop |
| a plain method, in a thread | time from its start to its end, less its wait for the interpreter lock |
| calls of a model | from the moment when they are sent: `call_correction` takes the time before it off |
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import NamedTuple, TypeVar

from assay.core.types import CallTime

T = TypeVar("T")


class ThreadTime(NamedTuple):
    """The time of a call in a thread."""

    wall: float
    cpu: float
    """CPU time of the thread."""
    others: float
    """CPU time of all other threads of the process meanwhile."""

    def seconds(self, threads: int) -> float:
        """Return the elapsed time without the wait for the interpreter lock, which `threads` other threads may hold.

        Python gives the lock to each of them in turn. So they delay a call at most as long as they compute, and
        each at most as long as the call itself computes, and one turn more.
        """
        delay = min(self.others, threads * (self.cpu + sys.getswitchinterval()))
        return max(self.cpu, self.wall - delay)


def timed(function: Callable[[], T]) -> tuple[T, ThreadTime]:
    """Call a function in this thread. Returns its value and its time."""
    wall, cpu, process = time.perf_counter(), time.thread_time(), time.process_time()
    value = function()
    wall, cpu = time.perf_counter() - wall, time.thread_time() - cpu
    return value, ThreadTime(wall, cpu, max(0.0, time.process_time() - process - cpu))


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
