"""Permits of one endpoint: how many calls may be in flight, and which waiting call is next.

    permits = Permits(max_calls=16)
    at = await permits.acquire(order=case.index)    # for each attempt of a call
    permits.release(at)
    await permits.wait_for_one()                    # a worker waits here before it starts another case

`at` is the number of the endpoint. It is always 0 here, and `avoid` means nothing; `several.py` has permits of several
endpoints.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Collection
from heapq import heappop, heappush

from assay.core.types import Failure

# A 429 reply multiplies the limit by this factor, and successes add to it: additive increase, multiplicative
# decrease, as in TCP.
OVERLOAD_FACTOR = 0.7
# An overloaded endpoint answers all calls in flight with 429. Within this time they count as one overload;
# otherwise sixteen of them would reduce the limit sixteen times.
OVERLOAD_PAUSE_SECONDS = 1.0
NONE_TRIED: frozenset[int] = frozenset()


class Permits:
    """Allows at most `limit` calls at once, granted to the oldest case first.

    The limit adapts to the endpoint. An overload (429) reduces it, at most once a second. Each success raises
    it by 1/limit, which is 1 after `limit` successes. It never exceeds `max_calls`, the user's --concurrency.
    """

    def __init__(self, max_calls: int) -> None:
        self.max_calls = max_calls
        self.limit = float(max_calls)
        self.busy = 0
        # A heap of (order, ticket, future). The ticket keeps equal orders in the order of their arrival.
        self._waiting_calls: list[tuple[int, int, asyncio.Future[int]]] = []
        self._waiting_workers: deque[asyncio.Future[None]] = deque()
        self._tickets = 0
        self._reduced_at = 0.0

    @property
    def in_flight(self) -> int:
        """The number of permits that are taken."""
        return self.busy

    @property
    def crowded(self) -> bool:
        """Whether a new case would have to wait for its first call."""
        return bool(self._waiting_calls) or self.busy >= int(self.limit)

    def take(self, avoid: Collection[int] = NONE_TRIED) -> int | None:
        """Return the number of an endpoint, 0, if it has a free permit; else None: `acquire` waits for one."""
        if not self._waiting_calls and self.busy < int(self.limit):
            self.busy += 1
            return 0
        return None

    async def acquire(self, order: int, avoid: Collection[int] = NONE_TRIED) -> int:
        """Wait for a permit and return the number of its endpoint, 0.

        Lower orders go first, equal ones in the order of their arrival.
        """
        at = self.take(avoid)
        if at is not None:
            return at
        return await self._queue(order, asyncio.get_running_loop().create_future())

    async def _queue(self, order: int, future: asyncio.Future[int]) -> int:
        """Wait in the queue until `future` has the number of an endpoint."""
        self._tickets += 1
        heappush(self._waiting_calls, (order, self._tickets, future))
        try:
            return await future
        except asyncio.CancelledError:
            # The permit was granted in the turn of the loop in which the task was cancelled. Release it here.
            if future.done() and not future.cancelled():
                self.release(future.result())
            raise

    def release(self, at: int = 0) -> None:
        """Return a permit and wake the next call."""
        self.busy -= 1
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
        """Reduce the limit: the endpoint replied with 429."""
        now = asyncio.get_running_loop().time()
        if now - self._reduced_at >= OVERLOAD_PAUSE_SECONDS:
            self._reduced_at = now
            self.limit = max(1.0, self.limit * OVERLOAD_FACTOR)

    def succeeded(self, at: int = 0) -> None:
        """Raise a reduced limit a little: a call was answered."""
        if self.limit < self.max_calls:
            self.limit = min(float(self.max_calls), self.limit + 1.0 / self.limit)
            self._wake()

    def failed(self, failure: Failure, at: int = 0) -> None:
        """Note that a call failed. A single endpoint stays in use, whatever happens."""

    def may_move(self, at: int, tried: Collection[int]) -> bool:
        """Return whether another endpoint should have a call that failed. A single endpoint has no other."""
        return False

    def _wake(self) -> None:
        """Grant free permits to waiting calls. If some are left, wake as many workers."""
        while self._waiting_calls and self.busy < int(self.limit):
            _, _, future = heappop(self._waiting_calls)
            if not future.done():
                self.busy += 1
                future.set_result(0)
        self._wake_workers(int(self.limit) - self.busy)

    def _wake_workers(self, free: int) -> None:
        while free > 0 and self._waiting_workers:
            worker = self._waiting_workers.popleft()
            if not worker.done():
                worker.set_result(None)
                free -= 1
