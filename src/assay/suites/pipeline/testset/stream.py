"""Records out of a file: one a line, over many lines, or several on a line; `//` lines are comments.

A value ends where its brackets close. Where they do not, reading goes on at the next line that begins with
`{`, as far to the left as the broken one, so that one fault never hides another.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.suites.pipeline.testset.validation import kind_of

_BOM = b"\xef\xbb\xbf"
_WIDE = (b"\xff\xfe", b"\xfe\xff")
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]"]')
_COLON = re.compile(rb"\s*:")
_CLOSES = {b"}": b"{", b"]": b"["}
_MOST_DEEP = 200
_FAR, _NEAR = 1 << 18, 1 << 13  # bytes read at once: of a whole file, for one record
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode

Note = Callable[[Problem], None]


class Spot(NamedTuple):
    """A place in a file: bytes before it, and its line."""

    offset: int = 0
    line: int = 1


class Record(NamedTuple):
    """An object, the bytes it was read from (comments inside are blank lines), and where it begins."""

    line: int
    offset: int
    raw: bytes
    value: dict[str, Any]


class _Line(NamedTuple):
    number: int
    offset: int
    raw: bytes


class _Broken(Exception):
    """The brackets of a value do not close; `taken` are the lines read in the attempt."""

    def __init__(self, why: str, taken: list[_Line]) -> None:
        super().__init__(why)
        self.taken = taken


class _Lines:
    """The lines of a file, which can be given back."""

    def __init__(self, file: IO[bytes], start: Spot) -> None:
        file.seek(start.offset)
        self._read = file.readline
        self._offset, self._number = start
        self._again: deque[_Line] = deque()

    def next(self) -> _Line | None:
        if self._again:
            return self._again.popleft()
        raw = self._read()
        if not raw:
            return None
        number, offset = self._number, self._offset
        self._number = number + 1
        self._offset = offset + len(raw)
        return _Line(number, offset, raw)

    def back(self, lines: list[_Line]) -> None:
        self._again.extendleft(reversed(lines))


def records(path: Path, note: Note, start: Spot = Spot()) -> Iterator[Record]:  # noqa: B008 - a constant
    """Every object of the file from `start` on, in order. What is none goes to `note`, with its line."""
    with _opened(path, _FAR if start.offset == 0 else _NEAR) as file:
        lines = _Lines(file, start)
        read = lines.next
        while (line := read()) is not None:
            number, offset, raw = line
            if raw[:1] == b"{":
                try:
                    value = _decode(raw)
                except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
                    pass
                else:
                    yield Record(number, offset, raw, value)
                    continue
            elif offset == 0 and raw.startswith(_WIDE):
                note(Problem(f"{path}:1", "this is UTF-16; save the file as UTF-8"))
                return
            yield from _Slow(path, note, lines).records(line)


def record_at(path: Path, spot: Spot) -> Record:
    """The record that begins at a place found before; InputError if the file is not what it was."""
    for record in records(path, raise_first, spot):
        if (record.offset, record.line) == spot:
            return record
        break
    raise InputError(Problem(f"{path}:{spot.line}", "the file has changed while it was read"))


def raise_first(problem: Problem) -> None:
    """For readers of files that have been checked: the first problem ends it."""
    raise InputError(problem)


def _opened(path: Path, buffering: int) -> IO[bytes]:
    try:
        return path.open("rb", buffering=buffering)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


class _Slow:
    """A line that is not simply one object."""

    def __init__(self, path: Path, note: Note, lines: _Lines) -> None:
        self._path, self._note, self._lines = path, note, lines

    def records(self, line: _Line | None) -> Iterator[Record]:
        """The records that begin on this line; the last one may take more lines."""
        column = len(_BOM) if line and line.offset == 0 and line.raw.startswith(_BOM) else 0
        whole = column
        while line is not None:
            column = _after_space(line.raw, column)
            rest = line.raw[column:]
            if not rest or (column == _after_space(line.raw, whole) and rest.startswith(b"//")):
                return
            if rest[:1] in (b"{", b"["):
                found, line, column = self._value(line, column)
                if found:
                    yield found
            else:
                behind = column > whole
                self._problem(line.number, _no_object(rest.strip(), behind=behind))
                if not behind or rest.startswith(b"//") or b"{" not in rest:
                    return
                column += rest.index(b"{")

    def _value(self, line: _Line, column: int) -> tuple[Record | None, _Line | None, int]:
        """The value that begins here, and where it ends; no line where reading goes on elsewhere."""
        indent = 0 if line.raw[:column].strip(b" \t") else column
        try:
            taken, end = self._gather(line, column, indent)
        except _Broken as broken:
            self._problem(line.number, f"not JSON: {broken}")
            self._go_on(broken.taken, indent)
            return None, None, 0
        raw = _joined(taken, column, end)
        try:
            value = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            self._problem(line.number, _why(raw, line.number, error))
            return None, taken[-1], end
        if isinstance(value, dict):
            return Record(line.number, line.offset + column, raw, value), taken[-1], end
        self._problem(line.number, _LIST)
        return None, taken[-1], end

    def _gather(self, line: _Line, column: int, indent: int) -> tuple[list[_Line], int]:
        """The lines of one value and the column behind it on the last of them."""
        taken, stack = [line], list[bytes]()
        while (end := _close(taken, column, stack)) < 0:
            column = 0
            following = self._lines.next()
            if following is None:
                raise _Broken("the file ends before this record does", taken)
            if _begins(following, indent) and not _may_begin(taken, stack):
                self._lines.back([following])
                raise _Broken(f"it is not closed before line {following.number}", taken)
            comment = following.raw.lstrip().startswith(b"//")
            taken.append(following._replace(raw=b"\n") if comment else following)
        return taken, end

    def _go_on(self, taken: list[_Line], indent: int) -> None:
        """Read again from the first line after the fault's own at which a record may begin."""
        for at, line in enumerate(taken[1:], 1):
            if _begins(line, indent):
                self._lines.back(taken[at:])
                return
        while (following := self._lines.next()) is not None:
            if _begins(following, indent):
                self._lines.back([following])
                return

    def _problem(self, line: int, message: str) -> None:
        self._note(Problem(f"{self._path}:{line}", message))


