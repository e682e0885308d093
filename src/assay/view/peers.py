"""Which user of this machine opened a connection to a server on loopback.

Every user of a machine can connect to its loopback addresses. Linux lists the sockets of all users in /proc/net/tcp and
/proc/net/tcp6, so the server can look for the other end of a connection and read its user there. Other systems
have no such list for ordinary users: there `peer_user` returns UNKNOWN.

    peer_user(("127.0.0.1", 50912), ("127.0.0.1", 7575))     # 1000
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import sys
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple
from weakref import WeakKeyDictionary

TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
UNKNOWN = -1
"""This system does not list the sockets of its users."""
NOBODY = -2
"""The system lists its sockets, but not the other end of this connection: it is closed, or belongs to no user here."""

Address = tuple[str, int]


class PeerCheck:
    """Says for each connection whether the user who runs this server, or root, opened it. Looks once a connection."""

    def __init__(self, look: Callable[[Address, Address], int] | None = None) -> None:
        self._look = look or peer_user
        self._answers: WeakKeyDictionary[asyncio.BaseTransport, bool] = WeakKeyDictionary()

    async def is_ours(self, transport: asyncio.BaseTransport | None) -> bool:
        """Return False for a connection of another user, or of nobody. True where the system cannot tell."""
        if transport is None:
            return False  # it is closed
        answer = self._answers.get(transport)
        if answer is None:
            peer, own = transport.get_extra_info("peername"), transport.get_extra_info("sockname")
            # A machine with many sockets has a long list, so a thread reads it.
            user = await asyncio.to_thread(self._look, peer[:2], own[:2])
            answer = self._answers[transport] = user in (UNKNOWN, 0, os.getuid())
        return answer


class SocketLine(NamedTuple):
    """A line of /proc/net/tcp. `inode` is 0 for a socket whose process has closed it; its user says 0 then."""

    local: Address
    remote: Address
    user: int
    inode: int


def peer_user(peer: Address, own: Address, tables: Iterable[Path] = TABLES) -> int:
    """Return the user id behind a connection, NOBODY or UNKNOWN.

    `peer` and `own` are the addresses of its two ends, as the server's socket has them.
    """
    peer, own = _plain_address(peer), _plain_address(own)
    is_listed = False
    for table in tables:
        try:
            lines = table.read_bytes().decode("ascii", errors="replace").splitlines()
        except OSError:
            continue
        # Thousands of sockets may be listed. Only lines with both ports are read.
        ports = (f":{peer[1]:04X} ", f":{own[1]:04X} ")
        for line in lines:
            if ports[0] not in line or ports[1] not in line:
                continue
            each = parse_line(line)
            if each is None:
                continue
            # A socket that its process has closed shows user 0, whoever it was.
            if (each.local, each.remote) == (peer, own) and each.inode:
                return each.user
            is_listed |= (each.local, each.remote) == (own, peer)
    # If not even our own end is listed, the list says nothing, as in some containers.
    return NOBODY if is_listed else UNKNOWN


def parse_line(line: str) -> SocketLine | None:
    """Return a line of /proc/net/tcp or tcp6; None for the heading and anything else of another form."""
    words = line.split()
    try:
        return SocketLine(_parse_address(words[1]), _parse_address(words[2]), int(words[7]), int(words[9]))
    except (IndexError, ValueError):
        return None


def _parse_address(text: str) -> Address:
    """Return `0100007F:1D97` as 127.0.0.1 and 7575. Groups of four bytes stand in the byte order of the machine."""
    host, _, port = text.partition(":")
    raw = bytes.fromhex(host)
    if sys.byteorder == "little":
        raw = b"".join(raw[at : at + 4][::-1] for at in range(0, len(raw), 4))
    return _plain_address((str(ipaddress.ip_address(raw)), int(port, 16)))


def _plain_address(address: Address) -> Address:
    """Return an address in one spelling: an IPv4 address inside of IPv6 as IPv4, and without a zone."""
    host = ipaddress.ip_address(address[0].partition("%")[0])
    mapped = host.ipv4_mapped if isinstance(host, ipaddress.IPv6Address) else None
    return str(mapped or host), address[1]
