"""Kept-alive connections to one endpoint: the last one used is the next one used."""

from __future__ import annotations

import asyncio
import math

from assay.models.calling.connection import Connection, Outcome
from assay.models.calling.dialing import Dialer
from assay.models.calling.reply import Broken, Gone, Reply

_IDLE_SECONDS = 15.0
"""Servers close idle connections some time; one that waited longer than this gets no request."""

_CLOSE_SECONDS = 5.0


class Pool:
    """As many connections as there are requests at once. Belongs to the event loop it was made in."""

    def __init__(self, dialer: Dialer, seconds: float) -> None:
        self.alive: set[Connection] = set()
        self._dialer = dialer
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._idle: list[Connection] = []
        self._deadlines: dict[Connection, float] = {}
        self._sweeper: asyncio.TimerHandle | None = None
        self._sweep_at = math.inf
        self._emptied: asyncio.Future[None] | None = None
        self._closed = False

    async def exchange(self, message: bytes, *, repeatable: bool) -> Reply:
        """Send a whole request, give its reply. Nothing is ever sent twice unless that does no harm."""
        deadline = self._loop.time() + self._seconds
        connection = self._pop(deadline - self._seconds) if self._idle else None
        if connection is None:
            return await self._by_new(message, deadline)
        # All requests have equally long: they expire in the order in which they are sent, so one timer does.
        self._deadlines[connection] = deadline
        if deadline < self._sweep_at:
            self._arm(deadline)
        outcome = await self._send(connection, message)
        if type(outcome) is Reply:
            return outcome
        if repeatable and isinstance(outcome, Gone):
            return await self._by_new(message, deadline)
        assert isinstance(outcome, Exception)
        raise outcome

    async def _send(self, connection: Connection, message: bytes) -> Outcome:
        waiter: asyncio.Future[Outcome] = self._loop.create_future()
        connection.waiter = waiter
        connection.transport.write(message)
        try:
            return await waiter
        except BaseException:
            # After its reply the connection may be at work for somebody else already.
            if connection.waiter is waiter:
                connection.drop()
            raise

    async def _by_new(self, message: bytes, deadline: float) -> Reply:
        async with asyncio.timeout_at(deadline):
            connection = await self._dialer.dial(lambda: Connection(self))
            if self._closed or connection.transport.is_closing():
                connection.drop()
                raise Gone("it was closed" if self._closed else "Server disconnected")
            self.alive.add(connection)
            if self._sweeper is None:
                self._arm(self._loop.time() + _IDLE_SECONDS)
            outcome = await self._send(connection, message)
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def _pop(self, now: float) -> Connection | None:
        """The connection used last, if it can still be trusted; those below it waited even longer."""
        while self._idle:
            connection = self._idle.pop()
            if now - connection.since < _IDLE_SECONDS and not connection.transport.is_closing():
                return connection
            connection.drop()
        return None

    def put_back(self, connection: Connection) -> None:
        """It is free again."""
        connection.since = self._loop.time()
        self._deadlines.pop(connection, None)
        self._idle.append(connection)

    def forget(self, connection: Connection) -> None:
        """It will carry no more requests."""
        self._deadlines.pop(connection, None)
        if connection in self._idle:
            self._idle.remove(connection)

    def lost(self, connection: Connection) -> None:
        """Its socket is closed."""
        self.alive.discard(connection)
        if self._emptied is not None and not self.alive and not self._emptied.done():
            self._emptied.set_result(None)

    def _arm(self, when: float) -> None:
        if self._sweeper is not None:
            self._sweeper.cancel()
        self._sweep_at = when
        self._sweeper = self._loop.call_at(when, self._sweep)

    def _sweep(self) -> None:
        """End what took too long, close what waited too long, and come back when the next one may have."""
        now = self._loop.time()
        self._sweeper, self._sweep_at = None, math.inf
        for connection in [c for c, deadline in self._deadlines.items() if deadline <= now]:
            connection.end(TimeoutError())
        for connection in [c for c in self._idle if now - c.since >= _IDLE_SECONDS]:
            connection.drop()
        if self.alive:
            self._arm(min([now + _IDLE_SECONDS, *self._deadlines.values()]))

    async def close(self) -> None:
        """Close all connections and wait until their sockets are closed."""
        self._closed = True
        if self._sweeper is not None:
            self._sweeper.cancel()
            self._sweeper = None
        for connection in list(self.alive):
            connection.end(Broken("it was closed"))
        if self.alive:
            self._emptied = self._loop.create_future()
            await asyncio.wait([self._emptied], timeout=_CLOSE_SECONDS)
