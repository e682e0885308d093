"""Reads JSON that other programs wrote: bounded in size and depth, tolerant of NaN.

`json_objects.py` and `jsonl.py` read what people write for assay. They refuse NaN, which result files contain: Python's
own encoder writes it. The bounds exist because a result file may come from anywhere.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from math import isfinite
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.files.bounds import is_deeper, refuse_special_file

T = TypeVar("T")

MAX_FILE_BYTES = 1 << 30
"""A JSON document is decoded as a whole, so it may not be larger. JSON lines and zip archives may."""
MAX_LINE_BYTES = 1 << 28
"""A line, or one sample of an archive. The longest real ones have whole agent transcripts: about 50 MB."""
MAX_DEPTH = 100
"""Deeper values exhaust the stack of recursive code that reads them later. Real files have about ten levels."""

_BOM = b"\xef\xbb\xbf"
_OTHER_ENCODINGS = {
    b"\xff\xfe": "UTF-16",
    b"\xfe\xff": "UTF-16",
    b"\x1f\x8b": "gzip",
    b"PK\x03\x04": "a zip archive",
    b"(\xb5/\xfd": "zstd",
}
_decode = msgspec.json.Decoder().decode


class ForeignLine(NamedTuple):
    """One line of a JSON lines file. `offset` is the byte at which it begins."""

    number: int
    offset: int
    raw: bytes


def read_json(path: Path) -> Any:
    """Return the JSON value of a file. Raises InputError if it is no JSON, too large or too deep."""
    try:
        refuse_special_file(path)
        size = path.stat().st_size
        if size > MAX_FILE_BYTES:
            raise InputError(Problem(str(path), f"has {size:,} bytes; a JSON file may have {MAX_FILE_BYTES:,}"))
        data = path.read_bytes()
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    return decode_json(data, str(path))


def read_object(path: Path) -> dict[str, Any]:
    """Return the JSON object of a file. Raises InputError as `read_json`, and if the value is no object."""
    value = read_json(path)
    if not isinstance(value, dict):
        raise InputError(Problem(str(path), "expected a JSON object"))
    return value


def json_lines(path: Path) -> Iterator[ForeignLine]:
    """Yield the lines of a file that are not blank.

    Raises InputError for a line of more than MAX_LINE_BYTES, and for a pipe or a device.
    """
    try:
        refuse_special_file(path)
        with path.open("rb", buffering=1 << 18) as file:
            offset = number = 0
            # readline with a bound: a file of one endless line would otherwise fill the memory.
            while raw := file.readline(MAX_LINE_BYTES):
                number += 1
                if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
                    raise InputError(Problem(f"{path}:{number}", f"the line is longer than {MAX_LINE_BYTES:,} bytes"))
                if text := raw.strip():
                    yield ForeignLine(number, offset, text)
                offset += len(raw)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


def decode_json(raw: bytes, where: str) -> Any:
    """Return a JSON value, with NaN and Infinity as floats. Raises InputError; `where` begins its message."""
    raw = raw.removeprefix(_BOM)
    try:
        try:
            value = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            value = _decode_leniently(raw, error)
    except RecursionError:
        raise _too_deep(where) from None
    except (msgspec.DecodeError, ValueError) as error:
        raise InputError(Problem(where, _why_not_json(raw, error))) from None
    if is_deeper(value, MAX_DEPTH, raw):
        raise _too_deep(where)
    return value


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


def _decode_leniently(raw: bytes, error: Exception) -> Any:
    """Decode what msgspec refuses and Python's own encoder writes: NaN, Infinity, and half of a surrogate pair."""
    if b"NaN" not in raw and b"Infinity" not in raw and b"\\u" not in raw:
        raise error
    value = json.loads(raw)
    # No UTF-8 file can have half of a surrogate pair, so it becomes a question mark.
    return json.loads(json.dumps(value, ensure_ascii=False).encode("utf-8", "replace"))


def _too_deep(where: str) -> InputError:
    return InputError(Problem(where, f"is nested more than {MAX_DEPTH} levels deep"))


def _why_not_json(raw: bytes, error: Exception) -> str:
    if not raw.strip():
        return "is empty"
    for mark, name in _OTHER_ENCODINGS.items():
        if raw.startswith(mark):
            return f"expected JSON in UTF-8, found {name}"
    if isinstance(error, UnicodeDecodeError):
        return f"expected JSON in UTF-8; byte {error.start:,} is not UTF-8"
    return f"is not JSON: {error}"
