"""One model behind several base URLs: calls go to the freest endpoint, and to another one when an endpoint fails.

    model = SeveralEndpoints([connect_to("http://a:8000/v1"), connect_to("http://b:8000/v1")])
    permits = SharedPermits(model.addresses, max_calls=16)    # 16 calls at each endpoint
    at = await permits.acquire(order=case.index)              # the number of an endpoint
    reply = await model.members[at].send(request, seed)
    permits.release(at)

Which endpoint answers is not part of a request, so endpoints may be added, removed and exchanged between two starts of
a run. Each reply has the address that sent it (`Response.address`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from assay.core.events import notice
from assay.core.protocols import Model
from assay.core.roles import SEVERAL
from assay.core.types import Failure, Request, Response
from assay.engine.permits import NONE_TRIED, Permits

# An endpoint is left out after this many calls in a row without an answer. One alone may be the fault of its request. A
# port that refuses connections is left out at once.
MAX_FAILURES = 3
# How long an endpoint is left out before one call tries it again. The pause doubles each time that call fails.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# Failures that say something about the endpoint. After any other the endpoint has answered.
NO_ANSWER = frozenset({"unreachable", "connection", "timeout", "server_error"})


class SeveralEndpoints:
    """The same model at several endpoints. Its `endpoint` is a constant, so that the addresses are not in requests."""

    endpoint = SEVERAL

    def __init__(self, members: Sequence[Model]) -> None:
        self.members = tuple(members)
        self.addresses = tuple(member.endpoint for member in members)
        self.can = frozenset.intersection(*(member.can for member in members))

    async def send(self, request: Request, seed: int) -> Response:
        """Send a request to the first endpoint. The calls of a run choose among all of them: see Caller."""
        return await self.members[0].send(request, seed)

    async def close(self) -> None:
        """Close the connections to all endpoints."""
        for member in self.members:
            await member.close()


class Lane(Permits):
    """The permits of one of several endpoints, and whether it answers.

    While `is_down`, the endpoint gets no calls, but for one call after each pause: `may_try` is True until that call
    gets its permit, `is_tried` until it ends.
    """

    def __init__(self, address: str, max_calls: int) -> None:
        super().__init__(max_calls)
        self.address = address
        self.is_down = False
        self.may_try = False
        self.is_tried = False
        self.failures = 0
        self.pause = 0.0
        self.timer: asyncio.TimerHandle | None = None

    def room_left(self, *, all_down: bool) -> int:
        """Return how many calls may be sent now. If all endpoints are down, none is better than another."""
        if self.is_down and not all_down:
            return int(self.may_try)
        return int(self.limit) - self.busy


class SharedPermits(Permits):
    """Permits of several endpoints, `max_calls` for each. A call gets a permit of the endpoint with the most room."""

    def __init__(self, addresses: Sequence[str], max_calls: int, first_pause: float = FIRST_PAUSE_SECONDS) -> None:
        super().__init__(max_calls * len(addresses))
        self._first_pause = first_pause
        self.lanes = [Lane(address, max_calls) for address in addresses]
        self._loop = asyncio.get_running_loop()
        self._avoided: dict[asyncio.Future[int], Collection[int]] = {}  # by waiting call

    @property
    def in_flight(self) -> int:
        """The number of permits that are taken, at all endpoints."""
        return sum(lane.busy for lane in self.lanes)

    @property
    def crowded(self) -> bool:
        return self._freest(NONE_TRIED) is None

    def take(self, avoid: Collection[int] = NONE_TRIED) -> int | None:
        """Return the number of an endpoint with a free permit; None if there is none."""
        # Calls that wait do not want this room: they avoid its endpoint, or `_wake` would have given it to them.
        at = self._freest(avoid)
        if at is not None:
            self._take(at)
        return at

    async def acquire(self, order: int, avoid: Collection[int] = NONE_TRIED) -> int:
        """Wait for a permit and return the number of its endpoint. Lower orders go first.

        An endpoint in `avoid` is chosen only if no other is answering, or to see whether it answers again.
        """
        at = self.take(avoid)
        if at is not None:
            return at
        future: asyncio.Future[int] = self._loop.create_future()
        if avoid:
            self._avoided[future] = avoid
        try:
            return await self._queue(order, future)
        finally:
            self._avoided.pop(future, None)

    def release(self, at: int = 0) -> None:
        """Return a permit of an endpoint and wake the next call."""
        lane = self.lanes[at]
        lane.busy -= 1
        if lane.is_tried:
            # The call was cancelled, so it says nothing about the endpoint.
            lane.is_tried, lane.may_try = False, True
        self._wake()

    def overloaded(self, at: int = 0) -> None:
        """Reduce the limit of an endpoint: it replied with 429."""
        self.lanes[at].overloaded()

    def succeeded(self, at: int = 0) -> None:
        """Note that an endpoint answered a call. If it was left out, it gets calls again."""
        lane = self.lanes[at]
        lane.succeeded()
        self._answered(lane)
        self._wake()

    def failed(self, failure: Failure, at: int = 0) -> None:
        """Note that a call failed at an endpoint. Leaves the endpoint out if it does not answer."""
        lane = self.lanes[at]
        if failure.kind not in NO_ANSWER:
            self._answered(lane)
            return
        lane.failures += 1
        if lane.is_down:
            # Calls that were sent before the endpoint was left out say nothing new.
            if lane.is_tried:
                self._leave_out(lane, min(LONGEST_PAUSE_SECONDS, lane.pause * 2))
        elif failure.kind == "unreachable" or lane.failures >= MAX_FAILURES:
            lane.is_down = True
            self._leave_out(lane, self._first_pause)
            notice(f"{lane.address} is left out until it answers again: {failure.message}")

    def may_move(self, at: int, tried: Collection[int]) -> bool:
        """Return whether another endpoint should have a call that failed at this one.

        That is so if an endpoint is answering that the call has not tried. A call that tried an endpoint again after a
        pause may always move on.
        """
        return (at not in tried or self.lanes[at].is_down) and self._has_other({at, *tried})

    def _has_other(self, tried: Collection[int]) -> bool:
        return any(not lane.is_down and at not in tried for at, lane in enumerate(self.lanes))

    def _answered(self, lane: Lane) -> None:
        lane.failures = 0
        lane.is_tried = False
        if lane.is_down:
            lane.is_down = lane.may_try = False
            if lane.timer is not None:
                lane.timer.cancel()
            notice(f"{lane.address} answers again")

    def _leave_out(self, lane: Lane, pause: float) -> None:
        lane.pause = pause
        lane.is_tried = lane.may_try = False
        if lane.timer is not None:
            lane.timer.cancel()
        # All calls may be waiting for another endpoint that takes minutes. The timer gives one of them to this one.
        lane.timer = self._loop.call_later(pause, self._end_pause, lane)

    def _end_pause(self, lane: Lane) -> None:
        lane.may_try = True
        self._wake()

    def _freest(self, avoid: Collection[int]) -> int | None:
        """Return the endpoint for the next call: one to try again, else the one with the largest share of room."""
        all_down = all(lane.is_down for lane in self.lanes)
        if avoid and not self._has_other(avoid):
            avoid = NONE_TRIED
        freest: int | None = None
        smallest = 0.0
        for at, lane in enumerate(self.lanes):
            if lane.room_left(all_down=all_down) <= 0:
                continue
            if lane.is_down and not all_down:
                return at
            if at in avoid:
                continue
            share = lane.busy / lane.limit
            if freest is None or share < smallest:
                freest, smallest = at, share
        return freest

    def _take(self, at: int) -> None:
        lane = self.lanes[at]
        lane.busy += 1
        if lane.may_try:
            lane.may_try, lane.is_tried = False, True

    def _wake(self) -> None:
        """Give free permits to waiting calls. If some are left, wake a worker for each."""
        skipped = []
        while self._waiting_calls:
            entry = heappop(self._waiting_calls)
            future = entry[2]
            avoid = self._avoided.get(future, NONE_TRIED)
            if future.done():
                continue
            at = self._freest(avoid)
            if at is not None:
                self._take(at)
                future.set_result(at)
                continue
            skipped.append(entry)
            # The room that is left, if any, is at an endpoint that this call avoids. Another call may want it.
            if not avoid:
                break
        for entry in skipped:
            heappush(self._waiting_calls, entry)
        all_down = all(lane.is_down for lane in self.lanes)
        # An endpoint whose limit was just reduced has less than no room, which takes nothing from the others.
        self._wake_workers(sum(max(0, lane.room_left(all_down=all_down)) for lane in self.lanes))
