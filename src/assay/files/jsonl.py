"""Streams JSON lines from a file of any size. A bad line becomes a Problem with its line number."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.core.errors import InputError, Problem
from assay.files.bounds import MAX_DEPTH, is_deeper, read_lines, refuse_special_file
from assay.files.encoding import IS_UTF16, UTF16_MARKS, not_json, not_utf8

_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode
TOO_DEEP = f"nested more than {MAX_DEPTH} levels deep"


class Line(NamedTuple):
    """A line that is not blank, as bytes without its line break."""

    number: int
    raw: bytes


class ObjectLine(NamedTuple):
    """A line with a JSON object."""

    number: int
    raw: bytes
    value: dict[str, Any]


def lines(path: Path) -> Iterator[Line]:
    """Yield every line that is not blank. Accepts a BOM, CRLF and a missing line break at the end.

    Raises InputError for a line without end, for a pipe or a device, and for UTF-16, in which every line is a problem.
    """
    refuse_special_file(path)
    with path.open("rb", buffering=1 << 18) as file:
        for number, raw in enumerate(read_lines(file, path), 1):
            if number == 1 and raw.startswith(UTF16_MARKS):
                raise InputError(Problem(f"{path}:1", IS_UTF16))
            if text := body(raw, number):
                yield Line(number, text)


def body(raw: bytes, number: int) -> bytes:
    """Return a line without its line break; the first line also without a BOM."""
    return raw.strip() if number > 1 else raw.strip().removeprefix(_BOM).strip()


def rows(path: Path, problems: list[Problem] | None = None) -> Iterator[ObjectLine]:
    """Yield every object of the file. Bad lines are added to `problems`; without a list, the first one raises."""
    for number, raw in lines(path):
        value = parse_object(raw, Place(path, number), problems)
        if value is not None:
            yield ObjectLine(number, raw, value)


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


def parse_object(raw: bytes, place: Located, problems: list[Problem] | None = None) -> dict[str, Any] | None:
    """Return the object in `raw`, or None after adding to `problems`. NaN and Infinity are not JSON."""
    try:
        value = _decode(raw)
    except UnicodeDecodeError as error:
        problem = Problem(place.where, not_utf8(error))
    except msgspec.DecodeError as error:
        problem = Problem(place.where, not_json(error, raw))
    except RecursionError:
        problem = Problem(place.where, TOO_DEEP)
    else:
        if isinstance(value, dict) and not is_deeper(value, MAX_DEPTH, raw):
            return value
        kind = _kind(value)
        problem = Problem(place.where, f"expected an object, found {kind}" if kind else TOO_DEEP)
    if problems is None:
        raise InputError(problem)
    problems.append(problem)
    return None


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null", dict: ""}
    return names.get(type(value), "a number")
