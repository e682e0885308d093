"""Only the user who started the server, and root, reach it on loopback."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest
from yarl import URL

from assay.view.guard import Guard
from assay.view.peers import NOBODY, UNKNOWN, Address, PeerCheck, parse_line, peer_user

from support.web import view_of

# Recorded on a machine with little-endian byte order. The user is 1000 on the client's side.
HEADING = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode"
SERVER = (
    "  50: 0100007F:1D97 0100007F:C68A 01 00000000:00000000 00:00000000 00000000     0        0 1247865 1 "
    "00000000f2af011c 20 0 0 10 -1"
)
CLIENT = (
    "  54: 0100007F:C68A 0100007F:1D97 01 00000000:00000000 00:00000000 00000000  1000        0 1247864 2 "
    "00000000d0f48e07 20 0 0 10 -1"
)
# The client has closed its socket: the kernel lists it without an inode, as if it belonged to root.
CLOSED = (
    "  54: 0100007F:C68A 0100007F:1D97 05 00000000:00000000 03:0000176F 00000000     0        0 0 3 00000000d6b468bc"
)
# A client that uses an IPv6 socket for 127.0.0.1 is in the other table.
MAPPED = (
    "  54: 0000000000000000FFFF00000100007F:C68A 0000000000000000FFFF00000100007F:1D97 01 00000000:00000000 "
    "00:00000000 00000000  1001        0 1247864 2 00000000d0f48e07 20 0 0 10 -1"
)
LOOPBACK6 = (
    "   1: 00000000000000000000000001000000:C68A 00000000000000000000000001000000:1D97 01 00000000:00000000 "
    "00:00000000 00000000  1002        0 30001 1 00000000d0f48e07 20 0 0 10 -1"
)
PEER, OWN = ("127.0.0.1", 0xC68A), ("127.0.0.1", 0x1D97)

little_endian = pytest.mark.skipif(sys.byteorder != "little", reason="the lines were recorded on another machine")
linux = pytest.mark.skipif(not Path("/proc/net/tcp").is_file(), reason="this system lists no sockets")


def table(folder: Path, *lines: str) -> list[Path]:
    path = folder / "tcp"
    path.write_text("\n".join([HEADING, *lines]) + "\n")
    return [path, folder / "no-such-table"]


@little_endian
def test_the_user_of_a_connection_is_read_from_the_line_of_its_other_end(tmp_path: Path) -> None:
    assert peer_user(PEER, OWN, table(tmp_path, SERVER, CLIENT)) == 1000
    assert peer_user(PEER, OWN, table(tmp_path, SERVER, MAPPED)) == 1001
    assert peer_user(("::ffff:127.0.0.1", PEER[1]), OWN, table(tmp_path, SERVER, CLIENT)) == 1000
    assert peer_user(("::1", PEER[1]), ("::1", OWN[1]), table(tmp_path, LOOPBACK6)) == 1002


@little_endian
def test_a_connection_that_its_user_has_closed_belongs_to_nobody(tmp_path: Path) -> None:
    """The kernel lists it with user 0, which is root."""
    assert peer_user(PEER, OWN, table(tmp_path, SERVER, CLOSED)) == NOBODY
    assert peer_user(PEER, OWN, table(tmp_path, SERVER)) == NOBODY


def test_a_system_that_lists_no_sockets_says_nothing(tmp_path: Path) -> None:
    assert peer_user(PEER, OWN, [tmp_path / "nothing"]) == UNKNOWN
    assert peer_user(PEER, OWN, table(tmp_path)) == UNKNOWN
    assert parse_line(HEADING) is None
    assert parse_line("") is None
    assert parse_line("1: zz:1 0:2 a b c d e f g") is None


@linux
def test_a_connection_of_our_own_is_ours() -> None:
    for family, host in ((socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")):
        with socket.socket(family) as server:
            try:
                server.bind((host, 0))
            except OSError:
                continue  # a machine without IPv6
            server.listen()
            with socket.create_connection(server.getsockname()[:2]) as client:
                own, peer = server.getsockname()[:2], client.getsockname()[:2]
                with server.accept()[0]:
                    assert peer_user(peer, own) == os.getuid()
                    client.close()
                    assert peer_user(peer, own) == NOBODY


# What another user of the machine would do.
ASK = """
import encodings.idna, os, sys, urllib.request
# The interpreter may lie in a folder that only root can read, so it starts as root.
os.setgroups([])
os.setgid(65534)
os.setuid(65534)
request = urllib.request.Request(sys.argv[1], headers={"Cookie": sys.argv[2]})
print(urllib.request.urlopen(request).status)
"""


@linux
@pytest.mark.skipif(os.getuid() != 0, reason="only root can become another user")
def test_another_user_of_the_machine_is_refused_and_a_token_lets_in(tmp_path: Path) -> None:
    async def ask_as_another(address: URL, cookie: str = "") -> str:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-c", ASK, str(address), cookie),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
        )
        out, _ = await process.communicate()
        return out.decode().strip().splitlines()[-1]

    async def ask() -> None:
        async with view_of(tmp_path) as client:
            assert "403" in await ask_as_another(client.make_url("/"))
            assert (await client.get("/")).status == 200
        guard = Guard("127.0.0.1", needs_secret=True)
        async with view_of(tmp_path, guard) as client:
            address = client.make_url("/")
            assert "403" in await ask_as_another(address)
            assert await ask_as_another(address, f"assay_view_{address.port}={guard.secret}") == "200"

    asyncio.run(ask())


def test_a_connection_is_looked_up_once_and_other_users_are_refused() -> None:
    looked: list[tuple[Address, Address]] = []

    def user_of(peer: Address, own: Address) -> int:
        looked.append((peer, own))
        return users.pop()

    async def ask() -> None:
        server = await asyncio.start_server(lambda _, writer: accepted.put_nowait(writer), "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        clients = [await asyncio.open_connection(host, port) for _ in users]
        writers = [await accepted.get() for _ in clients]
        for _ in range(3):
            answers = [await check.is_ours(writer.transport) for writer in writers]
            assert answers == [True, True, True, False, False]
        assert len(looked) == len(clients)
        assert all(own == (host, port) for _, own in looked)
        assert not await check.is_ours(None)
        for writer in (*writers, *(writer for _, writer in clients)):
            writer.close()
        server.close()

    users = [os.getuid() + 1, NOBODY, UNKNOWN, 0, os.getuid()]
    accepted: asyncio.Queue[asyncio.StreamWriter] = asyncio.Queue()
    check = PeerCheck(user_of)
    asyncio.run(ask())
