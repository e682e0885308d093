"""Reads the header of a GGUF file: architecture, trained context, chat template, parts. llama.cpp reads the rest.

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
from typing import NamedTuple

from assay.core.errors import UsageError

MAGIC = b"GGUF"
# Version 1 had 32-bit lengths and was used for some weeks of 2023. llama.cpp refuses it too.
_VERSIONS = (2, 3)
_STRING, _ARRAY = 8, 9
# Formats of `struct` by the number of the type in the file.
_NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
_PART = re.compile(r"(?P<stem>.+)-(?P<number>\d{5})-of-(?P<count>\d{5})\.gguf")


class GgufHeader(NamedTuple):
    """What assay needs to know about a file of weights. A field that the file lacks is empty or 0."""

    architecture: str
    name: str
    licence: str
    context_length: int
    chat_template: str
    part_count: int


def read_header(path: Path) -> GgufHeader:
    """Read the header of a GGUF file. Raises UsageError for a file that is none, or that is cut off in its header."""
    with path.open("rb") as file:
        if file.read(4) != MAGIC:
            raise UsageError(f"{path} is not a GGUF file: it does not begin with the letters GGUF")
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
            try:
                fields = _read_fields(data)
            except (struct.error, UnicodeDecodeError, KeyError, IndexError) as error:
                raise UsageError(
                    f"the header of {path} cannot be read: the file is damaged or incomplete ({error})"
                ) from None
            except ValueError as error:
                raise UsageError(f"{path}: {error}") from None
    architecture = str(fields.get("general.architecture", ""))
    return GgufHeader(
        architecture,
        str(fields.get("general.name", "")),
        str(fields.get("general.license", "")),
        int(fields.get(f"{architecture}.context_length", 0)),
        str(fields.get("tokenizer.chat_template", "")),
        int(fields.get("split.count", 0)),
    )


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
    if match is None:
        return [name]
    count = int(match["count"])
    parts = [f"{match['stem']}-{number:05d}-of-{count:05d}.gguf" for number in range(1, count + 1)]
    if int(match["number"]) != 1:
        raise UsageError(f"{name} is part {int(match['number'])} of {count}. Name the first part: {parts[0]}")
    return parts


def _read_fields(data: mmap.mmap) -> dict[str, str | int | float]:
    """Return the fields of the header. Arrays, such as the vocabulary, are skipped."""
    version, _tensors, count = struct.unpack_from("<IQQ", data, 4)
    if version not in _VERSIONS:
        raise ValueError(f"this is version {version} of the GGUF format; llama.cpp reads 2 and 3")
    fields: dict[str, str | int | float] = {}
    place = 24
    for _ in range(count):
        key, place = _read_string(data, place)
        (kind,) = struct.unpack_from("<I", data, place)
        place += 4
        if kind == _STRING:
            fields[key], place = _read_string(data, place)
        elif kind == _ARRAY:
            place = _skip_array(data, place)
        else:
            number = struct.Struct(f"<{_NUMBERS[kind]}")
            (fields[key],) = number.unpack_from(data, place)
            place += number.size
    return fields


def _read_string(data: mmap.mmap, place: int) -> tuple[str, int]:
    (length,) = struct.unpack_from("<Q", data, place)
    end = place + 8 + length
    if end > len(data):
        raise IndexError("a text ends after the end of the file")
    return data[place + 8 : end].decode(), end


def _skip_array(data: mmap.mmap, place: int) -> int:
    """Return the place after an array."""
    kind, count = struct.unpack_from("<IQ", data, place)
    place += 12
    if kind == _STRING:
        read_length = struct.Struct("<Q").unpack_from
        for _ in range(count):
            place += 8 + read_length(data, place)[0]
    elif kind == _ARRAY:
        for _ in range(count):
            place = _skip_array(data, place)
    else:
        place += count * struct.calcsize(f"<{_NUMBERS[kind]}")
    return place
