"""Opens connections to a host: name lookup, TCP, the tunnel of a proxy, TLS.

    dialer = Dialer("models.example", 443, tls=True, timeout=60.0, network=Network(ca_file="company.pem"))
    protocol = await dialer.dial(lambda sock: HttpConnection(pool, sock))

With a proxy the connection is one to the proxy. For TLS the proxy is asked for a tunnel first (CONNECT); other requests
name the host themselves.
"""

from __future__ import annotations

import asyncio
import math
import os
import socket
import ssl
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TypeVar

from aiohappyeyeballs import AddrInfoType, start_connection

from assay.core.errors import UsageError
from assay.core.roles import Network
from assay.models.http.proxies import Proxy
from assay.models.http.wire import ResponseError, ResponseHead, parse_head, parse_url

# Limit for TCP connect and TLS handshake. A model's answer may take minutes, a handshake may not.
CONNECT_SECONDS = 30.0
# Delay before the next address of a host is tried beside the previous one, as RFC 8305 recommends.
HAPPY_EYEBALLS_SECONDS = 0.25
# A run opens hundreds of connections at its start. They share one name lookup.
DNS_CACHE_SECONDS = 10.0

_ProtocolT = TypeVar("_ProtocolT", bound=asyncio.Protocol)


class ConnectError(Exception):
    """No connection to the host: the name is unknown, the port is closed, or TLS failed.

    `retry` is False if the next attempt would fail in the same way, as with a certificate that is not trusted.
    """

    def __init__(self, message: str, *, retry: bool = True) -> None:
        super().__init__(message)
        self.retry = retry


class Dialer:
    """Opens connections to one host and port, by a proxy if there is one."""

    def __init__(
        self,
        host: str,
        port: int,
        *,
        tls: bool,
        timeout: float,
        network: Network = Network(),  # noqa: B008 - immutable
        proxy: Proxy | None = None,
    ) -> None:
        self._host = host
        self._port = port
        self._proxy = proxy
        self._first_host, self._first_port = host, port
        if proxy is not None:
            address = parse_url(proxy.url)
            self._first_host, self._first_port = address.host, address.port
        self._tls = tls
        self._network = network
        self._timeout = min(timeout, CONNECT_SECONDS)
        self._tls_context: ssl.SSLContext | None = None
        self._lookup: asyncio.Task[Sequence[AddrInfoType]] | None = None
        self._addresses: Sequence[AddrInfoType] = []
        self._addresses_expire = 0.0
        try:
            # A numeric host such as 127.0.0.1 needs no lookup. With this flag the call does not block. For a text
            # Python would import the codec of international names, which a numeric host is not.
            self._addresses = socket.getaddrinfo(
                self._first_host.encode("ascii"), self._first_port, type=socket.SOCK_STREAM, flags=socket.AI_NUMERICHOST
            )
            self._addresses_expire = math.inf
        except (OSError, UnicodeError):
            pass

    async def dial(self, protocol_factory: Callable[[socket.socket], _ProtocolT]) -> _ProtocolT:
        """Open a connection and return its protocol, which `protocol_factory` makes. Raises ConnectError.

        The dialer's timeout covers TCP, tunnel and TLS. The name lookup is limited by the request's deadline alone.
        """
        loop = asyncio.get_running_loop()
        name = self._host.rstrip(".") if self._tls else None  # certificates have no final dot
        proxy = self._proxy
        try:
            addresses = await self._resolve()
            async with asyncio.timeout(self._timeout):
                sock = await start_connection(
                    addresses, happy_eyeballs_delay=HAPPY_EYEBALLS_SECONDS, socket_factory=_open_socket
                )
                try:
                    if proxy is not None and self._tls:
                        await self._open_tunnel(sock, proxy)
                        proxy = None  # from here on, errors are those of the host
                    if self._tls and self._tls_context is None:
                        self._tls_context = tls_context(self._network)
                    _, protocol = await loop.create_connection(
                        lambda: protocol_factory(sock), sock=sock, ssl=self._tls_context, server_hostname=name
                    )
                except BaseException:
                    sock.close()
                    raise
                return protocol
        except TimeoutError:
            raise ConnectError(f"{f'the proxy {proxy.url}' if proxy else 'it'} does not answer") from None
        except ssl.SSLError as error:
            raise tls_error(error) from None
        except (OSError, UnicodeError) as error:
            reason = str(error) or type(error).__name__
            raise ConnectError(f"the proxy {proxy.url} cannot be reached: {reason}" if proxy else reason) from None

    async def _open_tunnel(self, sock: socket.socket, proxy: Proxy) -> None:
        """Ask the proxy for a connection to the host."""
        loop = asyncio.get_running_loop()
        host = f"[{self._host}]" if ":" in self._host else self._host
        target = f"{host}:{self._port}"
        await loop.sock_sendall(sock, f"CONNECT {target} HTTP/1.1\r\nHost: {target}\r\n{proxy.login}\r\n".encode())
        data = b""
        head: ResponseHead | None = None
        while head is None:
            piece = await loop.sock_recv(sock, 4096)
            if not piece:
                raise ConnectError(f"the proxy {proxy.url} closed the connection")
            data += piece
            try:
                head = parse_head(data)
            except ResponseError as error:
                raise ConnectError(f"the proxy {proxy.url} is no HTTP proxy: {error}") from None
        if head.status == 407:
            raise proxy.refused()
        if not 200 <= head.status < 300:
            # 502, 503 and 504 mean that the proxy does not reach the host, 403 that it may not.
            answer = data.split(b"\n", 1)[0].partition(b" ")[2].decode(errors="replace").strip()
            raise ConnectError(f"the proxy {proxy.url} answered {answer}")

    async def _resolve(self) -> Sequence[AddrInfoType]:
        """Return the addresses of the host, or of the proxy. Concurrent callers share one lookup.

        The shield keeps the lookup alive for the others when one caller is cancelled.
        """
        loop = asyncio.get_running_loop()
        if loop.time() < self._addresses_expire:
            return self._addresses
        if self._lookup is None:
            lookup = loop.getaddrinfo(
                self._first_host, self._first_port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
            )
            self._lookup = loop.create_task(lookup)
            self._lookup.add_done_callback(self._end_lookup)
        return await asyncio.shield(self._lookup)

    def _end_lookup(self, task: asyncio.Task[Sequence[AddrInfoType]]) -> None:
        self._lookup = None
        # Calling task.exception() also keeps asyncio from logging an error that no caller waits for.
        if not task.cancelled() and task.exception() is None:
            self._addresses = task.result()
            self._addresses_expire = asyncio.get_running_loop().time() + DNS_CACHE_SECONDS


