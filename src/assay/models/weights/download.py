"""Downloads a large file over HTTP: resumes after a broken connection, also in a later command.

    with Download("https://example.org/model.gguf", Path(".model.part"), b"GGUF", print) as download:
        sha256 = download.run()
        download.finish(Path("model.gguf"))

The part of the file that arrived stays on disk if the command fails. The next command continues it if the server says
that the file is still the same (ETag or Last-Modified). urllib sends the requests, so HTTP_PROXY, HTTPS_PROXY, NO_PROXY
and SSL_CERT_FILE apply.
"""

from __future__ import annotations

import fcntl
import http.client
import re
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, BinaryIO, Self

import msgspec

from assay.core.errors import UsageError
from assay.core.hashing import file_sha256

_READ_BYTES = 1 << 20
# Attempts without a single new byte before the download fails.
_ATTEMPTS = 3
# Seconds without a byte before a connection counts as broken.
_TIMEOUT = 60.0
# Seconds between two lines of progress.
_REPORT_SECONDS = 5.0
_RANGE = re.compile(r"bytes (\d+)-\d+/(\d+)")


class _PartState(msgspec.Struct):
    """What must be the same for a part on disk to be continued."""

    url: str
    validator: str


class Download:
    """One file that is being downloaded to `part`. Raises UsageError if another process downloads it."""

    def __init__(self, url: str, part: Path, magic: bytes, say: Callable[[str], None]) -> None:
        self._url = url
        # Signed URLs have a key behind the question mark. No message and no file gets it.
        self._shown = url.partition("?")[0]
        self._part = part
        self._state_file = part.with_name(f"{part.name}.json")
        self._magic = magic
        self._say = say
        self._file: BinaryIO = part.open("ab+")
        try:
            fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            self._file.close()
            raise UsageError(f"another process is downloading {self._shown}. Wait for it") from None
        self._total: int | None = None
        self._validator = ""
        self._reported_at = time.monotonic()
        # Without the handlers for file:, ftp: and data:, to which a redirect could lead.
        self._opener = urllib.request.OpenerDirector()
        for handler in (
            urllib.request.ProxyHandler(),
            urllib.request.UnknownHandler(),
            urllib.request.HTTPHandler(),
            urllib.request.HTTPSHandler(),
            urllib.request.HTTPDefaultErrorHandler(),
            urllib.request.HTTPRedirectHandler(),
            urllib.request.HTTPErrorProcessor(),
        ):
            self._opener.add_handler(handler)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A part that nothing can continue is only in the way.
        if not self._validator and self._part.exists():
            self.discard()
        self._file.close()

    def run(self) -> str:
        """Download what is missing. Returns the SHA-256 of the whole file. Raises UsageError or OSError."""
        self._continue_part()
        failures = 0
        while True:
            size = self._size()
            try:
                self._read_response()
            except urllib.error.HTTPError as error:
                with error:
                    if error.code == 416:
                        # The part is the whole file, or the file has become shorter. Begin again.
                        self._file.truncate(0)
                    elif error.code < 500:
                        raise UsageError(f"{self._shown} answered {error.code} {error.reason}") from None
                reason = f"the server answered {error.code} {error.reason}"
            except (urllib.error.URLError, http.client.HTTPException, TimeoutError, ConnectionError) as error:
                reason = str(error.reason if isinstance(error, urllib.error.URLError) else error) or repr(error)
            else:
                if self._total is None or self._size() == self._total:
                    return self._sha256()
                reason = f"{self._size():,} of {self._total:,} bytes arrived"
            failures = 0 if self._size() > size else failures + 1
            if failures == _ATTEMPTS or not self._validator:
                again = ". The same command continues the download" if self._validator and self._size() else ""
                raise UsageError(f"the download of {self._shown} broke off: {reason}{again}")
            time.sleep(failures)

    def finish(self, target: Path) -> None:
        """Move the complete file to its place."""
        self._part.replace(target)
        self._state_file.unlink(missing_ok=True)

    def discard(self) -> None:
        """Delete what was downloaded."""
        self._part.unlink(missing_ok=True)
        self._state_file.unlink(missing_ok=True)

    def _size(self) -> int:
        return self._file.seek(0, 2)

    def _sha256(self) -> str:
        self._file.flush()
        return file_sha256(self._part)

    def _continue_part(self) -> None:
        """Use the part of an earlier command if it is of the same URL, else begin again."""
        try:
            state = msgspec.json.decode(self._state_file.read_bytes(), type=_PartState)
        except (OSError, msgspec.DecodeError, RecursionError):
            state = _PartState("", "")
        if state.url == self._shown and state.validator:
            self._validator = state.validator
        else:
            self._file.truncate(0)

    def _read_response(self) -> None:
        request = urllib.request.Request(self._url, headers={"User-Agent": "assay"})  # noqa: S310 - http(s) only
        size = self._size()
        if size:
            request.add_header("Range", f"bytes={size}-")
            request.add_header("If-Range", self._validator)
        with self._opener.open(request, timeout=_TIMEOUT) as response:
            self._begin(response)
            while piece := _read(response):
                if self._size() == 0 and not piece.startswith(self._magic):
                    raise UsageError(_not_gguf(self._shown, piece))
                self._file.write(piece)
                self._report()
        self._file.flush()

    def _begin(self, response: Any) -> None:
        """Read the headers of a response, which is the rest of the file or the whole file."""
        length = response.headers.get("Content-Length")
        match = _RANGE.fullmatch(response.headers.get("Content-Range") or "")
        if response.status == 206 and match and int(match[1]) == self._size():
            self._total = int(match[2])
            self._say(f"continuing at {_megabytes(self._size())} of {_megabytes(self._total)}")
        else:
            self._file.truncate(0)
            self._total = int(length) if length and length.isdecimal() else None
            size = _megabytes(self._total) if self._total is not None else "size unknown"
            self._say(f"downloading {self._shown} ({size})")
        # A weak ETag promises an equal meaning, not equal bytes.
        etag = response.headers.get("ETag") or ""
        self._validator = (etag if not etag.startswith("W/") else "") or response.headers.get("Last-Modified") or ""
        self._state_file.write_bytes(msgspec.json.encode(_PartState(self._shown, self._validator)))
        missing = (self._total or 0) - self._size()
        free = shutil.disk_usage(self._part.parent).free
        if missing > free:
            raise UsageError(
                f"{self._part.parent} has room for {_megabytes(free)}, and {_megabytes(missing)} are missing. "
                "Free some disk space, or set ASSAY_CACHE to another folder"
            )

    def _report(self) -> None:
        now = time.monotonic()
        if now - self._reported_at >= _REPORT_SECONDS:
            self._reported_at = now
            share = f" of {_megabytes(self._total)}, {self._size() / self._total:.0%}" if self._total else ""
            self._say(f"{_megabytes(self._size())}{share}")


def _read(response: Any) -> bytes:
    """Return the next piece of a response, empty at its end."""
    try:
        piece: bytes = response.read(_READ_BYTES)
    except (OSError, http.client.HTTPException) as error:
        # A plain OSError would look like a failed write to the disk.
        raise ConnectionError(str(error) or repr(error)) from error
    return piece


def _not_gguf(url: str, start: bytes) -> str:
    text = f"{url} is not a GGUF file: it begins with {start[:16]!r}"
    if "huggingface.co/" in url and "/blob/" in url:
        return f"{text}. This is the page of the file; the file itself is {url.replace('/blob/', '/resolve/')}"
    return f"{text}. Use the link of the file itself, not of its page"


def _megabytes(size: int) -> str:
    return f"{size / 1e9:,.1f} GB" if size >= 1e9 else f"{size / 1e6:,.1f} MB"
