"""HTTP requests through a proxy: plain ones to an http:// URL, TLS through CONNECT to an https:// URL.

    client = ProxiedClient(proxy, timeout=60.0, network=Network())
    response = await client.send("POST", "https://models.example/v1/chat/completions", headers, body)

aiohttp speaks to the proxy. The own client in `client.py` is faster, but behind a proxy its speed matters less
than the details of CONNECT. Limits and errors are those of the own client.
"""

from __future__ import annotations

import asyncio
import base64
import socket
import ssl
import time
import weakref
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from assay.core.errors import ModelError
from assay.core.roles import Network
from assay.core.types import Failure
from assay.models.http.dialer import CONNECT_SECONDS, ConnectError, tls_context, tls_error
from assay.models.http.proxies import Proxy
from assay.models.http.wire import (
    MAX_BODY_BYTES,
    MAX_HEAD_BYTES,
    HttpResponse,
    ResponseError,
    ResponseTooLarge,
    decompress,
    parse_content_encoding,
)

if TYPE_CHECKING:
    import aiohttp

# Headers that aiohttp would add. The own client sends none of them, and a request does not depend on a proxy.
_AUTO_HEADERS = ("Accept", "Accept-Encoding", "User-Agent")
# Seconds that closing may take at most, and between two looks whether all sockets are closed.
CLOSE_SECONDS = 5.0
_POLL_SECONDS = 0.001


class ProxiedClient:
    """Kept-alive connections to one proxy. It belongs to the event loop of its first request."""

    def __init__(self, proxy: Proxy, timeout: float, network: Network) -> None:
        self._proxy = proxy
        self._timeout = timeout
        self._network = network
        self._login: dict[str, str] = {}
        if proxy.user or proxy.password:
            login = base64.b64encode(f"{proxy.user}:{proxy.password}".encode()).decode()
            self._login = {"Proxy-Authorization": f"Basic {login}"}
        self._session: aiohttp.ClientSession | None = None
        self._sockets: weakref.WeakSet[socket.socket] = weakref.WeakSet()

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> HttpResponse:
        """Send a request and return its response, redirects included. The URL is percent-encoded.

        Raises what ConnectionPool.send raises, and ModelError of the kind "auth" if the proxy wants another password.
        """
        # Imported here because importing aiohttp takes long and most runs have no proxy.
        import aiohttp
        from yarl import URL

        if self._session is None:
            self._session = self._open()
        target = URL(url, encoded=True)
        # Of a TLS connection the proxy sees the request for the tunnel only; other requests it reads itself.
        if target.scheme == "http":
            headers = {**headers, **self._login}
        try:
            async with self._session.request(
                method,
                target,
                data=body,
                headers=headers,
                proxy_headers=self._login if target.scheme == "https" else None,
                allow_redirects=False,
            ) as response:
                if response.status == 407:
                    raise self._refused()
                content = await _read_body(response)
                return HttpResponse(response.status, response.headers, content)
        except aiohttp.ClientHttpProxyError as error:
            if error.status == 407:
                raise self._refused() from None
            # 502, 503 and 504 mean that the proxy does not reach the endpoint, 403 that it may not.
            raise ConnectError(f"the proxy {self._proxy.url} answered {error.status} {error.message}") from None
        except aiohttp.ClientProxyConnectionError as error:
            reason = error.os_error.strerror or error.os_error
            raise ConnectError(f"the proxy {self._proxy.url} cannot be reached: {reason}") from None
        except aiohttp.ConnectionTimeoutError:
            raise ConnectError(f"the proxy {self._proxy.url} does not answer") from None
        except aiohttp.ClientConnectorError as error:
            # The proxy was reached, so this is the TLS handshake with the endpoint.
            if isinstance(error, aiohttp.ClientConnectorCertificateError):
                cause = error.certificate_error
            else:
                cause = error.os_error
            raise tls_error(cause) if isinstance(cause, ssl.SSLError) else ConnectError(str(cause)) from None
        except aiohttp.ClientError as error:
            raise ResponseError(str(error) or type(error).__name__) from None

    async def close(self) -> None:
        """Close all connections and wait until their sockets are closed. Requests in flight fail."""
        if self._session is None:
            return
        await self._session.close()
        # aiohttp forgets a TLS connection that it closes itself, as after a timeout. Its socket stays open until the
        # other side says goodbye, or for half a minute. The end of the input makes the event loop close it now.
        deadline = time.monotonic() + CLOSE_SECONDS
        while (left := self._open_sockets()) and time.monotonic() < deadline:
            for each in left:
                with suppress(OSError):  # not connected yet, or not any more
                    each.shutdown(socket.SHUT_RDWR)
            await asyncio.sleep(_POLL_SECONDS)

    def _open_sockets(self) -> list[socket.socket]:
        return [each for each in self._sockets if each.fileno() >= 0]

    def _new_socket(self, address: tuple[Any, ...]) -> socket.socket:
        family, kind, protocol, *_ = address
        new = socket.socket(family, kind, protocol)
        self._sockets.add(new)
        return new

    def _open(self) -> aiohttp.ClientSession:
        import aiohttp

        return aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, ssl=tls_context(self._network), socket_factory=self._new_socket),
            proxy=self._proxy.url,
            cookie_jar=aiohttp.DummyCookieJar(),
            skip_auto_headers=_AUTO_HEADERS,
            auto_decompress=False,
            timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=min(self._timeout, CONNECT_SECONDS)),
            max_line_size=MAX_HEAD_BYTES,
            max_field_size=MAX_HEAD_BYTES,
        )

    def _refused(self) -> ModelError:
        if self._login:
            problem = "does not accept the user and password"
        else:
            problem = "requires a user and password"
        return ModelError(
            Failure(
                "auth",
                f"the proxy {self._proxy.url} {problem} (407). "
                f"Write {self._proxy.variable}=http://USER:PASSWORD@HOST:PORT",
                http=407,
            )
        )


async def _read_body(response: aiohttp.ClientResponse) -> bytes:
    """Return the body, decompressed. Raises ResponseTooLarge before too much of it is in memory."""
    if (response.content_length or 0) > MAX_BODY_BYTES:
        raise ResponseTooLarge
    body = bytearray()
    async for piece in response.content.iter_any():
        body += piece
        if len(body) > MAX_BODY_BYTES:
            raise ResponseTooLarge
    encoding = parse_content_encoding(response.headers.get("Content-Encoding", "").strip().lower().encode())
    return decompress(bytes(body), encoding)
