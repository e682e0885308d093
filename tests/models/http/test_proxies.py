"""Which requests go through a proxy, what a proxy may do, and that its password is never told."""

from __future__ import annotations

import asyncio
import gzip
import os
from collections.abc import Iterator
from contextlib import suppress

import pytest

from assay.core.errors import ModelError, UsageError
from assay.core.roles import Network
from assay.files.redact import secrets_from_environment
from assay.models.http.client import HttpEndpoint, bearer
from assay.models.http.proxies import Proxy, proxy_for
from assay.models.http.wire import MAX_BODY_BYTES

from servers.lasting_tunnel import LastingTunnel
from servers.loopback import LoopbackServer, chat
from servers.proxies import ProxyServer
from servers.tls import CA_FILE, server_context
from servers.wired import Run, Script, Wire, Wired, says

HTTP, HTTPS, ALL = "http://p1:1", "http://p2:2", "http://p3:3"


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("url", "environ", "proxy"),
    [
        ("http://a/v1", {}, None),
        ("http://a/v1", {"HTTP_PROXY": HTTP, "HTTPS_PROXY": HTTPS, "ALL_PROXY": ALL}, HTTP),
        ("https://a/v1", {"HTTP_PROXY": HTTP, "HTTPS_PROXY": HTTPS, "ALL_PROXY": ALL}, HTTPS),
        ("https://a/v1", {"HTTP_PROXY": HTTP, "all_proxy": ALL}, ALL),
        ("https://a/v1", {"HTTP_PROXY": HTTP}, None),
        ("http://a/v1", {"HTTP_PROXY": HTTP, "http_proxy": ALL}, ALL),
        ("http://a/v1", {"http_proxy": "", "HTTP_PROXY": " ", "ALL_PROXY": ALL}, ALL),
        ("http://a/v1", {"HTTP_PROXY": "proxy.example:3128"}, "http://proxy.example:3128"),
        ("http://a/v1", {"HTTP_PROXY": "http://proxy.example"}, "http://proxy.example:80"),
        ("http://a/v1", {"HTTP_PROXY": "http://[fd00::1]:3128/"}, "http://[fd00::1]:3128"),
        # Loopback addresses have no proxy, as in Go.
        ("http://127.0.0.1:8000/v1", {"HTTP_PROXY": HTTP}, None),
        ("http://127.9.9.9:8000/v1", {"HTTP_PROXY": HTTP}, None),
        ("http://localhost:8000/v1", {"ALL_PROXY": HTTP}, None),
        ("http://vllm.localhost/v1", {"ALL_PROXY": HTTP}, None),
        ("http://[::1]:8000/v1", {"HTTP_PROXY": HTTP}, None),
        ("http://10.0.0.1:8000/v1", {"HTTP_PROXY": HTTP}, HTTP),
        ("no url", {"HTTP_PROXY": HTTP}, None),
    ],
)
def test_the_proxy_of_a_url_is_in_the_environment(url: str, environ: dict[str, str], proxy: str | None) -> None:
    found = proxy_for(url, environ)
    assert (found.url if found else None) == proxy


