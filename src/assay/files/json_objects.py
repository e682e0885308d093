"""Reads JSON files that people write. It yields every object with its position, and collects all problems.

    problems: list[Problem] = []
    for item in read_objects(Path("tests.jsonl"), problems):
        case = convert(item.value, Case, item, problems)           # files/schema.py
    refuse(problems, Path("tests.jsonl"))

A `.json` file has one object or a list of objects. The position of an object is its JSON path (`data.json $[3].id`).

Any other file has objects one after another: one per line, several on a line, or pretty-printed over many lines. Lines
that begin with `//` are comments. The position of an object is its line (`tests.jsonl:12 $.id`). Reading continues
after a broken object. A `.json` file with several objects is read in the same way.

A list in a `.json` file is streamed: only one object is in memory. Any other file is read into memory as a whole; for
large files of lines, use `object_lines` of `files/read.py`, which streams.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Literal, NamedTuple, TypeVar

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.files.excerpt import cut_end
from assay.files.read import (
    BOM,
    BY_PEOPLE,
    DECODE_ERRORS,
    ENDS_EARLY,
    BrokenJson,
    decode,
    explain,
    is_deeper,
    not_json,
    read_file,
    refuse_special_file,
    too_deep,
    without_bom,
)
from assay.files.schema import JSON_WORDING, KeyPath, Wording, convert, json_path, kind_of

T = TypeVar("T")

TORN = "the last line is cut off and left out; the file was probably being written"

_COMMENT_LINE = re.compile(rb"^[ \t]*//[^\n]*", re.MULTILINE)
_SPACE = re.compile(rb"\s*")
_JSON_SPACE = re.compile(rb"[ \t\r\n]*")
_OBJECT_START = re.compile(rb"^[ \t]*\{", re.MULTILINE)
_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|[{}\[\]]')
_COLON = re.compile(rb"\s*:")
_BYTE = re.compile(r"\(byte (\d+)\)")
_NO_LIST = "expected an object, found a list; write one object after the other, without [ ] and commas around them"
_decode = msgspec.json.Decoder().decode
_encode = msgspec.json.Encoder().encode
_find_end = json.JSONDecoder().raw_decode
_NOTHING: Any = object()  # marks a broken value whose problem is already reported
# The decoder first gets this many characters; see `_end_of_value`. Few objects are longer.
_WINDOW = 1 << 16
# If the window cuts a number, literal or escape, the decoder reports an error this close to the window's end.
_LONGEST_LITERAL = 400
_TOO_DEEP = too_deep(BY_PEOPLE.levels)
# A list is read in pieces of this many bytes.
_PIECE = 1 << 20
# What msgspec says of a text that goes on after a value.
_TRAILING = "trailing characters"


class FileObject(NamedTuple):
    """One JSON object of a file, with its bytes and its place in the file. It is a `schema.ValueSource`.

    In a `.jsonl` file the place is `line`, the line on which the object begins. In a `.json` file `line` is 0, and the
    place is `root`, a JSON path such as `$[3]`.
    """

    path: Path
    line: int
    raw: bytes
    value: dict[str, Any]
    root: str = "$"

    @property
    def wording(self) -> Wording:
        """Messages about data name the type of a wrong value, and do not quote it."""
        return JSON_WORDING

    def where(self, path: KeyPath = ()) -> str:
        """Return `file:line $.key`. If an object has several lines, it is the line of the top-level key."""
        if not self.line:
            return f"{self.path} {json_path(path, self.root)}"
        if not path:
            return f"{self.path}:{self.line}"
        line = self.line
        if b"\n" in self.raw:
            line = key_line(self, path[0])
        return f"{self.path}:{line} {json_path(path)}"

    def problem(self, path: KeyPath, message: str, level: str = "error") -> Problem:
        """Build the problem of the value at `path`."""
        return Problem(self.where(path), message, level)


def read_objects(
    path: Path,
    problems: list[Problem],
    *,
    thing: str = "record",
    hint: str = "",
    torn: Literal["error", "warning"] = "error",
) -> Iterator[FileObject]:
    """Yield the objects of a file in order, and add everything else to `problems`.

    Raises InputError if the file cannot be read at all; `hint` is then part of the message. `thing` is the word for an
    object in messages. With `torn="warning"` an incomplete last line is skipped with a warning, because a program
    may still be writing the file.
    """
    try:
        if path.suffix == ".json" and _is_list(path):
            yield from _list(path, thing, problems)
            return
        data = without_bom(read_file(path, BY_PEOPLE.document))
    except OSError as error:
        raise InputError(unreadable(path, error, hint)) from None
    except BrokenJson as error:
        problems.append(error.problem(path))
        return
    if path.suffix == ".json" and not _holds_several_objects(data):
        yield from _document(path, data, thing, problems)
    else:
        yield from _Scan(path, data, problems, torn).objects()


def read_structs(path: Path, schema: type[T], problems: list[Problem]) -> list[T]:
    """Return the objects of a file as structs. Invalid objects are skipped and added to `problems`."""
    rows = []
    for item in read_objects(path, problems):
        row = convert(item.value, schema, item, problems)
        if row is not None:
            rows.append(row)
    return rows


def first_object(path: Path) -> FileObject | None:
    """Return the first object of a file, to recognise its format; None if it has none."""
    # The file may be large, and the first bytes nearly always have a whole object. Otherwise read more.
    refuse_special_file(path)
    for size in (1 << 16, 1 << 22, BY_PEOPLE.line):
        with path.open("rb") as file:
            data = file.read(size).removeprefix(BOM)
        item = next(_Scan(path, data, [], "error").objects(), None)
        if item is not None:
            return item
    return None


def key_line(item: FileObject, key: str | int) -> int:
    """Return the line of a top-level key of an object. If the key occurs twice, the line of the last one."""
    depth, line = 0, item.line
    for token in _TOKEN.finditer(item.raw):
        mark = token[0]
        if mark in (b"{", b"["):
            depth += 1
        elif mark in (b"}", b"]"):
            depth -= 1
        elif depth == 1 and _COLON.match(item.raw, token.end()) and json.loads(mark) == key:
            line = item.line + item.raw.count(b"\n", 0, token.start())
    return line


def repeated_keys(raw: bytes, value: Any) -> list[KeyPath]:
    """Return the paths of keys that occur twice in one object. JSON decoders silently keep the last one."""
    # A fast test first: decoding drops a repeated key, so the encoded value has fewer colons.
    if raw.count(b":") == _encode(value).count(b":") and b"\\u003" not in raw:
        return []
    return list(_repeated(json.loads(raw, object_pairs_hook=_Pairs), ()))


class _Pairs(list[tuple[str, Any]]):
    """An object as a list of all its keys and values, also repeated ones."""


def _repeated(value: Any, path: KeyPath) -> Iterator[KeyPath]:
    if isinstance(value, _Pairs):
        seen: set[str] = set()
        for name, item in value:
            if name in seen:
                yield (*path, name)
            seen.add(name)
            yield from _repeated(item, (*path, name))
    elif isinstance(value, list):
        for place, item in enumerate(value):
            yield from _repeated(item, (*path, place))


def _holds_several_objects(data: bytes) -> bool:
    """Return whether a `.json` file has an object and more after it, as a `.jsonl` file has."""
    if not data.lstrip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(data, type=msgspec.Raw)
    except DECODE_ERRORS as error:
        return _TRAILING in str(error)
    return False


def _is_list(path: Path) -> bool:
    """Return whether the first character of a JSON file begins a list."""
    refuse_special_file(path)
    with path.open("rb") as file:
        start = file.read(_WINDOW).removeprefix(BOM)
        while start and not start.lstrip():
            start = file.read(_WINDOW)
    return start.lstrip().startswith(b"[")


def _list(path: Path, thing: str, problems: list[Problem]) -> Iterator[FileObject]:
    """Yield the objects of a JSON list, one at a time. A syntax error ends the list."""
    place = -1
    with path.open("rb") as file:
        try:
            for place, raw in enumerate(JsonArray(file).elements()):
                yield from _decoded(path, raw, f"$[{place}]", problems)
        except BrokenJson as error:
            problems.append(error.problem(path))
            return
        except RecursionError:
            problems.append(Problem(f"{path} $[{place + 1}]", _TOO_DEEP))
            return
    if place < 0:
        problems.append(Problem(str(path), f"there is no {thing} in it"))


class JsonArray:
    """A JSON array in an open file. Only one element and a piece of the file are in memory.

    The file is not mapped: if another program truncates a mapped file, reading it ends the process.
    """

    def __init__(self, file: IO[bytes], *, longest: int = BY_PEOPLE.line, piece: int = _PIECE) -> None:
        self._file = file
        self._longest = longest
        self._piece = piece
        self._data = b""
        self._line = 1  # of the first byte of `_data`
        self._column = 1  # of the first byte of `_data`
        self._at = 0  # in `_data`

    def elements(self) -> Iterator[bytes]:
        """Yield the bytes of each element in order. Raises BrokenJson where the file is not an array. Call it once."""
        self._read_on()
        self._data = self._data.removeprefix(BOM)
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
                raise self._broken("expected ',' or ']'") if mark else BrokenJson(ENDS_EARLY)
        self._at += 1
        if self._next():
            raise self._broken(_TRAILING)

    def _read_on(self) -> bool:
        """Read on, and forget what lies before the current position. Returns False at the end of the file."""
        # As much again as there is: an element of many pieces is copied a few times only.
        piece = self._file.read(max(self._piece, len(self._data) - self._at))
        if not piece:
            return False
        self._line, self._column = self._place()
        self._data = self._data[self._at :] + piece
        self._at = 0
        return True

    def _next(self) -> bytes:
        """Move to the next character that is not space, and return it; empty at the end of the file."""
        while True:
            space = _JSON_SPACE.match(self._data, self._at)
            assert space is not None  # it matches the empty text
            self._at = space.end()
            if self._at < len(self._data):
                return self._data[self._at : self._at + 1]
            if not self._read_on():
                return b""

    def _element(self) -> bytes:
        """Return the element that begins here, and move to its end: msgspec names the first byte that follows it."""
        while True:
            rest = memoryview(self._data)[self._at :]
            reason = ""
            try:
                msgspec.json.decode(rest, type=msgspec.Raw)
            except msgspec.DecodeError as error:
                reason = str(error)
            position = _BYTE.search(reason)
            end = int(position[1]) if position is not None else len(rest)
            is_complete = _TRAILING in reason
            if is_complete:
                end -= 1  # msgspec counts the character that follows
            if end > self._longest:
                what = f"an element is longer than {self._longest:,} bytes; is a bracket or a quote missing?"
                raise self._broken(what)
            # Otherwise the element, or an error at the very end of the piece, may go on in the next one.
            if is_complete or end < len(rest) or not self._read_on():
                break
        if reason and not is_complete:
            self._at += end
            if position is None:
                raise BrokenJson(ENDS_EARLY)
            raise self._broken(reason.partition(" (byte")[0].removeprefix("JSON is malformed: "))
        raw = self._data[self._at : self._at + end]
        self._at += end
        return raw.rstrip()

    def _place(self) -> tuple[int, int]:
        """Return the line and the column of the current position."""
        before = self._data[: self._at]
        line_break = before.rfind(b"\n")
        characters = len(before[line_break + 1 :].decode(errors="replace"))
        return self._line + before.count(b"\n"), characters + (self._column if line_break < 0 else 1)

    def _broken(self, reason: str) -> BrokenJson:
        """Return the error at the current position."""
        line, column = self._place()
        return BrokenJson(f"is not JSON: {reason} in line {line}, column {column}", line)


def _document(path: Path, data: bytes, thing: str, problems: list[Problem]) -> Iterator[FileObject]:
    """Yield the one object of a JSON document."""
    try:
        raw = bytes(msgspec.json.decode(data, type=msgspec.Raw))
    except DECODE_ERRORS as error:  # the texts are not decoded yet
        problems.append(explain(data, error).problem(path))
        return
    if not raw.startswith(b"{"):
        problems.append(Problem(f"{path} $", f"must be a list of {thing}s, or one as an object"))
        return
    yield from _decoded(path, raw, "$", problems)


def _decoded(path: Path, raw: bytes, root: str, problems: list[Problem]) -> Iterator[FileObject]:
    """Yield the object at `root`, or add the reason why it is none. Its syntax is checked already."""
    try:
        value = decode(raw)
    except BrokenJson as error:
        problems.append(Problem(f"{path} {root}", error.reason))
        return
    if isinstance(value, dict):
        yield FileObject(path, 0, raw, value, root)
    else:
        problems.append(Problem(f"{path} {root}", f"must be an object, not {kind_of(value)}"))


class _BrokenValue(Exception):
    """A value is not valid JSON. Has the reason and the byte position in the file."""

    def __init__(self, reason: str, position: int) -> None:
        super().__init__(reason)
        self.reason = reason
        self.position = position


class _Scan:
    """Reads objects that follow one another in a file."""

    def __init__(self, path: Path, data: bytes, problems: list[Problem], torn: str) -> None:
        # A JSON string cannot contain a line break, so a line that begins with // is never inside a string.
        if b"//" in data:
            data = _COMMENT_LINE.sub(lambda comment: b" " * len(comment[0]), data)
        self._path = path
        self._data = data
        # The data decoded as Latin-1, so that offsets in the text and in the bytes agree. It is needed only to find the
        # end of an object that spans several lines, so it stays empty until the first such object.
        self._text = ""
        self._problems = problems
        self._torn = torn
        self._position = 0
        self._line = 1
        self._content_size = len(data.rstrip())

    def objects(self) -> Iterator[FileObject]:
        """Yield every object. After a broken object, reading continues at the next one."""
        data, size = self._data, len(self._data)
        while (start := self._skip_space()) < size:
            line_end = data.find(b"\n", start)
            if line_end < 0:
                line_end = size
            line, raw = self._line, data[start:line_end]
            # Fast path: an object nearly always fills the rest of its line.
            try:
                value = _decode(raw)
            except DECODE_ERRORS:
                raw, value = self._value(start, line_end)
            else:
                self._move(line_end)
            if isinstance(value, dict):
                if is_deeper(value, BY_PEOPLE.levels, raw):
                    self._add(line, _TOO_DEEP)
                else:
                    yield FileObject(self._path, line, raw, value)
            elif isinstance(value, list):
                self._add(line, _NO_LIST)
            elif value is not _NOTHING:
                self._add(line, f"expected an object, found {kind_of(value)}")

    def _skip_space(self) -> int:
        space = _SPACE.match(self._data, self._position)
        assert space is not None  # it matches the empty text
        self._move(space.end())
        return self._position

    def _move(self, position: int) -> None:
        self._line += self._data.count(b"\n", self._position, position)
        self._position = position

    def _line_of(self, position: int) -> int:
        return self._line + self._data.count(b"\n", self._position, position)

    def _add(self, line: int, message: str, level: str = "error") -> None:
        self._problems.append(Problem(f"{self._path}:{line}", message, level))

    def _value(self, start: int, line_end: int) -> tuple[bytes, Any]:
        """Read a value that does not fill the rest of its line, and move to its end."""
        data = self._data
        if data[start : start + 1] not in (b"{", b"["):
            self._no_value(start, line_end)
            return b"", _NOTHING
        self._text = self._text or data.decode("latin-1")
        try:
            end = self._end_of_value(start)
        except _BrokenValue as error:
            self._broken(start, error.reason, error.position)
            return b"", _NOTHING
        except RecursionError:
            self._add(self._line, _TOO_DEEP)
            self._go_on(start)
            return b"", _NOTHING
        except ValueError as error:
            # Python refuses integers of more than a few thousand digits.
            self._add(self._line, f"not usable: {error}")
            self._go_on(start)
            return b"", _NOTHING
        raw, line = data[start:end], self._line
        self._move(end)
        try:
            return raw, _decode(raw)
        except DECODE_ERRORS as error:
            self._add(line, explain(raw, error, line=line).reason)
        return b"", _NOTHING

    def _end_of_value(self, start: int) -> int:
        """Return the end of the value that begins at `start`. Raises _BrokenValue if it is not valid JSON.

        The decoder first gets a window of the file, and the whole rest only if the window cuts the value. For an error
        message it counts all lines before it, so a file of broken objects would take quadratic time otherwise.
        """
        window = self._text[start : start + _WINDOW]
        try:
            return start + _find_end(window, 0)[1]
        except json.JSONDecodeError as error:
            cut = len(window) == _WINDOW and (
                error.msg.startswith("Unterminated string") or error.pos > _WINDOW - _LONGEST_LITERAL
            )
            if not cut:
                raise _BrokenValue(error.msg, start + error.pos) from None
        try:
            return int(_find_end(self._text, start)[1])
        except json.JSONDecodeError as error:
            raise _BrokenValue(error.msg, error.pos) from None

    def _no_value(self, start: int, line_end: int) -> None:
        """Report text that is not an object, and move past it."""
        data = self._data
        text = data[start:line_end].strip()
        line_start = data.rfind(b"\n", 0, start) + 1
        behind = bool(data[line_start:start].strip())
        self._add(self._line, f"expected an object, found {cut_end(text.decode(errors='replace'), 40)!r}")
        following = data.find(b"{", start, line_end)
        if behind and following >= 0 and not text.startswith(b"//"):
            self._move(following)
        else:
            self._move(line_end)

    def _broken(self, start: int, reason: str, position: int) -> None:
        """Report a value that is not valid JSON, and move to the next line that may begin an object."""
        data = self._data
        torn = position >= self._content_size
        if reason.startswith("Unterminated string"):
            torn = data.find(b"\n", position, self._content_size) < 0
        line = self._line_of(position)
        if torn and self._torn == "warning" and line == self._line:
            self._add(self._line, TORN, "warning")
        else:
            self._add(self._line, not_json(reason, data, position, line).reason)
        self._go_on(start)

    def _go_on(self, start: int) -> None:
        """Move to the next line that begins with `{` and is indented no more than the broken object."""
        data, indent = self._data, _indent(self._data, start)
        line_end = data.find(b"\n", start)
        if line_end >= 0:
            for match in _OBJECT_START.finditer(data, line_end + 1):
                if match.end() - 1 - match.start() <= indent:
                    self._move(match.start())
                    return
        self._move(len(data))


REPEATED_KEY = "duplicate key in one object; the last value is used"


def _indent(data: bytes, position: int) -> int:
    """Return the indentation of a value; 0 if other text precedes it on its line."""
    before = data[data.rfind(b"\n", 0, position) + 1 : position]
    return 0 if before.strip(b" \t") else len(before)
