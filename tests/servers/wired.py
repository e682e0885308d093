"""A server of raw bytes on loopback: each connection follows a script, and everything it read is kept."""

from __future__ import annotations

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, Self

import pytest

from assay.core.errors import ModelError

OK = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"
_LENGTH = re.compile(rb"\ncontent-length: *(\d+)", re.IGNORECASE)


class Wire:
    """One connection, as its server sees it."""

    def __init__(self, number: int, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.number = number
        self.reader = reader
        self.writer = writer
        self.requests: list[bytes] = []
        self.ended = asyncio.Event()

    async def request(self) -> bytes:
        """The next request, whole."""
        request = await self.reader.readuntil(b"\r\n\r\n")
        if length := _LENGTH.search(request):
            request += await self.reader.readexactly(int(length[1]))
        self.requests.append(request)
        return request

    async def send(self, *pieces: bytes) -> None:
        """Each piece in a packet of its own."""
        for piece in pieces:
            self.writer.write(piece)
            await self.writer.drain()
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def closed(self) -> None:
        """Until the other side has closed."""
        await self.reader.read()


Script = Callable[[Wire], Awaitable[None]]
Main = Callable[[], Coroutine[Any, Any, None]]
Run = Callable[[Main], None]


def says(*pieces: bytes, close: bool = False) -> Script:
    """Every request gets the same bytes."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(*pieces)
        while not close:
            await wire.request()
            await wire.send(*pieces)

    return script


class Wired:
    """Serves while its block lasts. A script that ends closes its connection."""

    def __init__(self, script: Script, context: ssl.SSLContext | None = None) -> None:
        self._script = script
        self._context = context
        self._tasks: set[asyncio.Task[Any]] = set()
        self.wires: list[Wire] = []
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", 0, ssl=self._context)
        self.port = self._server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *error: object) -> None:
        self._server.close()
        for _ in range(3):
            await asyncio.sleep(0)  # a connection that was just accepted reaches `_serve`
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        # A task that was cancelled before its first step has closed nothing.
        for wire in self.wires:
            wire.writer.close()
        await asyncio.gather(*(wire.writer.wait_closed() for wire in self.wires), return_exceptions=True)

    def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        wire = Wire(len(self.wires) + 1, reader, writer)
        self.wires.append(wire)
        task = asyncio.get_running_loop().create_task(self._follow(wire))
        self._tasks.add(task)

    async def _follow(self, wire: Wire) -> None:
        try:
            await self._script(wire)
        except (OSError, asyncio.IncompleteReadError):
            pass
        finally:
            wire.ended.set()
            wire.writer.close()
            await asyncio.gather(wire.writer.wait_closed(), return_exceptions=True)


async def failure(answer: Coroutine[Any, Any, Any]) -> tuple[str, str]:
    """Kind and message of a request that fails."""
    with pytest.raises(ModelError) as caught:
        await answer
    assert caught.value.retry
    return caught.value.failure.kind, caught.value.failure.message
