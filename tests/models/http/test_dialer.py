"""The way to an endpoint: addresses that refuse or are silent, and certificates that are not trusted."""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Iterator
from pathlib import Path

import pytest
from aiohappyeyeballs import AddrInfoType

from assay.core.errors import ModelError
from assay.models.http.client import ConnectionPool, HttpEndpoint, bearer
from assay.models.http.dialer import ConnectError, Dialer

from servers.wired import OK, Run, Wired, failure, says

CERTIFICATE = Path(__file__).parents[2] / "golden" / "tls" / "cert.pem"


def refused() -> int:
    """A port without a listener."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port: int = listener.getsockname()[1]
        return port


@pytest.mark.parametrize(("scheme", "host"), [("http", "127.0.0.1"), ("https", "127.0.0.1"), ("http", "x" * 70)])
def test_an_endpoint_that_is_not_there_is_unreachable(run: Run, scheme: str, host: str) -> None:
    async def main() -> None:
        url = f"{scheme}://{host}:{refused()}"
        endpoint = HttpEndpoint(url, None, 20.0)
        kind, message = await failure(endpoint.post("/x", b""))
        assert kind == "unreachable"
        assert message.startswith(f"{url} cannot be reached: ")
        assert len(message) > len(f"{url} cannot be reached: ") + 5
        await endpoint.close()

    run(main)


def address(port: int) -> AddrInfoType:
    return (socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP, "", ("127.0.0.1", port))


@pytest.fixture
def deaf() -> Iterator[int]:
    """A port that neither accepts nor refuses connections."""
    with socket.socket() as listener, socket.socket() as first, socket.socket() as second:
        listener.bind(("127.0.0.1", 0))
        listener.listen(0)
        port: int = listener.getsockname()[1]
        for client in (first, second):
            client.settimeout(0)
            client.connect_ex(("127.0.0.1", port))
        yield port


def dialer_to(ports: list[int]) -> Dialer:
    """A dialer for a name that has an address for each of these ports."""
    dialer = Dialer("several.invalid", 1, tls=False, timeout=20.0)
    dialer._addresses = [address(port) for port in ports]
    dialer._addresses_expire = asyncio.get_running_loop().time() + 60
    return dialer


def test_a_name_with_several_addresses_is_reached_by_the_one_that_answers(run: Run, deaf: int) -> None:
    """After one that refuses, after one that is silent, and whichever comes first."""

    async def main() -> None:
        async with Wired(says(OK)) as server:
            for others in ([refused()], [deaf], [refused(), deaf, refused()]):
                pool = ConnectionPool(dialer_to([*others, server.port]), 20.0)
                assert (await pool.send(b"GET / HTTP/1.1\r\n\r\n", idempotent=True)).body == b"hi"
                await pool.close()

    run(main)


def test_all_addresses_that_fail_are_told(run: Run) -> None:
    async def main() -> None:
        ports = [refused(), refused()]
        with pytest.raises(ConnectError, match=r"(?i)conn") as caught:
            await dialer_to(ports).dial(lambda _: asyncio.Protocol())
        assert all(f"('127.0.0.1', {port})" in str(caught.value) for port in ports)

    run(main)


def test_an_endpoint_that_is_silent_while_connecting_is_unreachable(run: Run, deaf: int) -> None:
    async def main() -> None:
        with pytest.raises(ConnectError, match="it does not answer"):
            await Dialer("127.0.0.1", deaf, tls=False, timeout=0.1).dial(lambda _: asyncio.Protocol())

    run(main)


def served() -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(CERTIFICATE, CERTIFICATE.with_name("key.pem"))
    return context


def test_tls_with_a_trusted_certificate(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies of any form, and the connection is kept."""
    monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))
    large = b"x" * 3_000_000
    sent = OK.replace(b": 2", b": %d" % len(large)).replace(b"hi", large)

    async def main() -> None:
        async with Wired(says(sent), served()) as server:
            endpoint = HttpEndpoint(f"https://localhost:{server.port}", bearer("k"), 20.0)
            for _ in range(3):
                assert (await endpoint.post("/x", large)).body == large
            assert len(server.wires) == 1
            await endpoint.close()
        async with Wired(says(b"HTTP/1.0 200 OK\r\n\r\nhi there", close=True), served()) as server:
            endpoint = HttpEndpoint(f"https://localhost:{server.port}", bearer("k"), 20.0)
            assert (await endpoint.get("/x")).body == b"hi there"
            await endpoint.close()

    run(main)


@pytest.mark.parametrize(
    ("trusted", "host", "said"),
    [(False, "localhost", "certificate verify failed"), (True, "127.0.0.1", "certificate is not valid for")],
)
def test_tls_without_trust_is_unreachable(
    run: Run, monkeypatch: pytest.MonkeyPatch, trusted: bool, host: str, said: str
) -> None:
    """A self-signed certificate, or one of another host: no request is sent."""
    if trusted:
        monkeypatch.setenv("SSL_CERT_FILE", str(CERTIFICATE))

    async def main() -> None:
        async with Wired(says(OK), served()) as server:
            endpoint = HttpEndpoint(f"https://{host}:{server.port}", bearer("k"), 20.0)
            with pytest.raises(ModelError) as caught:
                await endpoint.post("/x", b"")
            assert caught.value.failure.kind == "unreachable"
            assert not caught.value.retry
            assert said in caught.value.failure.message
            assert [wire.requests for wire in server.wires if wire.requests] == []
            await endpoint.close()

    run(main)


def test_tls_to_a_server_without_it_is_unreachable(run: Run) -> None:
    async def main() -> None:
        async with Wired(says(OK)) as server:
            endpoint = HttpEndpoint(f"https://127.0.0.1:{server.port}", bearer("k"), 0.5)
            assert (await failure(endpoint.post("/x", b"")))[0] in ("unreachable", "timeout")
            await endpoint.close()

    run(main)
