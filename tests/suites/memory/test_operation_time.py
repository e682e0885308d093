"""The time of a memory's operation is that of the memory, whatever else the process does."""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from functools import partial
from typing import cast

import pytest

from assay.core.memory import AboutMemory, Memory, Query, SearchHit
from assay.core.threads import DaemonPool
from assay.core.types import CallTime
from assay.suites.memory.operation_time import ThreadTime, call_correction, timed
from assay.suites.memory.timed_memory import TimedMemory
from assay.usercode.loop import LoopTurn


def test_the_time_of_a_thread_is_that_of_the_function() -> None:
    """By the clock it waited; its CPU had nothing to do."""
    value, took = timed(partial(threading.Event().wait, 0.05))
    assert value is False
    assert took.cpu < 0.04 <= took.wall


@pytest.mark.parametrize(
    ("took", "seconds"),
    [
        pytest.param(ThreadTime(0.010, 0.010, 0.0), 0.010, id="computes alone"),
        pytest.param(ThreadTime(0.080, 0.010, 0.070), 0.010, id="computes beside seven that compute"),
        pytest.param(ThreadTime(0.010, 0.010, 0.070), 0.010, id="computes without the interpreter lock"),
        pytest.param(ThreadTime(0.300, 0.002, 0.004), 0.296, id="waits for a service"),
        pytest.param(ThreadTime(0.300, 0.000, 0.300), 0.300, id="waits while others compute"),
        pytest.param(ThreadTime(0.380, 0.010, 0.070), 0.310, id="computes and waits beside seven that compute"),
        pytest.param(ThreadTime(0.310, 0.010, 0.000), 0.310, id="computes and waits beside seven that wait"),
    ],
)
def test_a_plain_method_pays_for_its_own_work_and_waiting(took: ThreadTime, seconds: float) -> None:
    assert took.seconds(threads=7) == pytest.approx(seconds, abs=7.1 * sys.getswitchinterval())


@pytest.mark.parametrize(
    ("calls", "correction"),
    [
        ([], 0.0),
        # Sent at once; after a wait of 2 for a permit; from the log.
        ([CallTime(10, 13, 3, replayed=False)], 0.0),
        ([CallTime(10, 15, 3, replayed=False)], -2.0),
        ([CallTime(10, 10, 3, replayed=True)], 3.0),
        # Two after each other, each with a wait of 1; two side by side, the second of which waits for the first.
        ([CallTime(10, 13, 2, replayed=False), CallTime(14, 17, 2, replayed=False)], -2.0),
        ([CallTime(10, 12, 2, replayed=False), CallTime(10, 14, 2, replayed=False)], 0.0),
    ],
)
def test_the_wait_for_a_permit_is_not_the_time_of_a_memory(calls: list[CallTime], correction: float) -> None:
    assert call_correction(calls) == pytest.approx(correction)


class Busy:
    """A memory whose searches block the loop for a tenth of a second."""

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        time.sleep(0.1)  # noqa: ASYNC251 - as a memory with a client that is not async
        return []


def test_searches_of_two_conversations_pay_for_themselves_only() -> None:
    """They block the loop one after the other, so that both times together fit into the time of both."""

    async def main() -> tuple[list[float], float]:
        memories = [
            TimedMemory("busy", AboutMemory(summary="test"), DaemonPool(2, "test"), LoopTurn(), timeout=60.0)
            for _ in "ab"
        ]
        for memory in memories:
            memory.memory = cast("Memory", Busy())
        began = time.perf_counter()
        searches = await asyncio.gather(*(memory.search(Query("Who?"), 5) for memory in memories))
        return [seconds for _, seconds in searches], time.perf_counter() - began

    times, together = asyncio.run(main())
    assert min(times) >= 0.09
    assert sum(times) <= together
