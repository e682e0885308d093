"""The permits of several endpoints: who gets a call, who is left out, who is tried again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import pytest
import uvloop

from assay.core.events import Event, Noted, notify
from assay.core.roles import CHAT
from assay.core.types import Failure, Request, Response
from assay.engine.caller import Caller, CallLedger
from assay.engine.permits import MAX_FAILURES, Permits
from assay.engine.several import SeveralEndpoints
from assay.journal.journal import Journal

from support.engine_run import facts

REFUSED = Failure("unreachable", "http://a cannot be reached")
BROKEN = Failure("server_error", "http://a answered 500")
Main = Callable[[], Coroutine[Any, Any, None]]


@pytest.fixture(params=[asyncio.new_event_loop, uvloop.new_event_loop], ids=["asyncio", "uvloop"])
def run(request: pytest.FixtureRequest) -> Callable[[Main], None]:
    """Run a coroutine on each event loop."""

    def start(main: Main) -> None:
        with asyncio.Runner(loop_factory=request.param) as runner:
            runner.run(main())

    return start


def two_endpoints(max_calls: int) -> Permits:
    """The first pause is short, because a test waits for its end."""
    return Permits(max_calls, ["http://a", "http://b"], first_pause=0.001)


def fail(permits: Permits, at: int, failure: Failure) -> None:
    permits.failed(failure, at)
    permits.release(at)


def test_calls_go_to_the_endpoint_with_the_most_room(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        permits = two_endpoints(2)
        assert [await permits.acquire(0) for _ in range(4)] == [0, 1, 0, 1]
        assert permits.crowded
        permits.release(1)
        await permits.wait_for_one()
        assert await permits.acquire(0) == 1

    run(main)


def test_a_port_that_refuses_is_left_out_and_tried_again_by_one_call(run: Callable[[Main], None]) -> None:
    told: list[Event] = []

    async def main() -> None:
        notify.set(told.append)
        permits = two_endpoints(2)
        fail(permits, await permits.acquire(0), REFUSED)
        assert [await permits.acquire(0) for _ in range(2)] == [1, 1]
        # B is full. This call waits, and the end of A's pause gives it to A.
        assert await permits.acquire(0) == 0
        waiting = asyncio.ensure_future(permits.acquire(0))
        await asyncio.sleep(0)
        assert not waiting.done()
        permits.succeeded(0)
        assert await waiting == 0
        assert told == [
            Noted("http://a is left out until it answers again: http://a cannot be reached"),
            Noted("http://a answers again"),
        ]

    run(main)


def test_a_worker_that_waits_for_room_tries_the_endpoint_again(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        permits = two_endpoints(1)
        fail(permits, await permits.acquire(0), REFUSED)
        assert await permits.acquire(0) == 1
        await permits.wait_for_one()
        assert await permits.acquire(0) == 0

    run(main)


def test_one_error_leaves_no_endpoint_out_and_three_in_a_row_do(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        permits = two_endpoints(4)
        for _ in range(2):
            for _ in range(MAX_FAILURES - 1):
                permits.failed(BROKEN, 0)
                assert not permits.lanes[0].is_down
            permits.succeeded(0)
        for _ in range(MAX_FAILURES):
            permits.failed(BROKEN, 0)
        assert permits.lanes[0].is_down

    run(main)


def test_a_call_avoids_the_endpoint_where_it_failed_while_another_is_answering(
    run: Callable[[Main], None],
) -> None:
    async def main() -> None:
        permits = two_endpoints(1)
        assert await permits.acquire(0) == 0
        assert permits.may_move(0, frozenset())
        fail(permits, 0, BROKEN)
        assert await permits.acquire(0, {0}) == 1
        avoiding = asyncio.ensure_future(permits.acquire(0, {0}))
        await asyncio.sleep(0)
        # Another call takes the room that the first one does not want.
        other = asyncio.ensure_future(permits.acquire(9))
        await asyncio.sleep(0)
        permits.release(1)
        assert await avoiding == 1
        assert await other == 0
        assert not permits.may_move(1, {0})

    run(main)


def test_endpoints_that_are_all_down_are_all_tried(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        permits = two_endpoints(1)
        for at in (0, 1):
            permits.failed(REFUSED, at)
        assert not permits.may_move(1, {0})
        assert {await permits.acquire(0), await permits.acquire(0)} == {0, 1}

    run(main)


def test_a_cancelled_call_does_not_keep_its_permit(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        permits = two_endpoints(1)
        assert [await permits.acquire(0), await permits.acquire(0)] == [0, 1]
        waiting = asyncio.ensure_future(permits.acquire(0, {0}))
        await asyncio.sleep(0)
        permits.release(1)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        assert await permits.acquire(0) == 1

    run(main)


def test_a_call_that_avoids_an_endpoint_does_not_keep_others_from_it(run: Callable[[Main], None]) -> None:
    """It waits for the other endpoint, which is full of slow calls. New calls and cases use the free one."""

    async def main() -> None:
        permits = two_endpoints(2)
        for _ in range(4):
            await permits.acquire(0)
        permits.release(0)
        permits.release(0)
        moved = asyncio.create_task(permits.acquire(5, {0}))
        await asyncio.sleep(0)
        assert not permits.crowded
        assert [await permits.acquire(10), await permits.acquire(11)] == [0, 0]
        assert not moved.done()
        permits.release(1)
        assert await moved == 1

    run(main)


def test_an_endpoint_with_a_reduced_limit_takes_no_room_from_the_other(run: Callable[[Main], None]) -> None:
    """After 429 it has more calls in flight than permits. The free permits of the other one still wake workers."""

    async def main() -> None:
        permits = two_endpoints(8)
        for _ in range(16):
            await permits.acquire(0)
        permits.lanes[0].limit = 2.0
        workers = [asyncio.create_task(permits.wait_for_one()) for _ in range(4)]
        await asyncio.sleep(0)
        for _ in range(5):
            permits.release(1)
        await asyncio.wait(workers, timeout=20)
        assert all(worker.done() for worker in workers)

    run(main)


def test_a_call_waits_on_while_room_comes_up_where_it_failed(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        permits = two_endpoints(1)
        assert [await permits.acquire(0), await permits.acquire(0)] == [0, 1]
        avoiding = asyncio.ensure_future(permits.acquire(0, {0}))
        await asyncio.sleep(0)
        permits.release(0)
        await asyncio.sleep(0)
        assert not avoiding.done()
        permits.release(1)
        assert await avoiding == 1

    run(main)


def test_a_cancelled_call_that_tried_an_endpoint_again_lets_another_call_try_it(run: Callable[[Main], None]) -> None:
    async def main() -> None:
        permits = two_endpoints(1)
        fail(permits, await permits.acquire(0), REFUSED)
        assert [await permits.acquire(0), await permits.acquire(0)] == [1, 0]
        permits.release(0)
        assert await permits.acquire(0) == 0

    run(main)


@pytest.mark.parametrize("reply", ["answers", "odd"])
def test_an_endpoint_that_answers_the_call_that_tries_it_is_tried_by_no_second_call(
    run: Callable[[Main], None], tmp_path: Path, reply: str
) -> None:
    """Also if the provider cannot read the answer."""
    told: list[str] = []

    class Member:
        can = frozenset({CHAT})

        def __init__(self, endpoint: str) -> None:
            self.endpoint = endpoint

        async def send(self, request: Request, seed: int) -> Response:
            if reply == "odd" and self.endpoint == "http://a" and not told[-1].endswith("answers again"):
                raise KeyError("text")
            return Response("yes")

        async def close(self) -> None: ...

    async def main() -> None:
        notify.set(lambda event: told.append(event.text) if isinstance(event, Noted) else None)
        permits = two_endpoints(1)
        fail(permits, await permits.acquire(0), REFUSED)
        other = await permits.acquire(0)
        await permits.wait_for_one()
        permits.release(other)
        model = SeveralEndpoints([Member("http://a"), Member("http://b")])
        journal = Journal(tmp_path, [], [])
        ledger = CallLedger(journal, lambda _: None, None, None)
        caller = Caller(facts("m", model), model, permits, ledger, seed=1, max_retries=1, max_wait=0.0)
        try:
            await caller.send(Request(model="m", prompt="?"), 0, 0)
        finally:
            journal.close()
        assert told[-1] == "http://a answers again"
        assert not permits.lanes[0].may_try

    run(main)


def test_the_only_endpoint_is_never_left_out(run: Callable[[Main], None]) -> None:
    told: list[Event] = []

    async def main() -> None:
        notify.set(told.append)
        permits = Permits(1)
        for _ in range(MAX_FAILURES):
            fail(permits, await permits.acquire(0), REFUSED)
        assert permits.take() == 0
        assert told == []

    run(main)
