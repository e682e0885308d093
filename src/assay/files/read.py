"""Reads files within bounds: their bytes, lines and JSON. No file blocks a reader, fills the memory or the stack.

    data = read_file(path, MAX_BYTES)                # refuses pipes, devices and larger files
    for line in json_lines(path): ...                # BOM, CRLF and blank lines; refuses UTF-16 and an endless line
    for row in object_lines(path, problems): ...     # a JSON object on each line; a bad line is a Problem
    value = decode(raw)                              # BrokenJson says what is wrong, with line and column
    value = read_json(path)                          # a JSON document that another program wrote

Everything that is refused is an InputError with one sentence; bytes without a file raise BrokenJson. A run and `assay
check` use the same readers.
"""

from __future__ import annotations

import json
import re
import stat
from collections.abc import Iterator
from contextlib import suppress
from itertools import starmap
from math import isfinite
from pathlib import Path
from typing import IO, Any, NamedTuple, Protocol, TypeVar

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.files.schema import kind_of

T = TypeVar("T")


class Bounds(NamedTuple):
    """What a JSON file may have. Everything beyond is refused with a sentence."""

    document: int
    """Bytes of a file that is decoded as a whole."""
    line: int
    """Bytes of a line."""
    levels: int
    """Levels of lists and objects. Deeper values overflow the stack of recursive code that reads them later."""
    lenient: bool
    """Accept NaN, Infinity and half of a surrogate pair, which Python's own encoder writes and JSON does not have."""


BY_PEOPLE = Bounds(1 << 32, 1 << 26, 300, lenient=False)
"""Files that people write for assay. The largest published document, LongMemEval's M set, has 2.7 GB; the longest rows
of published data sets, whole books, have a few megabytes."""
BY_PROGRAMS = Bounds(1 << 30, 1 << 28, 100, lenient=True)
"""Files that other programs wrote, which may come from anywhere. The longest real lines, whole transcripts of agents,
have about 50 MB; real files have about ten levels."""

BOM = b"\xef\xbb\xbf"
_UTF16_MARKS = (b"\xff\xfe", b"\xfe\xff")
_IS_UTF16 = "this is UTF-16; save the file as UTF-8"
_SPECIAL_FILES = {
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}


def refuse_special_file(path: Path) -> None:
    """Raise InputError for a pipe, device or socket: reading one may wait for ever or never end.

    Says nothing about a missing file or a folder. Opening them raises an OSError that explains itself.
    """
    try:
        mode = path.stat().st_mode
    except OSError:
        return
    for is_kind, name in _SPECIAL_FILES.items():
        if is_kind(mode):
            message = f"is {name}, not a file; write its content to a file first"
            raise InputError(Problem(str(path), message))


def read_file(path: Path, most: int) -> bytes:
    """Return the bytes of a file. Raises InputError if it has more than `most`, and OSError as `open` does."""
    refuse_special_file(path)
    if path.stat().st_size > most:
        raise InputError(Problem(str(path), f"has more than {most:,} bytes, the most that is read at once"))
    return path.read_bytes()


def not_utf8(error: UnicodeDecodeError, line: int = 0) -> str:
    """Return why bytes are not UTF-8: the first wrong byte, with its line if that is known, and what to do."""
    if error.object[:2] in _UTF16_MARKS:
        return _IS_UTF16
    place = f" on line {line}" if line else ""
    byte = error.object[error.start]
    return f"not UTF-8: byte 0x{byte:02x}{place}, perhaps GBK, Latin-1 or Windows-1252; save the file as UTF-8"


def without_bom(data: bytes) -> bytes:
    """Return a file, or its beginning, without a BOM. Raises BrokenJson for UTF-16."""
    if data.startswith(_UTF16_MARKS):
        raise BrokenJson(_IS_UTF16, 1)
    return data.removeprefix(BOM)


# Lines


class Line(NamedTuple):
    """A line that is not blank, as bytes without its line break. `offset` is the byte at which it begins."""

    number: int
    offset: int
    raw: bytes


def json_lines(path: Path, bounds: Bounds = BY_PEOPLE) -> Iterator[Line]:
    """Yield every line of a file that is not blank.

    Raises InputError for a file that cannot be read, for a pipe or a device, and as `read_lines` does.
    """
    try:
        refuse_special_file(path)
        with path.open("rb", buffering=1 << 18) as file:
            yield from starmap(Line, read_lines(file, path, bounds))
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


