"""A web server on loopback with files for downloads: ranges, ETags, broken connections and redirects."""

from __future__ import annotations

import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Self


class FileServer:
    """Serves `files` by path, in threads of this process. `ranges` has the Range header of each GET, or ""."""

    def __init__(self, files: dict[str, bytes]) -> None:
        self.files = files
        self.etag = '"one"'
        self.cuts: list[int] = []
        """Bytes after which the next responses break off, though their headers promise all."""
        self.redirects: dict[str, str] = {}
        self.ranges: list[str] = []
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                server._answer(self)

            def log_message(self, *_: object) -> None:
                """Print nothing."""

        self._http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.shutdown()
        self._thread.join()
        self._http.server_close()

    def url(self, path: str) -> str:
        """Return the address of a file."""
        return f"http://127.0.0.1:{self._http.server_port}{path}"

    def _answer(self, request: BaseHTTPRequestHandler) -> None:
        path = request.path.partition("?")[0]
        self.ranges.append(request.headers.get("Range") or "")
        if path in self.redirects:
            request.send_response(302)
            request.send_header("Location", self.redirects[path])
            request.end_headers()
            return
        if path not in self.files:
            request.send_error(404)
            return
        content, start = self.files[path], 0
        if self.ranges[-1] and request.headers.get("If-Range") == self.etag:
            start = int(self.ranges[-1].removeprefix("bytes=").rstrip("-"))
        if start >= len(content):
            request.send_error(416)
            return
        request.send_response(206 if start else 200)
        if start:
            request.send_header("Content-Range", f"bytes {start}-{len(content) - 1}/{len(content)}")
        if self.etag:
            request.send_header("ETag", self.etag)
        request.send_header("Content-Length", str(len(content) - start))
        request.end_headers()
        end = start + self.cuts.pop(0) if self.cuts else len(content)
        request.wfile.write(content[start:end])
