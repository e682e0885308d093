"""Replies that several subjects of a run ask for with equal requests: one of them pays.

    sent = await shared.get((case.key, stage, hash_, n), send)      # `send` is called by the first one only

Settings of one memory often build the same: `GAMemory,k=5` and `GAMemory,k=10` differ only in what they retrieve.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Awaitable, Callable

import msgspec

from assay.core.types import Call, Response

# (key of the case, stage, hash of the request, number among equal requests of the case)
CallKey = tuple[str, str, str, int]
FindCall = Callable[[str, str, str, int], Call | None]
# Replies that are kept for subjects that come later. Cases of one row run soon after each other.
_MAX_BYTES = 64 << 20


class SharedCalls:
    """The replies of a run's subjects. A reply that failed is not shared: the next subject sends the request itself."""

    def __init__(self, earlier: FindCall | None = None, max_bytes: int = _MAX_BYTES) -> None:
        """`earlier` finds replies that earlier starts of the run have logged, whichever subject asked."""
        self._earlier = earlier
        self._max_bytes = max_bytes
        self._bytes = 0
        self._kept: OrderedDict[CallKey, tuple[Response, float, int]] = OrderedDict()
        self._in_flight: dict[CallKey, asyncio.Future[None]] = {}

    async def get(
        self, key: CallKey, send: Callable[[], Awaitable[tuple[Response, int, float]]]
    ) -> tuple[Response, int, float]:
        """Return the reply, the number of attempts and the seconds. A shared reply has 0 attempts.

        While another subject sends the same request, this waits for its reply.
        """
        while True:
            if key in self._kept:
                response, seconds, _ = self._kept[key]
                return response, 0, seconds
            call = self._earlier(*key) if self._earlier else None
            if call is not None and call.response is not None:
                return call.response, 0, call.seconds
            other = self._in_flight.get(key)
            if other is None:
                break
            await asyncio.wait([other])
        done = self._in_flight[key] = asyncio.get_running_loop().create_future()
        try:
            response, attempts, seconds = await send()
            self._keep(key, response, seconds)
            return response, attempts, seconds
        finally:
            # Also after a failure or a cancellation: somebody who waits goes on with a request of its own.
            del self._in_flight[key]
            done.set_result(None)

    def _keep(self, key: CallKey, response: Response, seconds: float) -> None:
        size = len(msgspec.json.encode(response))
        self._kept[key] = response, seconds, size
        self._bytes += size
        while self._bytes > self._max_bytes:
            _, (_, _, dropped) = self._kept.popitem(last=False)
            self._bytes -= dropped