def _begins(line: _Line, indent: int) -> bool:
    """Whether an object begins here, at most so far to the right."""
    text = line.raw.lstrip(b" \t")
    return text[:1] == b"{" and len(line.raw) - len(text) <= indent


def _after_space(raw: bytes, column: int) -> int:
    return len(raw) - len(raw[column:].lstrip(b" \t\r\n"))


def _close(taken: list[_Line], column: int, stack: list[bytes]) -> int:
    """The column behind the bracket that closes the value, or -1 if the line does not close it."""
    for token in _TOKEN.finditer(taken[-1].raw, column):
        mark = token[0]
        if len(mark) > 1:
            continue
        if mark == b'"':
            raise _Broken(f"a text is not closed on line {taken[-1].number}", taken)
        if mark in _CLOSES:
            if stack.pop() != _CLOSES[mark]:
                raise _Broken(f"{mark.decode()!r} on line {taken[-1].number} closes nothing", taken)
            if not stack:
                return token.end()
        else:
            stack.append(mark)
            if len(stack) > _MOST_DEEP:
                raise _Broken(f"more than {_MOST_DEEP} brackets are open", taken)
    return -1


def _may_begin(taken: list[_Line], stack: list[bytes]) -> bool:
    """Whether an object may begin here inside the open value: after `:`, or as an item of a list."""
    before = next((text[-1:] for line in reversed(taken) if (text := line.raw.strip())), b"")
    return before == b":" or (stack[-1] == b"[" and before in (b"[", b","))


def _joined(taken: list[_Line], column: int, end: int) -> bytes:
    if len(taken) == 1:
        return taken[0].raw[column:end]
    middle = b"".join(line.raw for line in taken[1:-1])
    return taken[0].raw[column:] + middle + taken[-1].raw[:end]


_LIST = (
    "expected an object, found a list; write one object after the other, without [ ] and commas around them"
)


def _no_object(text: bytes, *, behind: bool) -> str:
    if behind and text.startswith(b"//"):
        return "a comment stands behind a record; give it a line of its own"
    if behind and text.startswith(b","):
        return "a comma stands behind a record; take it away"
    try:
        return f"expected an object, found {kind_of(_decode(text))}"
    except (msgspec.DecodeError, UnicodeDecodeError):
        return f"expected an object, found {text[:40].decode(errors='replace')!r}"


class _NoNumber(ValueError):
    """NaN or Infinity."""


def _refuse(name: str) -> NoReturn:
    raise _NoNumber(name)


def _why(raw: bytes, line: int, error: Exception) -> str:
    """What is wrong with a value whose brackets close."""
    try:
        json.loads(raw.decode(), parse_constant=_refuse)
    except UnicodeDecodeError as found:
        at = line + raw.count(b"\n", 0, found.start)
        return f"not UTF-8: byte 0x{raw[found.start]:02x} on line {at}"
    except json.JSONDecodeError as found:
        return f"not JSON: {found.msg.lower()} on line {line + found.lineno - 1}, column {found.colno}"
    except _NoNumber as found:
        return f"{found} is not JSON; write null or leave it out"
    except RecursionError:
        return "not usable: nested too deeply"
    if b"\\ud" in raw.lower():
        return "not JSON: half of a pair of \\ud escapes stands alone"
    return f"not JSON: {error}"


class _Pairs(list[tuple[str, Any]]):
    """An object with every key that was written."""


def repeated_keys(record: Record) -> list[tuple[str | int, ...]]:
    """The paths of keys that stand twice in one object of the record.

    A colon of the file that is gone when the value is written again belonged to a key that was replaced.
    """
    raw = record.raw
    if raw.count(b":") == _encode(record.value).count(b":") and b"\\u003" not in raw:
        return []
    return list(_repeated(json.loads(raw, object_pairs_hook=_Pairs), ()))


def _repeated(value: Any, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, _Pairs):
        seen = set[str]()
        for name, item in value:
            if name in seen:
                yield (*path, name)
            seen.add(name)
            yield from _repeated(item, (*path, name))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _repeated(item, (*path, at))


def key_line(record: Record, key: str | int) -> int:
    """The line of a top-level key of the record, the last if it is there twice; else the record's own."""
    depth, line = 0, record.line
    for token in _TOKEN.finditer(record.raw):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
        elif mark in _CLOSES:
            depth -= 1
        elif depth == 1 and _COLON.match(record.raw, token.end()) and json.loads(mark) == key:
            line = record.line + record.raw.count(b"\n", 0, token.start())
    return line
