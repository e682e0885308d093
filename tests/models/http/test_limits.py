"""What a server may not do to us: replies without end, redirects to strangers, delays between head and body."""

from __future__ import annotations

import asyncio
import gzip
import resource
import socket
import zlib
from functools import cache

import pytest

from assay.core.errors import ModelError
from assay.models.http.client import HttpConnection, HttpEndpoint, bearer
from assay.models.http.wire import MAX_BODY_BYTES, MAX_GZIP_MEMBERS

from servers.wired import OK, Run, Script, Wire, Wired, says

PIECE = b"x" * (1 << 20)
CHUNK = b"100000\r\n" + PIECE + b"\r\n"
START = b"HTTP/1.1 200 OK\r\n"


def sends(head: bytes, piece: bytes = b"") -> Script:
    """A server that sends a head and then the same piece until its client goes away."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(head)
        while piece:
            wire.writer.write(piece)
            await wire.writer.drain()
        await wire.closed()

    return script


@cache
def bomb(encoding: str) -> bytes:
    """A small body that is too large when decompressed."""
    zeros = bytes(MAX_BODY_BYTES + 1)
    return gzip.compress(zeros, 1) if encoding == "gzip" else zlib.compress(zeros, 1)


def compressed(body: bytes, encoding: str) -> Script:
    head = f"Content-Encoding: {encoding}\r\nContent-Length: {len(body)}\r\n\r\n".encode()
    return says(START + head + body)


def sends_bomb(encoding: str) -> Script:
    """A server that makes its bomb when it is asked, which takes a fifth of a second."""

    async def script(wire: Wire) -> None:
        await compressed(bomb(encoding), encoding)(wire)

    return script


TOO_LARGE = {
    "a length": sends(START + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)),
    "chunks": sends(START + b"Transfer-Encoding: chunked\r\n\r\n", CHUNK),
    "one chunk": sends(START + b"Transfer-Encoding: chunked\r\n\r\n%x\r\n" % (MAX_BODY_BYTES + 1)),
    "until close": sends(START + b"\r\n", PIECE),
    "gzip": sends_bomb("gzip"),
    "deflate": sends_bomb("deflate"),
    "an error": sends(b"HTTP/1.1 500 Oops\r\n\r\n", PIECE),
    "gzip members": compressed(gzip.compress(b"") * (MAX_GZIP_MEMBERS + 1), "gzip"),
}


@pytest.mark.parametrize("script", TOO_LARGE.values(), ids=TOO_LARGE)
def test_a_reply_without_end_fails_its_call_and_is_not_asked_for_again(run: Run, script: Script) -> None:
    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 60.0)
            with pytest.raises(
                ModelError, match=r"sent a reply that cannot be used: its body (is larger|has more)"
            ) as caught:
                await endpoint.post("/x", b"")
            assert caught.value.failure.kind == "bad_reply"
            assert not caught.value.retry
            await endpoint.close()

    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    run(main)
    grown = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024
    assert grown < 5 * (MAX_BODY_BYTES >> 20)


def test_many_replies_without_end_have_a_limit_together(run: Run) -> None:
    async def main() -> None:
        async with Wired(sends(START + b"\r\n", PIECE)) as server:
            endpoint = HttpEndpoint(server.url, None, 60.0)
            outcomes = await asyncio.gather(*(endpoint.post("/x", b"") for _ in range(16)), return_exceptions=True)
            messages = [str(outcome) for outcome in outcomes if isinstance(outcome, ModelError)]
            assert len(messages) == 16
            assert any("arrive at once are larger than 256 MB together" in message for message in messages)
            await endpoint.close()
        assert HttpConnection.open_bytes == 0

    run(main)


@pytest.mark.parametrize("encoding", ["", "gzip"])
def test_a_body_of_the_largest_size_is_read(run: Run, encoding: str) -> None:
    body = bytes(MAX_BODY_BYTES)
    script = (
        compressed(gzip.compress(body, 1), "gzip")
        if encoding
        else says(START + b"Content-Length: %d\r\n\r\n" % len(body) + body)
    )

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 60.0)
            assert len((await endpoint.post("/x", b"")).body) == MAX_BODY_BYTES
            await endpoint.close()

    run(main)


def redirect(status: int, location: str) -> bytes:
    return f"HTTP/1.1 {status} Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n".encode()


@pytest.mark.parametrize("status", [307, 308])
def test_a_redirect_on_the_same_server_is_followed_with_body_and_key(run: Run, status: int) -> None:
    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            await wire.send(redirect(status, "/v2/x?y=1") if b"/v1/" in request else OK)

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, bearer("key"), 20.0)
            assert (await endpoint.post("/x", b"body", {"X-Own": "1"})).body == b"hi"
            (wire,) = server.wires
            first, second = wire.requests
            assert second == first.replace(b"/v1/x", b"/v2/x?y=1")
            assert b"Bearer key" in second
            assert second.endswith(b"body")
            await endpoint.close()

    run(main)


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
@pytest.mark.parametrize("method", ["get", "post"])
def test_no_key_is_sent_to_another_server(run: Run, status: int, method: str) -> None:
    async def main() -> None:
        async with Wired(says(OK)) as stranger:
            target = f"http://localhost:{stranger.port}/v1/x"
            async with Wired(says(redirect(status, target))) as server:
                endpoint = HttpEndpoint(server.url, bearer("key"), 20.0)
                sent = endpoint.get("/x") if method == "get" else endpoint.post("/x", b"")
                with pytest.raises(ModelError) as caught:
                    await sent
                assert caught.value.failure.message == (
                    f"{server.url} answered {status} and redirects to {target}. The key and the request are not sent "
                    f"to another server. To use that address, pass --base-url http://localhost:{stranger.port}/v1"
                )
                assert not caught.value.retry
                assert stranger.wires == []
                await endpoint.close()

    run(main)


@pytest.mark.parametrize("status", [301, 302, 303])
def test_a_post_is_not_turned_into_a_get(run: Run, status: int) -> None:
    async def main() -> None:
        async with Wired(says(redirect(status, "/api/v1/x"))) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            with pytest.raises(ModelError, match=rf"answered {status} .* pass --base-url http://127.0.0.1:\d+/api/v1$"):
                await endpoint.post("/x", b"")
            (wire,) = server.wires
            assert len(wire.requests) == 1
            await endpoint.close()

    run(main)


@pytest.mark.parametrize("status", [301, 307])
def test_redirects_in_a_circle_end(run: Run, status: int) -> None:
    async def main() -> None:
        async with Wired(says(redirect(status, "/v1/x"))) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            with pytest.raises(ModelError, match="redirects more than 5 times, now to http://"):
                await (endpoint.get("/x") if status == 301 else endpoint.post("/x", b""))
            await endpoint.close()

    run(main)


@pytest.mark.parametrize("location", ["ftp://x/y", "http://[::1", "http://x:99999999/"])
def test_a_redirect_to_no_address_is_named(run: Run, location: str) -> None:
    async def main() -> None:
        async with Wired(says(redirect(307, location))) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            with pytest.raises(ModelError) as caught:
                await endpoint.post("/x", b"")
            assert caught.value.failure.message == f"{server.url} answered 307 and redirects to {location!r}"
            await endpoint.close()

    run(main)


@pytest.mark.skipif(not hasattr(socket, "TCP_QUICKACK"), reason="Linux only")
def test_the_head_of_a_reply_is_acknowledged_before_the_body_comes(run: Run) -> None:
    """A server with Nagle's algorithm sends the body after that ACK, which Linux would delay by 40 ms.

    After some exchanges the system takes a connection for a dialogue and delays its ACKs: the option reads 0 then.
    """

    async def main() -> None:
        may_send = asyncio.Event()

        async def script(wire: Wire) -> None:
            while True:
                await wire.request()
                await wire.send(START + b"Content-Length: 2\r\n\r\n")
                await may_send.wait()
                await wire.send(b"hi")

        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            may_send.set()
            for _ in range(10):
                assert (await endpoint.post("/x", b"{}")).body == b"hi"
            may_send.clear()
            asking = asyncio.ensure_future(endpoint.post("/x", b"{}"))
            assert endpoint._pool is not None
            (connection,) = endpoint._pool.connections
            await _head_arrived(connection)
            assert connection.socket.getsockopt(socket.IPPROTO_TCP, socket.TCP_QUICKACK) == 1
            may_send.set()
            assert (await asking).body == b"hi"
            await endpoint.close()

    run(main)


async def _head_arrived(connection: HttpConnection) -> None:
    while connection._parser is None:  # noqa: ASYNC110 - the parser exists once the first piece was read
        await asyncio.sleep(0.001)
