"""Permits of a model: how many calls may be in flight at each of its endpoints, and which waiting call is next.

    permits = Permits(max_calls=16)                 # at one endpoint; with addresses, 16 at each of them
    at = await permits.acquire(order=case.index)    # for each attempt of a call
    permits.release(at)
    await permits.wait_for_one()                    # a worker waits here before it starts another case

`at` is the number of an endpoint: 0 if there is one. With several, a call gets a permit of the endpoint with the most
room, and an endpoint that does not answer is left out.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from msgspec import Struct

from assay.core.events import notice
from assay.core.types import Failure

# A 429 reply multiplies the limit by this factor, and successes add to it: additive increase, multiplicative
# decrease, as in TCP.
OVERLOAD_FACTOR = 0.7
# An overloaded endpoint answers all calls in flight with 429. Within this time they count as one overload;
# otherwise sixteen of them would reduce the limit sixteen times.
OVERLOAD_PAUSE_SECONDS = 1.0
# An endpoint is left out after this many calls in a row without an answer. One alone may be the fault of its request. A
# port that refuses connections is left out at once.
MAX_FAILURES = 3
# How long an endpoint is left out before one call tries it again. The pause doubles each time that call fails.
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
# Failures that say something about the endpoint. After any other the endpoint has answered.
NO_ANSWER = frozenset({"unreachable", "connection", "timeout", "server_error"})
NONE_TRIED: frozenset[int] = frozenset()


class Lane(Struct, eq=False):
    """The state of one endpoint: how many calls it may have at once, and whether it answers.

    An endpoint that is down gets no calls for a pause. After the pause `may_try` is True until one call gets a permit.
    While that call is in flight, `is_tried` is True: its outcome ends the time down, or begins a longer pause.
    """

    address: str
    max_calls: int
    limit: float
    """Overloads (429) reduce it, at most once a second. Each success adds 1/limit, which is 1 after `limit` successes.
    It never exceeds `max_calls`."""
    busy: int = 0
    reduced_at: float = 0.0
    failures: int = 0
    """Calls in a row without an answer."""
    is_down: bool = False
    may_try: bool = False
    is_tried: bool = False
    pause: float = 0.0
    timer: asyncio.TimerHandle | None = None


class Permits:
    """Allows at most `limit` calls at once at each endpoint, granted to the oldest case first."""

    def __init__(
        self, max_calls: int, addresses: Sequence[str] = ("",), first_pause: float = FIRST_PAUSE_SECONDS
    ) -> None:
        """`max_calls` is the user's --concurrency, for each endpoint."""
        self.max_calls = max_calls * len(addresses)
        self.lanes = [Lane(address, max_calls, float(max_calls)) for address in addresses]
        self._only = self.lanes[0] if len(self.lanes) == 1 else None
        self._first_pause = first_pause
        # A heap of (order, ticket, future, endpoints to avoid). The ticket keeps equal orders in the order of arrival.
        # While a call waits here, no endpoint that it may use has room: whatever makes room calls `_wake`.
        self._waiting_calls: list[tuple[int, int, asyncio.Future[int], Collection[int]]] = []
        self._waiting_workers: deque[asyncio.Future[None]] = deque()
        self._tickets = 0

    @property
    def in_flight(self) -> int:
        """The number of permits that are taken, at all endpoints."""
        return sum(lane.busy for lane in self.lanes)

    @property
    def crowded(self) -> bool:
        """Whether a new case would have to wait for its first call."""
        return self._freest(NONE_TRIED) is None

    def take(self, avoid: Collection[int] = NONE_TRIED) -> int | None:
        """Return the number of an endpoint with a free permit; None if there is none: `acquire` waits for one."""
        only = self._only
        if only is not None:  # written out, because every attempt of a call comes here
            if only.busy < int(only.limit):
                only.busy += 1
                return 0
            return None
        at = self._freest(avoid)
        if at is not None:
            self._take(at)
        return at

    async def acquire(self, order: int, avoid: Collection[int] = NONE_TRIED) -> int:
        """Wait for a permit and return the number of its endpoint.

        Lower orders go first, equal ones in the order of their arrival. An endpoint in `avoid` is chosen only if no
        other is answering, or to see whether it answers again.
        """
        at = self.take(avoid)
        if at is not None:
            return at
        future: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        self._tickets += 1
        heappush(self._waiting_calls, (order, self._tickets, future, avoid))
        try:
            return await future
        except asyncio.CancelledError:
            # The permit was granted in the turn of the loop in which the task was cancelled. Release it here.
            if future.done() and not future.cancelled():
                self.release(future.result())
            raise

    def release(self, at: int = 0) -> None:
        """Return a permit of an endpoint and wake the next call. Tell `succeeded` or `failed` before."""
        lane = self.lanes[at]
        lane.busy -= 1
        if lane.is_tried:
            # Neither was told: the call was cancelled, so it says nothing about the endpoint.
            lane.is_tried, lane.may_try = False, True
        if self._waiting_calls or self._waiting_workers:
            self._wake()

    async def wait_for_one(self) -> None:
        """Wait until a new case would get a permit at once."""
        while self.crowded:
            future = asyncio.get_running_loop().create_future()
            self._waiting_workers.append(future)
            await future

    def pass_on(self) -> None:
        """Wake the next worker in `wait_for_one`.

        A worker that was woken but exits without making a call must do this. Otherwise the next worker waits
        forever, because no release follows.
        """
        self._wake()

    def overloaded(self, at: int = 0) -> None:
        """Reduce the limit of an endpoint: it replied with 429."""
        lane = self.lanes[at]
        now = asyncio.get_running_loop().time()
        if now - lane.reduced_at >= OVERLOAD_PAUSE_SECONDS:
            lane.reduced_at = now
            lane.limit = max(1.0, lane.limit * OVERLOAD_FACTOR)

    def succeeded(self, at: int = 0) -> None:
        """Note that an endpoint answered a call. Raises a reduced limit a little, and ends the endpoint's time down."""
        lane = self.lanes[at]
        if lane.limit < lane.max_calls or lane.failures:
            lane.limit = min(float(lane.max_calls), lane.limit + 1.0 / lane.limit)
            self._answered(lane)
            self._wake()

    def failed(self, failure: Failure, at: int = 0) -> None:
        """Note that a call failed at an endpoint. One of several is left out if it does not answer."""
        if self._only is not None:
            return
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
        lane.timer = asyncio.get_running_loop().call_later(pause, self._end_pause, lane)

    def _end_pause(self, lane: Lane) -> None:
        lane.may_try = True
        self._wake()

    def _freest(self, avoid: Collection[int]) -> int | None:
        """Return the endpoint for the next call: one to try again, else the one with the largest share of room."""
        if self._only is not None:
            return 0 if self._only.busy < int(self._only.limit) else None
        all_down = self._all_down()
        if avoid and not self._has_other(avoid):
            avoid = NONE_TRIED
        freest: int | None = None
        smallest = 0.0
        for at, lane in enumerate(self.lanes):
            if _room(lane, all_down=all_down) <= 0:
                continue
            if lane.is_down and not all_down:
                return at
            if at in avoid:
                continue
            share = lane.busy / lane.limit
            if freest is None or share < smallest:
                freest, smallest = at, share
        return freest

    def _all_down(self) -> bool:
        return all(lane.is_down for lane in self.lanes)

    def _take(self, at: int) -> None:
        lane = self.lanes[at]
        lane.busy += 1
        if lane.may_try:
            lane.may_try, lane.is_tried = False, True

    def _wake(self) -> None:
        """Give free permits to waiting calls. If some are left, wake a worker for each."""
        skipped = []
        while self._waiting_calls and not self.crowded:
            entry = heappop(self._waiting_calls)
            _, _, future, avoid = entry
            if future.done():
                continue
            at = self._freest(avoid)
            if at is None:
                # The room is at an endpoint that this call avoids. Another call may want it.
                skipped.append(entry)
                continue
            self._take(at)
            future.set_result(at)
        for entry in skipped:
            heappush(self._waiting_calls, entry)
        if not self._waiting_workers:
            return
        all_down = self._all_down()
        # An endpoint whose limit was just reduced has less than no room, which takes nothing from the others.
        free = sum(max(0, _room(lane, all_down=all_down)) for lane in self.lanes)
        while free > 0 and self._waiting_workers:
            worker = self._waiting_workers.popleft()
            if not worker.done():
                worker.set_result(None)
                free -= 1


def _room(lane: Lane, *, all_down: bool) -> int:
    """Return how many calls may be sent to an endpoint now. If all endpoints are down, none is better than another."""
    if lane.is_down and not all_down:
        return int(lane.may_try)
    return int(lane.limit) - lane.busy