def tls_context(network: Network) -> ssl.SSLContext:
    """Return what to trust: --ca-file, else $SSL_CERT_FILE and $SSL_CERT_DIR, else the system's certificates.

    Raises UsageError if the file of --ca-file cannot be used.
    """
    try:
        # Without a file, OpenSSL itself reads the two variables.
        context = ssl.create_default_context(cafile=network.ca_file or None)
    except (OSError, ValueError) as error:  # ssl.SSLError is an OSError
        reason = "it has no certificate in PEM format" if isinstance(error, ssl.SSLError) else error.args[-1]
        raise UsageError(f"--ca-file {network.ca_file} cannot be used: {reason}") from None
    if network.insecure:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    context.set_alpn_protocols(["http/1.1"])
    return context


def tls_error(error: ssl.SSLError) -> ConnectError:
    """Return the error of a TLS handshake, with what the user can do about it."""
    if not isinstance(error, ssl.SSLCertVerificationError):
        hint = ""
        if error.reason in ("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"):
            hint = ". Does the server speak http:// and not https://?"
        return ConnectError(f"{error}{hint}")
    file = os.environ.get("SSL_CERT_FILE")
    missing = f" (SSL_CERT_FILE names {file}, which is no file)" if file and not Path(file).is_file() else ""
    return ConnectError(
        f"{error}{missing}. To trust its certificate, name a PEM file that has the certificate or its CA with "
        "--ca-file or SSL_CERT_FILE. --insecure accepts every certificate",
        retry=False,
    )


def _open_socket(address: AddrInfoType) -> socket.socket:
    family, kind, protocol, _, _ = address
    sock = socket.socket(family, kind, protocol)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # A model may think for minutes. Keep-alive probes detect a peer that has vanished meanwhile.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    return sock
