"""Permits of one endpoint: how many calls may be in flight, and who is next."""

from __future__ import annotations

import asyncio
from collections import deque
from heapq import heappop, heappush

_CUT = 0.7
_CALM_SECONDS = 1.0


class Permits:
    """At most `limit` calls at once, granted to the oldest case first.

    The limit adapts: an overload (429) cuts it, at most once a second; every success lets it grow back
    by one per round, up to what the user asked for.
    """

    def __init__(self, most: int) -> None:
        self.most = most
        self.limit = float(most)
        self.busy = 0
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._rooms: deque[asyncio.Future[None]] = deque()
        self._tickets = 0
        self._cut_at = 0.0

    @property
    def crowded(self) -> bool:
        """Whether another case could not ask anything now."""
        return bool(self._waiting) or self.busy >= int(self.limit)

    async def acquire(self, order: int) -> None:
        """Wait for a permit; lower orders go first."""
        if not self._waiting and self.busy < int(self.limit):
            self.busy += 1
            return
        future = asyncio.get_running_loop().create_future()
        self._tickets += 1
        heappush(self._waiting, (order, self._tickets, future))
        try:
            await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                self.release()
            raise

    def release(self) -> None:
        """Give a permit back and wake who is next."""
        self.busy -= 1
        self._grant()

    def _grant(self) -> None:
        while self._waiting and self.busy < int(self.limit):
            _, _, future = heappop(self._waiting)
            if not future.done():
                self.busy += 1
                future.set_result(None)
        free = int(self.limit) - self.busy
        while free > 0 and self._rooms and not self._waiting:
            room = self._rooms.popleft()
            if not room.done():
                room.set_result(None)
                free -= 1

    async def room(self) -> None:
        """Wait until a new case would find a free permit."""
        while self.crowded:
            future = asyncio.get_running_loop().create_future()
            self._rooms.append(future)
            await future

    def pass_on(self) -> None:
        """Whoever leaves without asking wakes the next: nobody else would."""
        self._grant()

    def overloaded(self) -> None:
        """The endpoint said it is too much."""
        now = asyncio.get_running_loop().time()
        if now - self._cut_at >= _CALM_SECONDS:
            self._cut_at = now
            self.limit = max(1.0, self.limit * _CUT)

    def succeeded(self) -> None:
        """A call went well: one more permit after a whole round of them."""
        if self.limit < self.most:
            self.limit = min(float(self.most), self.limit + 1.0 / self.limit)
            self._grant()
