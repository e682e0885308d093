"""Reads JSON lines the way people write them, and says of every bad line where and why it is bad."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import msgspec

from assay.core.errors import InputError, Problem

_BOM = b"\xef\xbb\xbf"
_decode = msgspec.json.Decoder().decode


class Line(NamedTuple):
    """A line that is not blank, as bytes without its end."""

    number: int
    raw: bytes


class ObjectLine(NamedTuple):
    """A line that holds an object."""

    number: int
    raw: bytes
    value: dict[str, Any]


def lines(path: Path) -> Iterator[Line]:
    """Every line that is not blank; tolerates a BOM, CRLF and a missing last line end."""
    with path.open("rb", buffering=1 << 18) as file:
        for number, raw in enumerate(file, 1):
            if text := body(raw, number):
                yield Line(number, text)


def body(raw: bytes, number: int) -> bytes:
    """A line without its end, the first one without a BOM."""
    return raw.strip() if number > 1 else raw.strip().removeprefix(_BOM).strip()


def rows(path: Path, problems: list[Problem] | None = None) -> Iterator[ObjectLine]:
    """Every object of the file. Bad lines go to `problems`; without it the first one raises."""
    for number, raw in lines(path):
        value = parse_object(raw, Place(path, number), problems)
        if value is not None:
            yield ObjectLine(number, raw, value)


class Located(Protocol):
    """Something that can say where it stands; asked only when there is a problem."""

    @property
    def where(self) -> str:
        """As a message names it."""
        ...


class Place(NamedTuple):
    """A line of a file."""

    path: Path
    line: int

    @property
    def where(self) -> str:
        """`file:line`."""
        return f"{self.path}:{self.line}"


def parse_object(raw: bytes, at: Located, problems: list[Problem] | None = None) -> dict[str, Any] | None:
    """The object in `raw`; None after noting the problem. NaN and Infinity are not JSON."""
    try:
        value = _decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        problem = Problem(at.where, f"not JSON: {error}")
    else:
        if isinstance(value, dict):
            return value
        problem = Problem(at.where, f"expected an object, found {_kind(value)}")
    if problems is None:
        raise InputError(problem)
    problems.append(problem)
    return None


def _kind(value: Any) -> str:
    names = {list: "a list", str: "a string", bool: "a boolean", type(None): "null"}
    return names.get(type(value), "a number")
