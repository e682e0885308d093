"""One response that comes in pieces: fed as they come, cut wherever the network cut them."""

from __future__ import annotations

import re

from assay.models.calling.reply import (
    CHUNKED,
    MOST_HEAD,
    UNTIL_CLOSE,
    Broken,
    Head,
    Reply,
    read_head,
    unpacked,
)

_SIZE = re.compile(rb"[ \t]*([0-9a-fA-F]{1,15})[ \t]*(?:;.*)?")
_MOST_LINE = 8 * 1024
_TELLING = len(b"HTTP/")


class Reading:
    """Holds what came so far. With the reply, `keep` tells whether the connection may be used again."""

    def __init__(self) -> None:
        self.keep = False
        self._start = bytearray()
        self._head: Head | None = None
        self._body = bytearray()
        self._chunks = Chunks(self._body)

    def feed(self, data: bytes) -> Reply | None:
        """The reply, if this was its last piece. What follows a reply makes the connection useless."""
        if self._head is None:
            rest = self._begin(data)
            if rest is None:
                return None
            data = rest
        head = self._head
        assert head is not None
        if head.length == CHUNKED:
            end = self._chunks.feed(data)
            return None if end is None else self._whole(head, end == len(data))
        self._body += data
        if head.length == UNTIL_CLOSE or len(self._body) < head.length:
            return None
        exact = len(self._body) == head.length
        del self._body[head.length :]
        return self._whole(head, exact)

    def _begin(self, data: bytes) -> bytes | None:
        """What follows the final head, past all that only announce one; none if it is not there yet."""
        start, scanned = self._start, len(self._start)
        start += data
        if scanned > _TELLING and b"\n" not in data and len(start) <= MOST_HEAD:
            return None  # No end of a head came: do not look at the whole again for every packet.
        head = read_head(start, scanned)
        while head is not None and head.status < 200 and head.status != 101:
            del start[: head.size]
            head = read_head(start) if start else None
        if head is None:
            return None
        self._head, self._start = head, bytearray()
        return bytes(start[head.size :])

    def end(self) -> Reply:
        """The reply of a server that closed its side, if that is how its replies end."""
        head = self._head
        if head is None:
            raise Broken("Server disconnected in the middle of its headers")
        if head.length != UNTIL_CLOSE:
            there = f"{len(self._body)} bytes arrived"
            wanted = f" of {head.length}" if head.length >= 0 else ""
            raise Broken(f"Response payload is not completed: {there}{wanted}")
        return self._whole(head, exact=False)

    def _whole(self, head: Head, exact: bool) -> Reply:
        self.keep = head.keep and exact
        return Reply(head.status, head.headers, unpacked(bytes(self._body), head.packed))


class Chunks:
    """A body that says before each piece how long it is. Extensions and trailers are read over."""

    def __init__(self, body: bytearray) -> None:
        self._body = body
        self._line = bytearray()
        self._left = 0
        self._after = self._trailing = False
        self._trailers = 0

    def feed(self, data: bytes) -> int | None:
        """Where in data the body ends, if it does."""
        at, size = 0, len(data)
        while at < size:
            if self._left:
                self._body += data[at : at + self._left]
                taken = min(self._left, size - at)
                self._left -= taken
                at += taken
                continue
            newline = data.find(b"\n", at)
            self._line += data[at : newline if newline >= 0 else size]
            if len(self._line) > _MOST_LINE:
                raise Broken("a line between its chunks is too long")
            if newline < 0:
                return None
            at = newline + 1
            if self._take(bytes(self._line.rstrip(b"\r"))):
                return at
            self._line.clear()
        return None

    def _take(self, line: bytes) -> bool:
        """One line between chunks. True for the last one."""
        if self._trailing:
            self._trailers += len(line)
            if self._trailers > MOST_HEAD:
                raise Broken(f"its trailers are longer than {MOST_HEAD // 1024} KB")
            return not line
        if self._after:
            if line:
                raise Broken(f"a chunk is longer than it says: {line[:40]!r}")
            self._after = False
            return False
        size = _SIZE.fullmatch(line)
        if size is None:
            raise Broken(f"the size of a chunk is wrong: {line[:40]!r}")
        self._left = int(size[1], 16)
        self._after, self._trailing = self._left > 0, self._left == 0
        return False