def read_lines(file: IO[bytes], path: Path, bounds: Bounds = BY_PEOPLE) -> Iterator[tuple[int, int, bytes]]:
    """Yield number, offset and bytes of every line of an open file that is not blank, as `Line` describes them.

    Accepts a BOM, CRLF and a missing line break at the end. Raises InputError for a line without end, and for UTF-16,
    in which every line would be a problem.
    """
    readline, longest = file.readline, bounds.line
    number = offset = 0
    while raw := readline(longest):
        number += 1
        text = raw.strip()
        if number == 1:
            if raw.startswith(_UTF16_MARKS):
                raise InputError(Problem(f"{path}:1", _IS_UTF16))
            text = text.removeprefix(BOM).strip()
        if len(raw) == longest and not raw.endswith(b"\n"):
            message = f"the line is longer than {longest:,} bytes; is this a file of JSON lines?"
            raise InputError(Problem(f"{path}:{number}", message))
        if text:
            yield number, offset, text
        offset += len(raw)


def line_at(file: IO[bytes], offset: int, bounds: Bounds = BY_PEOPLE) -> bytes:
    """Return the line that begins at an offset of an open file, as `read_lines` yields it."""
    file.seek(offset)
    return line_body(file.readline(bounds.line), is_first=offset == 0)


def line_body(raw: bytes, *, is_first: bool) -> bytes:
    """Return a line without its line break; the first line of a file also without a BOM."""
    return raw.strip().removeprefix(BOM).strip() if is_first else raw.strip()


# JSON

_decode = msgspec.json.Decoder().decode
DECODE_ERRORS = (msgspec.DecodeError, UnicodeDecodeError, RecursionError)
"""What msgspec raises for bytes that are not usable JSON."""
ENDS_EARLY = "is not JSON: Input data was truncated"
"""The reason of a text that is the beginning of JSON, such as a line that is still being written."""
_OTHER_FORMATS = {
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "a zip archive",
    b"(\xb5/\xfd": "zstd",
}
_BYTE = re.compile(r" \(byte (\d+)\)")
_TRAILING = "trailing characters"
_HALF_PAIR = re.compile(r"[\ud800-\udfff]")


class BrokenJson(ValueError):
    """Bytes are not usable JSON. `line` is 0 if it is not known."""

    def __init__(self, reason: str, line: int = 0) -> None:
        super().__init__(reason)
        self.reason = reason
        self.line = line

    def problem(self, path: Path) -> Problem:
        """Return the problem of a file that has these bytes."""
        return Problem(f"{path}:{self.line}" if self.line else str(path), self.reason)


def decode(raw: bytes, bounds: Bounds = BY_PEOPLE) -> Any:
    """Return the value of a JSON text. Raises BrokenJson."""
    try:
        value = _decode_leniently(raw) if bounds.lenient else _decode(raw)
    except (*DECODE_ERRORS, ValueError) as error:
        raise explain(raw, error, bounds) from None
    if is_deeper(value, bounds.levels, raw):
        raise BrokenJson(too_deep(bounds.levels))
    return value


def _decode_leniently(raw: bytes) -> Any:
    try:
        return _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):
        if not _may_need_python(raw):
            raise
    value = json.loads(raw)
    # No UTF-8 file can have half of a surrogate pair, so it becomes a question mark.
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _may_need_python(raw: bytes) -> bool:
    """Return whether a text may have what Python's own decoder accepts and msgspec's does not."""
    return b"NaN" in raw or b"Infinity" in raw or b"\\u" in raw


def explain(raw: bytes, error: Exception, bounds: Bounds = BY_PEOPLE, line: int = 0) -> BrokenJson:
    """Return why bytes are not usable JSON. `error` is what a decoder of msgspec or Python raised for them.

    `line` is the line of the file on which the bytes begin, if they do not begin the file.
    """
    if isinstance(error, RecursionError):
        return BrokenJson(too_deep(bounds.levels))
    if not raw.strip():
        return BrokenJson("is empty")
    for mark, name in _OTHER_FORMATS.items():
        if raw.startswith(mark):
            return BrokenJson(f"expected JSON in UTF-8, found {name}")
    try:
        raw.decode()
    except UnicodeDecodeError as wrong:
        wrong_line = (line or 1) + raw.count(b"\n", 0, wrong.start)
        return BrokenJson(not_utf8(wrong, wrong_line if line or b"\n" in raw else 0), wrong_line)
    if isinstance(error, json.JSONDecodeError):
        return not_json(error.msg, raw, len(error.doc[: error.pos].encode()))
    # Python's values take about ten times the memory of their text.
    if len(raw) <= BY_PROGRAMS.line and _may_need_python(raw) and (reason := _python_only(raw)):
        return BrokenJson(reason)
    reason = str(error).removeprefix("JSON is malformed: ").partition(" - at ")[0]
    if byte := _BYTE.search(reason):
        reason = reason[: byte.start()]
        # msgspec counts trailing characters from 1, and all others from 0.
        return not_json(reason, raw, int(byte[1]) - (reason == _TRAILING))
    return BrokenJson(f"is not JSON: {reason}")


