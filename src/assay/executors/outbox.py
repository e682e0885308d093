"""Outbox: the messages of a worker that wait for the driver.

outbox.put(EndCase(…))       # in any thread
await outbox.wait(released)  # in the loop of the exchanges
messages = outbox.take()
"""

from __future__ import annotations

import asyncio
import threading

from assay.executors.messages import ToDriver

# An exchange without messages returns after this time, so that the driver notices a connection that is gone.
IDLE_SECONDS = 10.0


class Outbox:
    """Messages for the driver. Any thread may put one; the loop of the exchanges takes them in groups."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._messages: list[ToDriver] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._filled = asyncio.Event()

    def put(self, message: ToDriver) -> None:
        """Add a message."""
        with self._lock:
            self._messages.append(message)
            is_first = len(self._messages) == 1
        if is_first and self._loop is not None:
            self._loop.call_soon_threadsafe(self._filled.set)

    async def wait(self, released: asyncio.Event) -> None:
        """Wait until there is a message, somebody releases this wait, or IDLE_SECONDS have passed."""
        self._loop = asyncio.get_running_loop()
        if self._messages:
            self._filled.set()
        waits = [asyncio.ensure_future(event.wait()) for event in (self._filled, released)]
        await asyncio.wait(waits, timeout=IDLE_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        for each in waits:
            each.cancel()

    def take(self) -> list[ToDriver]:
        """Return all messages, and forget them."""
        with self._lock:
            messages, self._messages = self._messages, []
            self._filled.clear()
        return messages
