"""A proxy with a TLS endpoint behind it that never says goodbye, for a `with` statement."""

from __future__ import annotations

import socket
import threading
from typing import Self

from servers.tls import server_context


class LastingTunnel:
    """A proxy and the TLS endpoint behind it, for one connection. It answers `reply` and never closes its side."""

    def __init__(self, reply: bytes) -> None:
        self._reply = reply
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._listener.getsockname()[1]}"
        self._left = threading.Event()
        self._thread = threading.Thread(target=self._serve)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._left.set()
        self._thread.join()

    def _serve(self) -> None:
        with self._listener, self._listener.accept()[0] as connection:
            head = b""
            while b"\r\n\r\n" not in head:
                head += connection.recv(4096)
            connection.sendall(b"HTTP/1.1 200 Connection established\r\n\r\n")
            with server_context().wrap_socket(connection, server_side=True) as tunnel:
                tunnel.recv(65536)
                tunnel.sendall(self._reply)
                self._left.wait()