def _python_only(raw: bytes) -> str:
    """Return what a text has that Python's decoder accepts and JSON has not; empty if there is nothing."""
    constants: list[str] = []
    with suppress(ValueError, RecursionError):
        text = json.dumps(json.loads(raw, parse_constant=constants.append), ensure_ascii=False)
        if constants:
            return f"{constants[0]} is not JSON; write null or leave it out"
        if half := _HALF_PAIR.search(text):
            escape = f"\\u{ord(half[0]):04x}"
            return (
                f"a text has half of a surrogate pair ({escape}), which is no character; "
                "write the whole character, or remove it"
            )
    return ""


def not_json(reason: str, raw: bytes, position: int, line: int = 0) -> BrokenJson:
    """Return the error at a byte of a text. A text without line breaks is a line, whose number its place has.

    `line` is the line of the byte, for a caller that knows it: counting from the beginning takes time.
    """
    # Python's messages go on with the position: "Invalid control character at".
    reason = reason.removesuffix(" at").removesuffix(" starting")
    line = line or raw.count(b"\n", 0, position) + 1
    column = len(raw[raw.rfind(b"\n", 0, position) + 1 : position].decode(errors="replace")) + 1
    place = f"line {line}, column {column}" if b"\n" in raw else f"column {column}"
    return BrokenJson(f"is not JSON: {reason[:1].lower()}{reason[1:]} in {place}", line)


def too_deep(levels: int) -> str:
    """Return the message for a value that is nested too deeply."""
    return f"is nested more than {levels} levels deep"


def is_deeper(value: object, levels: int, raw: bytes = b"") -> bool:
    """Return whether lists and dicts are nested more than `levels` deep.

    `raw` is the JSON text of the value, if there is one: most texts say without a look at the value that it is not.
    """
    # Each level has two brackets. Counting the opening ones is a cheap upper bound of the depth, and the length of the
    # text a cheaper one.
    if raw and (len(raw) <= 2 * levels or raw.count(b"[") + raw.count(b"{") <= levels):
        return False
    # A loop: a function that calls itself could exhaust the stack that it guards. The path ends at the limit, because
    # a value that Python code made may contain itself.
    path: list[Iterator[object]] = [iter((value,))]
    while path:
        for item in path[-1]:
            # The exact types: `values` of a subclass would be code of somebody else.
            if type(item) is dict:
                inner = iter(item.values())
            elif type(item) is list or type(item) is tuple:
                inner = iter(item)
            else:
                continue
            if len(path) > levels:
                return True
            path.append(inner)
            break
        else:
            path.pop()
    return False


# One object per line


class ObjectLine(NamedTuple):
    """A line with a JSON object."""

    number: int
    raw: bytes
    value: dict[str, Any]


class Located(Protocol):
    """Something with a position in a file. `where` is read only if there is a problem."""

    @property
    def where(self) -> str:
        """The position for messages."""
        ...


class Place(NamedTuple):
    """A line of a file."""

    path: Path
    line: int

    @property
    def where(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.line}"


def object_lines(path: Path, problems: list[Problem] | None = None) -> Iterator[ObjectLine]:
    """Yield every object of a file. Bad lines are added to `problems`; without a list, the first one raises."""
    for number, _, raw in json_lines(path):
        value = parse_object(raw, Place(path, number), problems)
        if value is not None:
            yield ObjectLine(number, raw, value)


def parse_object(raw: bytes, place: Located, problems: list[Problem] | None = None) -> dict[str, Any] | None:
    """Return the object in `raw`, or None after adding to `problems`."""
    try:
        value = decode(raw)
    except BrokenJson as error:
        message = error.reason
    else:
        if isinstance(value, dict):
            return value
        message = f"expected an object, found {kind_of(value)}"
    problem = Problem(place.where, message)
    if problems is None:
        raise InputError(problem)
    problems.append(problem)
    return None


# JSON of other programs


def read_json(path: Path) -> Any:
    """Return the JSON value of a file. Raises InputError if it is no JSON, too large or too deep."""
    try:
        data = read_file(path, BY_PROGRAMS.document)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    return decode_json(data, str(path))


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises InputError as `read_json`, and if the value is no object."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(Problem(str(path), "expected a JSON object"))
    return value


def decode_json(raw: bytes, where: str) -> Any:
    """Return a JSON value, with NaN and Infinity as floats. Raises InputError; `where` begins its message."""
    try:
        return decode(raw.removeprefix(BOM), BY_PROGRAMS)
    except BrokenJson as error:
        raise InputError(Problem(where, error.reason)) from None


def convert_json(value: Any, schema: type[T], where: str) -> T:
    """Return a decoded value as a struct. Raises InputError that names the place of a wrong value."""
    try:
        return msgspec.convert(value, schema, strict=True)
    except msgspec.ValidationError as error:
        raise InputError(Problem(where, str(error))) from None


def without_nan(value: Any) -> Any:
    """Return a JSON value with null in place of NaN and infinite numbers, which no journal can store."""
    if isinstance(value, dict):
        return {key: without_nan(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_nan(item) for item in value]
    return None if isinstance(value, float) and not isfinite(value) else value