@pytest.mark.parametrize(
    ("no_proxy", "url", "excluded"),
    [
        ("*", "http://a.b/v1", True),
        ("a.b", "http://a.b/v1", True),
        ("a.b", "http://x.a.b/v1", True),
        ("a.b", "http://xa.b/v1", False),
        (".a.b", "http://x.a.b/v1", True),
        (".a.b", "http://a.b/v1", True),
        ("*.a.b", "http://x.a.b/v1", True),
        ("A.b", "http://a.B./v1", True),
        ("c, d  a.b", "http://a.b/v1", True),
        ("a.b:80", "http://a.b/v1", True),
        ("a.b:443", "https://a.b/v1", True),
        ("a.b:8080", "http://a.b/v1", False),
        ("10.1.2.3", "http://10.1.2.3/v1", True),
        ("10.1.2.3:81", "http://10.1.2.3/v1", False),
        ("10.0.0.0/8", "http://10.1.2.3/v1", True),
        ("10.0.0.0/8", "http://11.1.2.3/v1", False),
        ("2.3", "http://10.1.2.3/v1", False),
        ("fd00::/8", "http://[fd00::7]/v1", True),
        ("[fd00::7]", "http://[fd00::7]/v1", True),
        ("[fd00::7]:80", "http://[fd00::7]/v1", True),
        ("fd00:0::7", "http://[fd00::7]/v1", True),
        ("fd00::/8", "http://[fe00::7]/v1", False),
        ("10.0.0.0/8", "http://a.b/v1", False),
        ("", "http://a.b/v1", False),
        (", .", "http://a.b/v1", False),
    ],
)
@pytest.mark.parametrize("name", ["no_proxy", "NO_PROXY"])
def test_hosts_of_no_proxy_have_none(name: str, no_proxy: str, url: str, excluded: bool) -> None:
    assert (proxy_for(url, {"ALL_PROXY": HTTP, name: no_proxy}) is None) is excluded


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("socks5://ann:secret@p:1", "ALL_PROXY names a SOCKS proxy, which assay does not support"),
        (
            "https://ann:secret@p:1",
            r"ALL_PROXY names a proxy that is itself reached by https://, .*http://HOST:PORT, or .* in NO_PROXY",
        ),
        ("ftp://ann:secret@p:1", "ALL_PROXY is no URL of an HTTP proxy"),
        ("http://ann:secret@p:port", "ALL_PROXY is no URL; write http://HOST:PORT"),
        ("http://", "ALL_PROXY is no URL of an HTTP proxy"),
    ],
)
def test_a_proxy_that_is_not_http_is_refused_without_its_password(value: str, message: str) -> None:
    with pytest.raises(UsageError, match=message) as caught:
        proxy_for("https://a/v1", {"ALL_PROXY": value})
    assert "secret" not in str(caught.value)


def test_the_password_of_a_proxy_is_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    proxy = proxy_for("http://a/v1", {"HTTP_PROXY": "http://ann:open%3Asesame@p:1"})
    assert proxy == Proxy("http://p:1", "HTTP_PROXY", "ann", "open:sesame")
    assert "sesame" not in repr(proxy)
    monkeypatch.setenv("HTTPS_PROXY", "http://ann:open%3Asesame@p:1")
    assert {"open%3Asesame", "open:sesame"} <= set(secrets_from_environment())


@pytest.fixture(scope="module")
def proxy() -> Iterator[ProxyServer]:
    with ProxyServer("ann", "secret word") as server:
        yield server


def use(monkeypatch: pytest.MonkeyPatch, proxy: ProxyServer, login: str = "ann:secret%20word@") -> None:
    monkeypatch.setenv("ALL_PROXY", f"http://{login}127.0.0.1:{proxy.port}")


async def ask(url: str, network: Network | None = None) -> ModelError:
    """Return the error of a request."""
    endpoint = HttpEndpoint(url, bearer("key"), 20.0, network or Network())
    try:
        with pytest.raises(ModelError) as caught:
            await endpoint.post("/x", b"{}")
        return caught.value
    finally:
        await endpoint.close()


@pytest.mark.parametrize("login", ["", "ann:wrong@"])
@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_wants_another_password_stops_the_run(
    run: Run, monkeypatch: pytest.MonkeyPatch, proxy: ProxyServer, login: str, scheme: str
) -> None:
    use(monkeypatch, proxy, login)

    async def main() -> None:
        error = await ask(f"{scheme}://models.example:9/v1")
        assert error.failure.kind == "auth"
        assert not error.retry
        problem = "does not accept the user and password" if login else "requires a user and password"
        assert error.failure.message == (
            f"the proxy {proxy.url} {problem} (407). Write ALL_PROXY=http://USER:PASSWORD@HOST:PORT"
        )

    run(main)


