"""One kept-alive connection: a request is written at once, its reply arrives in a future."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, cast

from assay.models.calling.reading import Reading
from assay.models.calling.reply import Broken, Gone, Reply, read_head

if TYPE_CHECKING:
    from assay.models.calling.pool import Pool

Outcome = Reply | Broken | TimeoutError
"""What a request came to. A fault is a result too: nobody complains of one that a cancelled task missed."""


class Connection(asyncio.Protocol):
    """Carries one request at a time. Whatever is out of order ends it; only clean ones are used again."""

    __slots__ = ("_pool", "_reading", "since", "transport", "waiter")

    def __init__(self, pool: Pool) -> None:
        self._pool = pool
        self._reading: Reading | None = None
        self.since = 0.0
        self.waiter: asyncio.Future[Outcome] | None = None
        self.transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is the pool's only when dialing has ended well."""
        self.transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Most replies come whole in one piece; anything else is read by `Reading`."""
        if self.waiter is None:
            self.drop()
            return
        try:
            reading = self._reading
            if reading is None:
                head = read_head(data)
                if (
                    head is not None
                    and len(data) == head.size + head.length
                    and head.status >= 200
                    and not head.packed
                ):
                    self._finish(Reply(head.status, head.headers, data[head.size :]), head.keep)
                    return
                reading = self._reading = Reading()
            reply = reading.feed(data)
        except Broken as error:
            self._finish(error, keep=False)
            return
        if reply is not None:
            self._finish(reply, reading.keep)

    def eof_received(self) -> None:
        """The server will say no more; some end their replies so."""
        self._ended()

    def connection_lost(self, error: Exception | None) -> None:
        """The last word: nothing comes after it."""
        self._pool.lost(self)
        self._ended(error)

    def _ended(self, error: Exception | None = None) -> None:
        if self.waiter is None:
            self.drop()
            return
        outcome: Outcome
        if self._reading is None:
            outcome = Gone(str(error or "") or "Server disconnected")
        elif error is not None:
            outcome = Broken(str(error) or type(error).__name__)
        else:
            try:
                outcome = self._reading.end()
            except Broken as broken:
                outcome = broken
        self._finish(outcome, keep=False)

    def _finish(self, outcome: Outcome, keep: bool) -> None:
        """Hand over, and free the connection first: whoever asks next may have it at once."""
        waiter, self.waiter, self._reading = self.waiter, None, None
        # A request that was answered before it was sent has left bytes behind.
        if keep and not self.transport.get_write_buffer_size() and not self.transport.is_closing():
            self._pool.put_back(self)
        else:
            self.drop()
        if waiter is not None and not waiter.done():
            waiter.set_result(outcome)

    def end(self, why: Broken | TimeoutError) -> None:
        """Give up waiting for the reply, if one is awaited, and close."""
        self._finish(why, keep=False)

    def drop(self) -> None:
        """Close it without ceremony. It may be called again and again."""
        self.waiter = self._reading = None
        self._pool.forget(self)
        self.transport.abort()
