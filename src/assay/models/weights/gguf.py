"""Reads the header of a GGUF file: trained context and chat template. llama.cpp reads the rest.

    header = read_header(Path("model.gguf"))
    header.context_length     # 8192
    header.chat_template      # the Jinja text, or "" for a base model

The format is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

from __future__ import annotations

import mmap
import re
import struct
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import UsageError

MAGIC = b"GGUF"
# Version 1 had 32-bit lengths and was used for some weeks of 2023. llama.cpp refuses it too.
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# Formats of `struct` by the number of the type in the file.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
# No header needs more: the largest vocabularies have 300,000 texts, and the longest templates 100 kB. A damaged file
# may claim any number, and would otherwise be read for hours or fill the memory.
_MAX_ITEMS = 10_000_000
_MAX_TEXT_BYTES = 64_000_000
# llama.cpp writes no arrays of arrays. The format allows them.
_MAX_DEPTH = 8
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


class GgufHeader(NamedTuple):
    """What assay needs to know about a file of weights. A field that the file lacks is empty or 0."""

    context_length: int
    chat_template: str


def read_header(path: Path) -> GgufHeader:
    """Read the header of a GGUF file. Raises UsageError for a file that is none, or whose header is damaged."""
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise UsageError(f"{path} is not a GGUF file: it does not begin with the letters GGUF")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                fields = _HeaderReader(data).read_fields()
                length_field = f"{fields.get('general.architecture', '')}.context_length"
                return GgufHeader(_read_count(fields, length_field), str(fields.get("tokenizer.chat_template", "")))
            except _Damage as error:
                raise UsageError(
                    f"the header of {path} cannot be read: the file is damaged or incomplete ({error})"
                ) from None
            except _OtherVersion as error:
                raise UsageError(f"{path}: {error}") from None


def part_files(path: Path) -> list[Path]:
    """Return all files of a model that is split into parts, else the file alone.

    A split model is NAME-00001-of-00003.gguf and so on; `path` must be the first. Raises UsageError if it is another
    part, or if a part is missing.
    """
    parts = [path.with_name(name) for name in part_names(path.name)]
    for part in parts:
        if not part.is_file():
            raise UsageError(f"{path.name} has {len(parts)} parts, and {part} is missing")
    return parts


def part_names(name: str) -> list[str]:
    """Return the names of all parts, given the first, or the name alone. Raises UsageError for another part."""
    match = _PART.fullmatch(name)
    count = int(match["count"]) if match else 0
    if match is None or count == 0:
        return [name]
    parts = [f"{match['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    if int(match["number"]) != 1:
        raise UsageError(f"{name} is part {int(match['number'])} of {count}. Name the first part: {parts[0]}")
    return parts


class _Damage(Exception):
    """The header says something impossible."""


class _OtherVersion(Exception):
    """The file is of a version of the format that llama.cpp does not read."""


class _HeaderReader:
    """Reads the fields one after the other. Time and memory are bounded, whatever numbers the file contains."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data = data
        self._place = len(MAGIC)
        self._items_left = _MAX_ITEMS
        self._text_bytes_left = _MAX_TEXT_BYTES

    def read_fields(self) -> dict[str, str | int | float]:
        """Return the fields of the header. Arrays, such as the vocabulary, are skipped."""
        version, _tensors, count = self._read("IQQ")
        if version not in _VERSIONS:
            raise _OtherVersion(f"this is version {version} of the GGUF format; llama.cpp reads 2 and 3")
        self._expect_items(count)
        fields: dict[str, str | int | float] = {}
        for _ in range(count):
            key = self._read_text()
            (kind,) = self._read("I")
            if kind == _STRING:
                fields[key] = self._read_text()
            elif kind == _ARRAY:
                self._skip_array()
            else:
                (fields[key],) = self._read(_number_format(kind))
        return fields

    def _read(self, form: str) -> tuple[Any, ...]:
        form = f"<{form}"
        start = self._skip(struct.calcsize(form))
        return struct.unpack_from(form, self._data, start)

    def _skip(self, size: int) -> int:
        """Go on by `size` bytes. Returns the place before."""
        start = self._place
        if size > len(self._data) - start:
            raise _Damage("a value ends after the end of the file")
        self._place = start + size
        return start

    def _read_text(self) -> str:
        (length,) = self._read("Q")
        start = self._skip(length)
        self._text_bytes_left -= length
        if self._text_bytes_left < 0:
            raise _Damage(f"its texts have more than {_MAX_TEXT_BYTES:,} bytes")
        try:
            return self._data[start : self._place].decode()
        except UnicodeDecodeError as error:
            raise _Damage(f"a text is not UTF-8: {error}") from None

    def _skip_array(self, depth: int = 1) -> None:
        kind, count = self._read("IQ")
        if kind not in (_STRING, _ARRAY):
            self._skip(count * struct.calcsize(f"<{_number_format(kind)}"))
            return
        if depth > _MAX_DEPTH:
            raise _Damage(f"arrays are nested more than {_MAX_DEPTH} deep")
        self._expect_items(count)
        if kind == _ARRAY:
            for _ in range(count):
                self._skip_array(depth + 1)
            return
        # Written out, because a vocabulary has hundreds of thousands of texts.
        read_length, place, last = struct.Struct("<Q").unpack_from, self._place, len(self._data) - 8
        for _ in range(count):
            if place > last:
                raise _Damage("a list of texts ends after the end of the file")
            place += 8 + read_length(self._data, place)[0]
        self._skip(place - self._place)

    def _expect_items(self, count: int) -> None:
        self._items_left -= count
        if self._items_left < 0:
            raise _Damage(f"it has more than {_MAX_ITEMS:,} fields and texts")


def _number_format(kind: int) -> str:
    if kind not in _NUMBERS:
        raise _Damage(f"there is no type {kind}")
    return _NUMBERS[kind]


def _read_count(fields: dict[str, str | int | float], name: str) -> int:
    """Return a field that is a whole number, or 0 if there is none."""
    value = fields.get(name, 0)
    if type(value) is not int or value < 0:
        raise _Damage(f"{name} is {str(value)[:40]!r}, not a whole number")
    return value
