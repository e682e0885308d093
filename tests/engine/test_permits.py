"""The permits of one endpoint: how many calls are in flight, who is next, and how the limit follows the endpoint.

tests/networks/test_shared_permits.py has those of several endpoints.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from assay.engine.permits import OVERLOAD_PAUSE_SECONDS, Permits

from support.engine_run import turns


class SetClock(asyncio.SelectorEventLoop):
    """An event loop whose time passes when the test says so."""

    seconds = 1_000.0

    def time(self) -> float:
        return self.seconds


def run(main: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(main, 30))


def test_a_call_above_the_limit_waits_for_the_end_of_another() -> None:
    async def main() -> None:
        permits = Permits(2)
        assert [permits.take(), permits.take(), permits.take()] == [0, 0, None]
        third = asyncio.ensure_future(permits.acquire(order=0))
        await turns()
        assert (third.done(), permits.in_flight, permits.crowded) == (False, 2, True)
        permits.release()
        assert await third == 0
        assert permits.in_flight == 2

    run(main())


def test_the_oldest_case_is_next_and_equal_ones_in_the_order_of_their_arrival() -> None:
    """So that cases end, instead of all being half done. A new call does not overtake those that wait."""

    async def main() -> None:
        permits = Permits(1)
        served: list[str] = []

        async def call(name: str, order: int) -> None:
            await permits.acquire(order)
            served.append(name)
            permits.release()

        assert permits.take() == 0
        waiting = [asyncio.ensure_future(call(*each)) for each in [("c", 7), ("a", 2), ("d", 7), ("b", 2)]]
        await turns()
        permits.release()
        assert permits.take() is None
        await asyncio.gather(*waiting)
        assert served == ["a", "b", "c", "d"]
        assert permits.in_flight == 0

    run(main())


@pytest.mark.parametrize("granted", [False, True])
def test_a_call_that_is_cancelled_while_it_waits_keeps_no_permit(granted: bool) -> None:
    """Also if the permit was granted in the same turn of the event loop."""

    async def main() -> None:
        permits = Permits(1)
        assert permits.take() == 0
        waiting = asyncio.ensure_future(permits.acquire(order=0))
        await turns()
        if granted:
            permits.release()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        if not granted:
            permits.release()
        assert (permits.in_flight, permits.crowded) == (0, False)

    run(main())


def test_an_overload_lowers_the_limit_once_a_second_and_never_below_one() -> None:
    """An overloaded endpoint answers all calls in flight with 429."""

    async def main() -> None:
        clock = asyncio.get_running_loop()
        assert isinstance(clock, SetClock)
        permits = Permits(16)
        limits = []
        for _ in range(10):
            for _ in range(16):
                permits.overloaded()
            limits.append(int(permits.lanes[0].limit))
            clock.seconds += OVERLOAD_PAUSE_SECONDS
        assert limits == [11, 7, 5, 3, 2, 1, 1, 1, 1, 1]

    with asyncio.Runner(loop_factory=SetClock) as runner:
        runner.run(main())


def test_replies_raise_a_lowered_limit_up_to_that_of_the_user() -> None:
    """By one after about as many replies as the limit has permits. A call that waits gets the new permit."""

    async def main() -> None:
        permits = Permits(4)
        permits.overloaded()
        assert [permits.take(), permits.take(), permits.take()] == [0, 0, None]
        third = asyncio.ensure_future(permits.acquire(order=0))
        await turns()
        permits.succeeded()
        assert await third == 0
        for _ in range(100):
            permits.succeeded()
        assert permits.lanes[0].limit == 4

    run(main())


def test_a_worker_waits_for_room_and_one_that_leaves_wakes_the_next() -> None:
    """No release would follow, so the next worker would wait for ever."""

    async def main() -> None:
        permits = Permits(1)
        woken: list[str] = []

        async def worker(name: str) -> None:
            await permits.wait_for_one()
            woken.append(name)

        assert permits.take() == 0
        workers = [asyncio.ensure_future(worker(name)) for name in ("first", "second")]
        await turns()
        assert woken == []
        permits.release()
        await turns()
        assert woken == ["first"]
        permits.pass_on()
        await asyncio.gather(*workers)
        assert woken == ["first", "second"]

    run(main())
