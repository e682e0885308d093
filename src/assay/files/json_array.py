"""Reads the elements of a JSON array one by one. Only one element and a piece of the file are in memory.

    with path.open("rb") as file:
        for raw in JsonArray(file).elements():      # the bytes of each element, valid JSON
            ...

A file such as LongMemEval's M set is one array of 500 objects and 2.7 GB. The reader finds the end of an element by
counting brackets outside of texts, then msgspec checks the element.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import IO

import msgspec

from assay.files.bounds import MAX_LINE_BYTES
from assay.files.encoding import not_json

_PIECE = 1 << 20
_BOM = b"\xef\xbb\xbf"
_SPACE = re.compile(rb"[ \t\r\n]*")
_MARK = re.compile(rb'["{}\[\]]')
_SCALAR = re.compile(rb"[^\s,\]]*")
_BYTE = re.compile(r"\(byte (\d+)\)")
# What msgspec says of a text that ends too early.
_TRUNCATED = "Input data was truncated"


class BrokenArray(Exception):
    """The file is not a JSON array from here on. Has the reason, and the line if it is known, else 0."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line


class JsonArray:
    """A JSON array in an open file. `elements` may be called once."""

    def __init__(self, file: IO[bytes], *, longest: int = MAX_LINE_BYTES, piece: int = _PIECE) -> None:
        self._file = file
        self._longest = longest
        self._piece = piece
        self._data = b""
        self._offset = 0  # of the first byte of `_data` in the file
        self._line = 1  # of the first byte of `_data`
        self._at = 0  # in `_data`

    def elements(self) -> Iterator[bytes]:
        """Yield the bytes of each element in order. Raises BrokenArray where the file is not an array."""
        self._more()
        if self._data.startswith(_BOM):
            self._at = len(_BOM)
        if self._next() != b"[":
            raise self._broken("expected '['")
        self._at += 1
        mark = self._next()
        while mark != b"]":
            yield self._element()
            mark = self._next()
            if mark == b",":
                self._at += 1
                if self._next() == b"]":
                    raise self._broken("trailing comma in array")
            elif mark != b"]":
                raise self._broken("expected ',' or ']'" if mark else _TRUNCATED)
        self._at += 1
        if self._next():
            raise self._broken("trailing characters")

    def _more(self) -> bool:
        """Read on, and forget what lies before the current position. Returns False at the end of the file."""
        rest = len(self._data) - self._at
        # As much again as there is: an element of many pieces is copied a few times only.
        piece = self._file.read(max(self._piece, rest))
        if not piece:
            return False
        self._line += self._data.count(b"\n", 0, self._at)
        self._offset += self._at
        self._data = self._data[self._at :] + piece
        self._at = 0
        return True

    def _next(self) -> bytes:
        """Move to the next character that is not space, and return it; empty at the end of the file."""
        while True:
            space = _SPACE.match(self._data, self._at)
            assert space is not None  # it matches the empty text
            self._at = space.end()
            if self._at < len(self._data):
                return self._data[self._at : self._at + 1]
            if not self._more():
                return b""

    def _element(self) -> bytes:
        """Return the element that begins here, and move to its end."""
        end = self._end_of_nested() if self._data[self._at : self._at + 1] in b'{["' else self._end_of_scalar()
        raw = self._data[self._at : end]
        try:
            msgspec.json.decode(raw, type=msgspec.Raw)
        except msgspec.DecodeError as error:
            raise self._broken_element(error) from None
        self._at = end
        return raw

    def _end_of_scalar(self) -> int:
        while True:
            scalar = _SCALAR.match(self._data, self._at)
            assert scalar is not None  # it matches the empty text
            if scalar.end() < len(self._data) or not self._more():
                return scalar.end()
            self._refuse_endless()

    def _end_of_nested(self) -> int:
        """Return the end of the object, array or text that begins here."""
        depth, in_text = 0, False
        place = self._at
        while True:
            data = self._data
            while place < len(data):
                if in_text:
                    quote = data.find(b'"', place)
                    if quote < 0:
                        place = len(data)
                        break
                    place = quote + 1
                    # A quote after an odd number of backslashes belongs to the text. They cannot begin before it.
                    before = quote
                    while data[before - 1] == 0x5C:
                        before -= 1
                    if (quote - before) % 2:
                        continue
                    in_text = False
                else:
                    mark = _MARK.search(data, place)
                    if mark is None:
                        place = len(data)
                        break
                    place = mark.end()
                    if mark[0] == b'"':
                        in_text = True
                        continue
                    depth += 1 if mark[0] in b"{[" else -1
                if depth == 0:
                    return place
            place -= self._at  # reading on makes the element begin at 0
            if not self._more():
                raise self._broken_rest()
            self._refuse_endless()

    def _refuse_endless(self) -> None:
        """Raise BrokenArray if the element is longer than any real one. A missing quote has the same effect."""
        if len(self._data) - self._at > self._longest + self._piece:
            raise self._broken_rest()

    def _broken_rest(self) -> BrokenArray:
        """Return why the element that begins here has no end."""
        try:
            msgspec.json.decode(self._data[self._at :], type=msgspec.Raw)
        except msgspec.DecodeError as error:
            if str(error) != _TRUNCATED:
                return self._broken_element(error)
        if len(self._data) - self._at > self._longest:
            return self._broken(f"an element is longer than {self._longest:,} bytes; is a bracket or a quote missing?")
        return BrokenArray(f"not JSON: {_TRUNCATED}")

    def _broken_element(self, error: msgspec.DecodeError) -> BrokenArray:
        position = _BYTE.search(str(error))
        if position is None:
            return BrokenArray(not_json(error))
        self._at += int(position[1])
        return self._broken(str(error)[: position.start()].strip().removeprefix("JSON is malformed: "))

    def _broken(self, reason: str) -> BrokenArray:
        """Return the error at the current position."""
        line = self._line + self._data.count(b"\n", 0, self._at)
        if reason == _TRUNCATED:
            return BrokenArray(f"not JSON: {reason}")
        return BrokenArray(f"not JSON: {reason} (byte {self._offset + self._at})", line)
