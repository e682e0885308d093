"""Connections: used again, closed in time, and never a request sent twice that may be paid twice."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assay.core.errors import ModelError, UsageError
from assay.models.http.client import (
    REQUESTS_SPENT,
    ConnectionPool,
    HttpConnection,
    HttpEndpoint,
    RequestLimit,
    bearer,
    request_limit,
)
from assay.models.http.dialer import Dialer
from assay.models.http.wire import ServerDisconnected

from servers.wired import OK, Run, Wire, Wired, failure, says


async def silent(wire: Wire) -> None:
    """A server that reads and never answers."""
    await wire.request()
    await wire.closed()


async def once(wire: Wire) -> None:
    """A server that answers one request, reads a second one and closes without an answer."""
    await wire.request()
    await wire.send(OK)
    await wire.request()


async def once_then_silent(wire: Wire) -> None:
    await wire.request()
    await wire.send(OK)
    await silent(wire)


def pool_of(endpoint: HttpEndpoint) -> ConnectionPool:
    assert endpoint._pool is not None
    return endpoint._pool


def only(endpoint: HttpEndpoint) -> HttpConnection:
    (connection,) = pool_of(endpoint).connections
    return connection


def test_the_connection_used_last_is_used_next(run: Run) -> None:
    """As many connections as requests at once; one after the other needs one."""

    async def main() -> None:
        async with Wired(says(OK)) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            await asyncio.gather(*[endpoint.post("/x", b"") for _ in range(5)])
            assert len(server.wires) == 5
            last = pool_of(endpoint)._idle[-1]
            for _ in range(10):
                await endpoint.post("/x", b"")
                assert pool_of(endpoint)._idle[-1] is last
            assert sorted(len(wire.requests) for wire in server.wires) == [1, 1, 1, 1, 11]
            await endpoint.close()

    run(main)


def test_no_request_is_sent_beyond_a_limit(run: Run) -> None:
    """Those of other tasks have none."""

    async def main() -> None:
        async with Wired(says(OK)) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)

            async def limited() -> None:
                request_limit.set(RequestLimit(2))
                for _ in range(2):
                    await endpoint.post("/x", b"")
                with pytest.raises(ModelError, match="not sent: the limit of 2 requests is reached") as caught:
                    await endpoint.post("/x", b"")
                assert caught.value.failure.kind == REQUESTS_SPENT

            await asyncio.create_task(limited())
            await endpoint.post("/x", b"")
            assert sum(len(wire.requests) for wire in server.wires) == 3
            await endpoint.close()

    run(main)


def test_a_post_whose_kept_connection_breaks_is_not_sent_again(run: Run) -> None:
    """It may have been worked on, and paid; the caller decides."""

    async def main() -> None:
        async with Wired(once) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            await endpoint.post("/x", b"1")
            said = await failure(endpoint.post("/x", b"2"))
            assert said == ("connection", f"the connection to {server.url} broke: Server disconnected")
            assert [len(wire.requests) for wire in server.wires] == [2]
            assert (await endpoint.post("/x", b"3")).body == b"hi"
            await endpoint.close()

    run(main)


def test_a_get_whose_kept_connection_breaks_is_sent_once_more(run: Run) -> None:
    """On a new connection; one that breaks there fails."""

    async def main() -> None:
        async with Wired(once) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            assert [(await endpoint.get("/x")).body for _ in range(3)] == [b"hi"] * 3
            assert [len(wire.requests) for wire in server.wires] == [2, 2, 1]
            await endpoint.close()
        async with Wired(says(b"", close=True)) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            assert (await failure(endpoint.get("/x")))[0] == "connection"
            assert len(server.wires) == 1
            await endpoint.close()

    run(main)


def test_a_get_is_not_sent_again_after_a_byte_of_its_reply(run: Run) -> None:
    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.request()
        await wire.send(OK[:1])

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            await endpoint.get("/x")
            assert (await failure(endpoint.get("/x")))[0] == "connection"
            assert len(server.wires) == 1
            await endpoint.close()

    run(main)


@pytest.mark.parametrize("last", [b"", b"HTTP/1.1 408 Request Timeout\r\nContent-Length: 0\r\n\r\n"])
def test_a_connection_that_its_server_ended_meanwhile_is_not_used(run: Run, last: bytes) -> None:
    """Also not a connection on which the server sent data without a request."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await asyncio.sleep(0.01)
        await wire.send(last)
        if last:
            await wire.closed()

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            for _ in range(3):
                assert (await endpoint.post("/x", b"")).status == 200
                await server.wires[-1].ended.wait()
                for _ in range(20):
                    await asyncio.sleep(0.001)
                assert pool_of(endpoint).connections == set()
            assert [len(wire.requests) for wire in server.wires] == [1, 1, 1]
            await endpoint.close()

    run(main)


def test_a_connection_that_waited_long_is_closed_and_not_used(run: Run) -> None:
    """Its server may be about to close it."""

    async def main() -> None:
        async with Wired(says(OK)) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            await endpoint.post("/x", b"")
            only(endpoint).idle_since -= 16
            await endpoint.post("/x", b"")
            assert len(server.wires) == 2
            for connection in pool_of(endpoint).connections:
                connection.idle_since -= 16
            pool_of(endpoint)._sweep()
            await server.wires[-1].ended.wait()
            assert pool_of(endpoint)._idle == []
            await endpoint.close()

    run(main)


