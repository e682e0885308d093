"""Opens connections to one host: its addresses, sockets and TLS."""

from __future__ import annotations

import asyncio
import math
import socket
import ssl
from collections.abc import Callable
from typing import Any, TypeVar

_CONNECT_SECONDS = 30.0
_NEXT_SECONDS = 0.25
"""So long an address has the field to itself before the next one is tried beside it."""
_NAME_SECONDS = 10.0
"""So long the addresses of a name are taken as they were."""
_T = TypeVar("_T", bound=asyncio.Protocol)
Address = tuple[int, int, int, str, Any]


class Unreachable(Exception):
    """There is no connection to the endpoint, and why."""


class Dialer:
    """Knows the way to one host and port."""

    def __init__(self, host: str, port: int, *, tls: bool, seconds: float) -> None:
        self._host, self._port = host, port
        self._tls = tls
        self._seconds = min(seconds, _CONNECT_SECONDS)
        self._context: ssl.SSLContext | None = None
        self._asking: asyncio.Task[list[Address]] | None = None
        self._known = _numeric(host, port)
        self._known_until = math.inf if self._known else 0.0

    async def dial(self, make: Callable[[], _T]) -> _T:
        """A new connection with this protocol, TLS included. Looking up the name has no limit of its own."""
        try:
            addresses = await self._addresses()
            async with asyncio.timeout(self._seconds):
                return await self._attach(make, await _first_socket(addresses))
        except TimeoutError:
            raise Unreachable("it does not answer") from None
        except (OSError, UnicodeError) as error:
            raise Unreachable(str(error) or type(error).__name__) from None

    async def _attach(self, make: Callable[[], _T], sock: socket.socket) -> _T:
        loop = asyncio.get_running_loop()
        try:
            if not self._tls:
                return (await loop.create_connection(make, sock=sock))[1]
            name = self._host.rstrip(".")
            return (await loop.create_connection(make, sock=sock, ssl=self._trust(), server_hostname=name))[1]
        except BaseException:
            sock.close()
            raise

    def _trust(self) -> ssl.SSLContext:
        """The system's certificates, or those of SSL_CERT_FILE; read with the first connection."""
        if self._context is None:
            self._context = ssl.create_default_context()
            self._context.set_alpn_protocols(["http/1.1"])
        return self._context

    async def _addresses(self) -> list[Address]:
        """Many connections may open at once: they ask for the name together."""
        loop = asyncio.get_running_loop()
        if loop.time() < self._known_until:
            return self._known
        if self._asking is None:
            self._asking = loop.create_task(self._ask())
            self._asking.add_done_callback(self._asked)
        return await asyncio.shield(self._asking)

    async def _ask(self) -> list[Address]:
        loop = asyncio.get_running_loop()
        kind, flags = socket.SOCK_STREAM, socket.AI_ADDRCONFIG
        found = await loop.getaddrinfo(self._host, self._port, type=kind, flags=flags)
        self._known, self._known_until = list(found), loop.time() + _NAME_SECONDS
        return self._known

    def _asked(self, task: asyncio.Task[list[Address]]) -> None:
        self._asking = None
        if not task.cancelled():
            task.exception()


def _numeric(host: str, port: int) -> list[Address]:
    """The one address that is written down as a number; nobody has to be asked for it."""
    try:
        return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST))
    except (OSError, UnicodeError):
        return []


async def _first_socket(addresses: list[Address]) -> socket.socket:
    """Connected to the address that answers first; one that is silent keeps no other from its turn."""
    if len(addresses) == 1:
        return await _connected(addresses[0])
    todo = iter(addresses)
    waiting: set[asyncio.Task[socket.socket]] = set()
    errors: dict[str, None] = {}
    try:
        while True:
            address = next(todo, None)
            if address is not None:
                waiting.add(asyncio.create_task(_connected(address)))
            elif not waiting:
                raise OSError("; ".join(errors))
            wait = _NEXT_SECONDS if address is not None else None
            done, _ = await asyncio.wait(waiting, timeout=wait, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                waiting.discard(task)
                if (error := task.exception()) is None:
                    return task.result()
                errors[str(error)] = None
    finally:
        _abandon(waiting)


def _abandon(tasks: set[asyncio.Task[socket.socket]]) -> None:
    """Tasks that run close their sockets themselves."""
    for task in tasks:
        if not task.cancel() and not task.cancelled() and task.exception() is None:
            task.result().close()


async def _connected(address: Address) -> socket.socket:
    family, kind, protocol, _, where = address
    sock = socket.socket(family, kind, protocol)
    try:
        sock.settimeout(0)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        await asyncio.get_running_loop().sock_connect(sock, where)
    except BaseException:
        sock.close()
        raise
    return sock
