"""A small HTTP server on loopback whose answers are a function of the request's body."""

from __future__ import annotations

import json
import socket
import ssl
import threading
from collections.abc import Callable, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any, Self

Answer = Callable[[dict[str, Any]], tuple[int, Any]]


class ListeningServer(ThreadingHTTPServer):
    """A server with a thread for each connection."""

    daemon_threads = True
    request_queue_size = 128  # of more than the usual five connections at once some would wait a second


class _Listening6(ListeningServer):
    address_family = socket.AF_INET6


class LoopbackServer:
    """Answers POST with what `answer(body)` gives: a status and JSON. Keeps every body. GET lists one model.

    `headers` are sent with every reply.
    """

    def __init__(self, answer: Answer, *, host: str = "127.0.0.1", tls: ssl.SSLContext | None = None) -> None:
        """Listen on `host`, which may be `::1`, and speak TLS with a context."""
        self.bodies: list[dict[str, Any]] = []
        self.heads: list[Mapping[str, str]] = []
        """The headers of each POST."""
        self.headers: dict[str, str] = {}
        bodies, heads, headers = self.bodies, self.heads, self.headers

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: else each reply waits 40 ms for an ACK
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                bodies.append(body)
                heads.append(dict(self.headers))
                self._send(*answer(body))

            def do_GET(self) -> None:
                self._send(200, {"object": "list", "data": [{"id": "fake", "object": "model"}]})

            def _send(self, status: int, value: Any) -> None:
                payload = json.dumps(value).encode()
                self.send_response(status)
                self.send_header("Content-Length", str(len(payload)))
                for name, text in headers.items():
                    self.send_header(name, text)
                self.end_headers()
                self.wfile.write(payload)

            def log_message(self, *_: object) -> None:
                pass

        self._http = (_Listening6 if ":" in host else ListeningServer)((host, 0), Handler)
        self._tls = tls is not None
        self._host = f"[{host}]" if ":" in host else host
        if tls is not None:
            self._http.socket = tls.wrap_socket(self._http.socket, server_side=True)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)

    @property
    def url(self) -> str:
        """What to give as --base-url."""
        return self.url_of(self._host)

    def url_of(self, host: str) -> str:
        """What to give as --base-url where this server has another name."""
        return f"http{'s' if self._tls else ''}://{host}:{self._http.server_port}/v1"

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()


def chat(text: str) -> dict[str, Any]:
    """A chat completion that says this."""
    message = {"role": "assistant", "content": text}
    usage = {"prompt_tokens": 7, "completion_tokens": 2}
    return {"choices": [{"index": 0, "message": message, "finish_reason": "stop"}], "usage": usage}
