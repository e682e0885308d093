"""The time of a memory's operation is that of the memory, whatever else the process does."""

from __future__ import annotations

import asyncio
import threading
import time
from functools import partial
from typing import cast

import pytest

from assay.core.memory import AboutMemory, Memory, Query, SearchHit
from assay.core.threads import DaemonPool
from assay.core.types import CallTime
from assay.core.user_loop import LoopTurn
from assay.solvers.memory.operation_time import (
    PlainMethod,
    ThreadTime,
    TimedSteps,
    call_correction,
    timed,
)
from assay.solvers.memory.timed_memory import TimedMemory


async def block_the_loop(seconds: float) -> None:
    time.sleep(seconds)  # noqa: ASYNC251 - as a memory that computes


def test_a_coroutine_does_not_pay_for_others_in_the_loop() -> None:
    """It neither waits for its first step nor, while it does not suspend, for the interpreter lock."""

    async def compute() -> int:
        return sum(range(1000))

    async def main() -> list[TimedSteps[object]]:
        steps: list[TimedSteps[object]] = [TimedSteps(partial(block_the_loop, 0.3)), TimedSteps(compute)]
        await asyncio.gather(*steps)
        return steps

    _, computed = asyncio.run(main())
    assert computed.seconds < 0.2


def test_a_coroutine_pays_for_its_own_waiting() -> None:
    async def wait() -> str:
        await asyncio.sleep(0.05)
        return "reply"

    steps = TimedSteps(wait)

    async def main() -> str:
        return await steps

    assert asyncio.run(main()) == "reply"
    assert steps.seconds >= 0.04


def test_a_timed_coroutine_gets_exceptions_and_cancellations() -> None:
    """As one that is awaited directly."""

    async def main() -> tuple[str, bool]:
        broken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heard: list[str] = []

        async def listen() -> None:
            try:
                await broken
            except ValueError as error:
                heard.append(str(error))
            await asyncio.sleep(60)

        async def wait() -> None:
            await TimedSteps(listen)

        task = asyncio.create_task(wait())
        await asyncio.sleep(0)
        broken.set_exception(ValueError("told"))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait([task])
        return heard[0], task.cancelled()

    assert asyncio.run(main()) == ("told", True)


def test_the_time_of_a_thread_is_that_of_the_function() -> None:
    """By the clock it waited; its CPU had nothing to do."""
    value, took = timed(partial(threading.Event().wait, 0.05))
    assert value is False
    assert took.cpu < 0.04 <= took.wall


@pytest.mark.parametrize(
    ("calls", "seconds"),
    [
        # A method that computes, alone and then beside seven others.
        ([(0.010, 0.010), (0.011, 0.010), (0.010, 0.010), (0.080, 0.010)], 0.010),
        # One that asks a service.
        ([(0.100, 0.002), (0.090, 0.002), (0.110, 0.002), (0.120, 0.004)], 0.120),
        # One call that had to wait does not make a method that waits.
        ([(0.900, 0.010), (0.011, 0.010), (0.010, 0.010), (0.040, 0.010)], 0.010),
    ],
    ids=["computes", "waits", "slow start"],
)
def test_the_first_calls_of_a_plain_method_choose_its_clock(
    calls: list[tuple[float, float]], seconds: float
) -> None:
    method = PlainMethod()
    *_, last = [method.seconds(ThreadTime(*call)) for call in calls]
    assert (last, method.is_known) == (seconds, True)


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
    """A memory whose searches keep the loop from all others for 0.2 seconds, without CPU time."""

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        await block_the_loop(0.2)
        return []


def test_searches_of_two_conversations_do_not_pay_for_each_other() -> None:
    async def main() -> list[float]:
        memories = [
            TimedMemory("busy", AboutMemory(summary="test"), DaemonPool(2, "test"), LoopTurn(), timeout=60.0)
            for _ in "ab"
        ]
        for memory in memories:
            memory.memory = cast("Memory", Busy())
        searches = await asyncio.gather(*(memory.search(Query("Who?"), 5) for memory in memories))
        return [seconds for _, seconds in searches]

    assert max(asyncio.run(main())) < 0.1