@pytest.mark.parametrize("scheme", ["http", "https"])
def test_a_proxy_that_is_not_there_is_named(run: Run, monkeypatch: pytest.MonkeyPatch, scheme: str) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://ann:secret@127.0.0.1:1")

    async def main() -> None:
        error = await ask(f"{scheme}://models.example/v1")
        assert (error.failure.kind, error.retry) == ("unreachable", True)
        start = f"{scheme}://models.example/v1 cannot be reached: the proxy http://127.0.0.1:1 cannot be reached: "
        assert error.failure.message.startswith(start)
        assert "secret" not in error.failure.message

    run(main)


def test_an_endpoint_that_the_proxy_does_not_reach_is_unreachable(
    run: Run, monkeypatch: pytest.MonkeyPatch, proxy: ProxyServer
) -> None:
    use(monkeypatch, proxy)

    async def main() -> None:
        error = await ask("https://models.example:9/v1")
        assert (error.failure.kind, error.retry) == ("unreachable", True)
        assert f"the proxy {proxy.url} answered 502 Bad Gateway" in error.failure.message

    run(main)


@pytest.mark.parametrize("trust", ["--ca-file", "SSL_CERT_FILE", "--insecure", ""])
def test_certificates_are_checked_through_a_proxy_too(
    run: Run, monkeypatch: pytest.MonkeyPatch, proxy: ProxyServer, trust: str
) -> None:
    use(monkeypatch, proxy)
    network = Network()
    if trust == "--ca-file":
        network = Network(ca_file=str(CA_FILE))
    elif trust == "--insecure":
        network = Network(insecure=True)
    elif trust:
        monkeypatch.setenv("SSL_CERT_FILE", str(CA_FILE))

    async def main() -> None:
        with LoopbackServer(lambda _: (200, chat("hi")), tls=server_context()) as server:
            url = server.url_of("models.example")
            if trust:
                endpoint = HttpEndpoint(url, bearer("key"), 20.0, network)
                for _ in range(2):
                    assert (await endpoint.post("/x", b"{}")).status == 200
                await endpoint.close()
            else:
                error = await ask(url)
                assert (error.failure.kind, error.retry) == ("unreachable", False)
                for words in ("certificate verify failed", "--ca-file", "SSL_CERT_FILE", "--insecure"):
                    assert words in error.failure.message
                assert server.bodies == []

    run(main)


START = b"HTTP/1.1 200 OK\r\n"


async def _bomb(wire: Wire) -> None:
    bomb = gzip.compress(bytes(MAX_BODY_BYTES + 1), 1)
    await says(START + b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(bomb) + bomb)(wire)


async def _endless(wire: Wire) -> None:
    await wire.request()
    await wire.send(START + b"\r\n")
    while True:
        wire.writer.write(bytes(1 << 20))
        await wire.writer.drain()


@pytest.mark.parametrize(
    "script",
    [
        says(START + b"Content-Length: %d\r\n\r\n" % (MAX_BODY_BYTES + 1)),
        _bomb,
        _endless,
    ],
    ids=["length", "gzip", "until close"],
)
def test_replies_through_a_proxy_have_the_same_limits(
    run: Run, monkeypatch: pytest.MonkeyPatch, script: Script
) -> None:
    """The server of the script stands for the proxy: that one passes on what it gets."""

    async def main() -> None:
        async with Wired(script) as server:
            monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{server.port}")
            error = await ask("http://models.example/v1")
            assert (error.failure.kind, error.retry) == ("bad_reply", False)
            assert "its body is larger than 64 MB" in error.failure.message

    run(main)