@pytest.mark.parametrize("script", [silent, once_then_silent, says(OK[:-1])])
def test_a_reply_that_takes_too_long_is_a_timeout(run: Run, script: Any) -> None:
    """On new connections as on kept ones, whether nothing came or a part; the connection is closed."""

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 0.25)
            if script is once_then_silent:
                await asyncio.gather(*[endpoint.post("/x", b"") for _ in range(3)])
            said = [asyncio.create_task(failure(endpoint.post("/x", b""))) for _ in range(3)]
            await asyncio.sleep(0)
            due = pool_of(endpoint)._deadlines.values()
            assert len(due) == (3 if script is once_then_silent else 0)
            assert all(pool_of(endpoint)._timer_due <= deadline for deadline in due)
            message = f"no answer from {server.url} within 0.25 s"
            assert await asyncio.gather(*said) == [("timeout", message)] * 3
            assert len(server.wires) == 3
            for wire in server.wires:
                await wire.ended.wait()
            assert (pool_of(endpoint)._deadlines, pool_of(endpoint)._idle) == ({}, [])
            await endpoint.close()

    run(main)


def test_each_request_has_its_own_deadline(run: Run) -> None:
    """A later one on a kept connection is not cut off with the first."""

    async def script(wire: Wire) -> None:
        while True:
            if (await wire.request()).endswith(b"slow"):
                await asyncio.sleep(0.4)
            await wire.send(OK)

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 2.0)
            for _ in range(6):
                await endpoint.post("/x", b"")
                await endpoint.post("/x", b"slow")
            assert len(server.wires) == 1
            await endpoint.close()

    run(main)


def test_a_cancelled_request_closes_its_connection(run: Run) -> None:
    """And leaves nothing behind, new or kept, connecting or waiting."""

    async def main() -> None:
        async with Wired(once_then_silent) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            await endpoint.post("/x", b"")
            for ticks in (0, 1, 2, 3, 5, 10, 20):
                task = asyncio.create_task(endpoint.post("/x", b""))
                for _ in range(ticks):
                    await asyncio.sleep(0)
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
                assert pool_of(endpoint)._deadlines == {}
            await endpoint.close()
            assert pool_of(endpoint).connections == set()

    run(main)


def test_cancelling_after_the_reply_leaves_the_next_request_alone(run: Run) -> None:
    """The connection may already carry another request, which must not be disturbed."""

    async def script(wire: Wire) -> None:
        await wire.request()
        await wire.send(OK)
        await wire.request()
        await wire.request()
        await wire.send(OK.replace(b"hi", b"3."))
        await wire.closed()

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            await endpoint.post("/x", b"")
            second = asyncio.create_task(endpoint.post("/x", b""))
            await asyncio.sleep(0.05)
            only(endpoint).data_received(OK)
            third = asyncio.create_task(endpoint.post("/x", b""))
            second.cancel()
            assert (await third).body == b"3."
            assert second.cancelled()
            assert len(server.wires) == 1
            await endpoint.close()

    run(main)


def test_closing_ends_what_is_under_way(run: Run) -> None:
    """Requests fail, sockets are closed when `close` returns, and nothing opens any more."""

    async def main() -> None:
        asked = asyncio.Semaphore(0)

        async def script(wire: Wire) -> None:
            await wire.request()
            asked.release()
            await wire.closed()

        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            await endpoint.close()
            under_way = [asyncio.create_task(failure(endpoint.post("/x", b""))) for _ in range(3)]
            await asyncio.gather(*[asked.acquire() for _ in range(3)])
            late = asyncio.create_task(failure(endpoint.post("/x", b"")))
            await asyncio.sleep(0)
            await endpoint.close()
            assert pool_of(endpoint).connections == set()
            said = {kind for kind, _ in await asyncio.gather(*under_way, late)}
            assert said == {"connection"}
            await endpoint.close()

    run(main)


@pytest.mark.parametrize("greeting", [b"", b"220 mail.example ESMTP\r\n"])
def test_a_server_that_speaks_or_hangs_up_before_it_is_asked_is_a_fault(run: Run, greeting: bytes) -> None:
    async def script(wire: Wire) -> None:
        await wire.send(greeting)

    async def main() -> None:
        async with Wired(script) as server:
            endpoint = HttpEndpoint(server.url, None, 20.0)
            said = [failure(endpoint.post("/x", b"x" * size)) for size in (1, 100_000, 3_000_000)]
            assert {kind for kind, _ in await asyncio.gather(*said)} == {"connection"}
            await endpoint.close()

    run(main)


def test_a_connection_that_ended_while_it_was_made_is_a_fault(run: Run) -> None:
    """Data written to a closing connection is lost silently, so the request fails at once."""

    class Late(Dialer):
        async def dial(self, protocol_factory: Any) -> Any:
            connection = await super().dial(protocol_factory)
            connection.abort()
            await asyncio.sleep(0.01)
            return connection

    async def main() -> None:
        async with Wired(says(OK)) as server:
            pool = ConnectionPool(Late("127.0.0.1", server.port, tls=False, timeout=20.0), 20.0)
            with pytest.raises(ServerDisconnected, match="Server disconnected"):
                await pool.send(b"GET / HTTP/1.1\r\n\r\n", idempotent=True)
            await pool.close()

    run(main)


def test_a_key_cannot_add_headers() -> None:
    with pytest.raises(UsageError, match="control character"):
        HttpEndpoint("http://127.0.0.1", bearer("k\r\nX: y"), 1.0)
