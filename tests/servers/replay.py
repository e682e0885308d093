"""Serves recorded requests: the n-th time a prompt is asked it gives the n-th recorded reply."""

from __future__ import annotations

import json
import threading
from collections import defaultdict
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import TracebackType
from typing import Any


def _asked(body: dict[str, Any]) -> str:
    return json.dumps(body.get("messages") or body["prompt"])


class ReplayServer:
    """A loopback server over a `requests.jsonl`; `skip` first replies of every prompt are left out."""

    def __init__(self, recorded: Path, skip: int = 0) -> None:
        self.replies: dict[str, list[Any]] = defaultdict(list)
        for line in recorded.read_text(encoding="utf-8").splitlines():
            entry = json.loads(line)
            self.replies[_asked(entry["body"])].append(entry["out"])
        self.counts: dict[str, int] = defaultdict(lambda: skip)
        self.bodies: list[dict[str, Any]] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            wbufsize = -1  # head and body in one packet: else each reply waits 40 ms for an ACK
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                answer = json.dumps(server.answer(body)).encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(answer)))
                self.end_headers()
                self.wfile.write(answer)

            def log_message(self, *_: object) -> None:
                pass

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._http.daemon_threads = True
        self._thread = threading.Thread(target=self._http.serve_forever, daemon=True)

    def answer(self, body: dict[str, Any]) -> Any:
        """The recorded reply whose turn it is."""
        asked = _asked(body)
        count = self.counts[asked]
        self.counts[asked] += 1
        self.bodies.append(body)
        return self.replies[asked][count]

    @property
    def url(self) -> str:
        """What to give as --base-url."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def __enter__(self) -> ReplayServer:
        self._thread.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._http.shutdown()
        self._http.server_close()
