"""HTTP/1.1 responses: what a head says about its body, and the reply that comes of both."""

from __future__ import annotations

import re
import zlib
from collections.abc import Iterator, Mapping
from typing import NamedTuple

MOST_HEAD = 64 * 1024
UNTIL_CLOSE, CHUNKED = -1, -2
"""Lengths of bodies whose length no header tells."""
_STATUS = re.compile(rb"[\r\n]*HTTP/(\d\.\d)[ \t]+(\d{3})(?:[ \t][^\n]*)?\r?\n")
_END = re.compile(rb"\n\r?\n")
_FOLD = re.compile(rb"\r?\n[ \t]+")
_FRAMING = re.compile(
    rb"\n(content-length|transfer-encoding|connection|content-encoding)[ \t]*:[ \t]*([^\r\n]*)"
)
_PACKED = (b"gzip", b"deflate")
_FOREIGN = (b"br", b"zstd")


class Broken(Exception):
    """What arrived is no HTTP response, or the connection ended before there was one."""


class Gone(Broken):
    """The connection ended before the first byte of a response: perhaps nobody read the request."""


class Headers(Mapping[str, str]):
    """Names in any case; the first of several counts. Taken apart when first asked: most are never asked."""

    __slots__ = ("_fields", "_raw")

    def __init__(self, raw: bytes) -> None:
        self._raw = raw
        self._fields: dict[str, str] | None = None

    def __getitem__(self, name: str) -> str:
        return self._read()[name.lower()]

    def __iter__(self) -> Iterator[str]:
        return iter(self._read())

    def __len__(self) -> int:
        return len(self._read())

    def __repr__(self) -> str:
        return f"Headers({self._read()!r})"

    def _read(self) -> dict[str, str]:
        if self._fields is None:
            self._fields = {}
            for line in self._raw.decode("utf-8", "surrogateescape").split("\n")[1:]:
                name, colon, value = line.partition(":")
                if colon:
                    self._fields.setdefault(name.strip().lower(), value.strip())
        return self._fields


class Reply(NamedTuple):
    """An HTTP answer, whatever its status."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class Head(NamedTuple):
    """All before a body: its `size`, the `length` of the body, whether to `keep` the connection."""

    status: int
    headers: Headers
    size: int
    length: int
    keep: bool
    packed: bytes = b""


def read_head(data: bytes | bytearray, scanned: int = 0) -> Head | None:
    """The head that data begins with; none if more has to come. `scanned` bytes hold no end of it."""
    line = _STATUS.match(data)
    if line is None:
        _check_start(data)
        return None
    end = _END.search(data, max(line.end() - 1, scanned - 2))
    if (end.end() if end else len(data)) > MOST_HEAD:
        raise Broken(f"its headers are longer than {MOST_HEAD // 1024} KB")
    if end is None:
        return None
    version, code = line.groups()
    raw = bytes(data[line.end() - 1 : end.start()])
    if b"\n " in raw or b"\n\t" in raw:
        raw = _FOLD.sub(b" ", raw)
    return _framed(int(code), version, raw, end.end())


def _check_start(data: bytes | bytearray) -> None:
    """Whether more bytes can still make a status line of it."""
    line, newline, _ = data.lstrip(b"\r\n").partition(b"\n")
    if newline or not (line.startswith(b"HTTP/") or b"HTTP/".startswith(line)) or len(line) > MOST_HEAD:
        raise Broken(f"it sent no HTTP response: {bytes(line[:80])!r}")


def _framed(status: int, version: bytes, raw: bytes, size: int) -> Head:
    length, keep, coded, packed = UNTIL_CLOSE, version >= b"1.1", None, b""
    for name, value in _FRAMING.findall(raw.lower()):
        if name == b"content-length":
            length = _length(value, length)
        elif name == b"connection":
            keep = _kept(value, keep)
        elif name == b"transfer-encoding":
            coded = value
        else:
            packed = _packed(value.strip())
    if coded is not None:
        if length >= 0:
            raise Broken("its headers contradict each other: Content-Length and Transfer-Encoding")
        length = CHUNKED if coded.rpartition(b",")[2].strip() == b"chunked" else UNTIL_CLOSE
    if status < 200 or status in (204, 304):
        length, keep = 0, keep and status != 101
    return Head(status, Headers(raw), size, length, keep and length != UNTIL_CLOSE, packed)


def _length(value: bytes, before: int) -> int:
    digits = value.rstrip()
    if not digits.isdigit() or len(digits) > 18 or before not in (UNTIL_CLOSE, length := int(digits)):
        raise Broken(f"its Content-Length is wrong: {value[:40]!r}")
    return length


def _kept(value: bytes, keep: bool) -> bool:
    if value == b"keep-alive":
        return True
    said = [word.strip() for word in value.split(b",")]
    return (keep or b"keep-alive" in said) and b"close" not in said


def _packed(packed: bytes) -> bytes:
    """We ask for no compression; some servers compress nevertheless."""
    if packed in _FOREIGN:
        raise Broken(f"its body is compressed as {packed.decode()}, which nobody asked for")
    return packed if packed in _PACKED else b""


def unpacked(body: bytes, packed: bytes) -> bytes:
    """The body as it was before its server compressed it."""
    if not packed or not body:
        return body
    raw = packed == b"deflate" and (body[0] & 0x0F != 8 or int.from_bytes(body[:2], "big") % 31)
    parts = []
    while body:
        reader = zlib.decompressobj(-zlib.MAX_WBITS if raw else zlib.MAX_WBITS | 32)
        try:
            parts.append(reader.decompress(body))
        except zlib.error as error:
            raise Broken(f"its compressed body is damaged: {error}") from None
        if not reader.eof:
            raise Broken("its compressed body is not complete")
        body = reader.unused_data
    return b"".join(parts)