def test_redirects_and_gzip_are_read_through_a_proxy(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    small = gzip.compress(b"hello")

    async def script(wire: Wire) -> None:
        while True:
            request = await wire.request()
            if b"/v1/" in request:
                await wire.send(b"HTTP/1.1 308 Moved\r\nLocation: /v2/x\r\nContent-Length: 0\r\n\r\n")
            else:
                head = b"Content-Encoding: gzip\r\nContent-Length: %d\r\n\r\n" % len(small)
                await wire.send(START + head + small)

    async def main() -> None:
        async with Wired(script) as server:
            monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{server.port}")
            endpoint = HttpEndpoint("http://models.example/v1", bearer("key"), 20.0)
            assert (await endpoint.post("/x y", b"body", {"X-Own": "1"})).body == b"hello"
            first, second = [request for wire in server.wires for request in wire.requests]
            assert first.startswith(b"POST http://models.example/v1/x%20y HTTP/1.1\r\n")
            assert b"X-Own: 1\r\n" in first
            assert second.endswith(b"body")
            # A request is the same with and without a proxy.
            assert b"User-Agent" not in first
            assert b"Accept" not in first
            with pytest.raises(UsageError, match="line break"):
                await endpoint.post("/x", b"", {"X-Own": "1\r\nX-Other: 2"})
            await endpoint.close()

    run(main)


@pytest.mark.parametrize(
    "reply",
    [
        b"",
        b"HTTP/1.1 200 OK\r\nContent-Length: 99999999999\r\n\r\n",
        b"HTTP/1.1 nonsense\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=["timeout", "too large", "no HTTP", "Connection: close"],
)
def test_a_tls_connection_through_a_proxy_is_closed_although_the_other_side_stays_open(
    run: Run, monkeypatch: pytest.MonkeyPatch, reply: bytes
) -> None:
    """A socket that is left open is a warning when Python collects it, and warnings are errors here."""
    with LastingTunnel(reply) as tunnel:
        monkeypatch.setenv("HTTPS_PROXY", tunnel.url)

        async def main() -> None:
            network = Network(ca_file=str(CA_FILE))
            endpoint = HttpEndpoint("https://models.example/v1", {}, 5.0 if reply else 0.5, network)
            with suppress(ModelError):
                await endpoint.post("/x", b"{}")
            await endpoint.close()

        run(main)


def test_a_proxy_that_is_silent_ends_in_a_timeout(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> None:
        never = asyncio.Event()

        async def silent(wire: Wire) -> None:
            await never.wait()

        async with Wired(silent) as server:
            monkeypatch.setenv("ALL_PROXY", f"http://127.0.0.1:{server.port}")
            endpoint = HttpEndpoint("http://models.example/v1", None, 0.1)
            with pytest.raises(ModelError, match=r"no answer from http://models.example/v1 within 0.1 s"):
                await endpoint.post("/x", b"")
            await endpoint.close()

    run(main)


@pytest.mark.parametrize(
    ("answer", "kind", "message"),
    [
        (b"", "unreachable", "the proxy {url} closed the connection"),
        (b"HTTP/1.1 403 Forbidden\r\n\r\n", "unreachable", "the proxy {url} answered 403 Forbidden"),
        (b"SSH-2.0-x\r\n", "unreachable", "the proxy {url} is no HTTP proxy: it sent no HTTP response"),
        (
            b"HTTP/1.1 200 OK\r\nX: " + b"x" * 70_000,
            "unreachable",
            "is no HTTP proxy: its headers are longer than 64 KB",
        ),
    ],
    ids=["nothing", "403", "no HTTP", "endless head"],
)
def test_a_proxy_that_opens_no_tunnel_says_why(
    run: Run, monkeypatch: pytest.MonkeyPatch, answer: bytes, kind: str, message: str
) -> None:
    async def main() -> None:
        async def script(wire: Wire) -> None:
            await wire.reader.readuntil(b"\r\n\r\n")
            await wire.send(answer)
            wire.writer.close()

        async with Wired(script) as server:
            monkeypatch.setenv("ALL_PROXY", url := f"http://127.0.0.1:{server.port}")
            error = await ask("https://models.example/v1")
            assert (error.failure.kind, error.retry) == (kind, True)
            assert message.format(url=url) in error.failure.message

    run(main)


def test_a_proxy_whose_name_is_unknown_is_named(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ALL_PROXY", "http://nowhere.invalid:3128")

    async def main() -> None:
        error = await ask("https://models.example/v1")
        assert (error.failure.kind, error.retry) == ("unreachable", True)
        assert "the proxy http://nowhere.invalid:3128 cannot be reached: " in error.failure.message

    run(main)
