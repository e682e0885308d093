"""A file with arrays next to the journal, so that a large run opens without reading the journal again.

    save(folder / "index.bin", head, [codes, offsets])
    loaded = load(folder / "index.bin", Head)  # (head, arrays), or None

A sidecar is never needed and never the truth: every value in it can be computed from the journal. A sidecar that is
missing, damaged, of another version, or made from another journal is ignored.
"""

from __future__ import annotations

import os
from array import array
from collections.abc import Callable, Sequence
from contextlib import suppress
from mmap import ACCESS_READ, MADV_DONTNEED, mmap
from pathlib import Path
from typing import Any, BinaryIO, TypeVar, Union, cast
from zlib import crc32

import msgspec

from assay.core.errors import DamagedRun
from assay.files.plain_files import open_plain, open_plain_file
from assay.files.write import own_temporary
from assay.journal.lines import FORMAT

# Change it when the meaning of a sidecar's content changes. Older sidecars are then ignored.
_VERSION = 9
# Smaller runs are read faster than a sidecar is worth. At this size, reading takes about a third of a second.
MIN_LINES = 20_000
# The bytes before a position that identify the line there: `,"crc":"a55c19f7"}` and the line break.
_MARK_BYTES = 19
_CHECKSUM_BYTES = 8
_BLOCK_BYTES = 1 << 20

Column = Union["array[Any]", bytearray]
Fill = Callable[["array[Any]", memoryview], "array[Any]"]
"""Returns a column with the content of a sidecar: `copy_column`, or `map_column` for columns that will not grow."""
HeadT = TypeVar("HeadT", bound=msgspec.Struct)


class FilePosition(msgspec.Struct, frozen=True):
    """How far a journal file is indexed: the end of a line, and the last bytes of this line, its checksum."""

    end: int
    mark: str


class _Frame(msgspec.Struct):
    version: int
    format: int
    sizes: list[int]
    head: msgspec.Raw


def position(path: Path, end: int) -> FilePosition:
    """Return the position after the line that ends at this byte."""
    return FilePosition(end, _mark(path, end))


def is_current(path: Path, at: FilePosition) -> bool:
    """Return whether the file still has the line that ended at this position."""
    return at.end == 0 or _mark(path, at.end) == at.mark


def _mark(path: Path, end: int) -> str:
    if end < _MARK_BYTES:
        return ""
    try:
        with open_plain_file(path) as file:
            file.seek(end - _MARK_BYTES)
            return file.read(_MARK_BYTES).decode("latin-1")
    except (OSError, DamagedRun):
        return ""


def save(path: Path, head: msgspec.Struct, columns: Sequence[Column]) -> None:
    """Write a sidecar. Does nothing if the folder cannot be written or the disk is full: it is never needed."""
    sizes = [len(column) * (1 if isinstance(column, bytearray) else column.itemsize) for column in columns]
    frame = _Frame(_VERSION, FORMAT, sizes, msgspec.Raw(msgspec.json.encode(head)))
    first = msgspec.json.encode(frame) + b"\n"
    checksum = crc32(first)
    temporary = own_temporary(path)
    try:
        with os.fdopen(open_plain(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), "wb") as file:
            file.write(first)
            for column in columns:
                file.write(column)
                checksum = crc32(column, checksum)
            file.write(b"%08x" % checksum)
        temporary.replace(path)
    except (OSError, DamagedRun):
        return
    finally:
        # Also after Ctrl-C. After the rename there is no such file.
        with suppress(OSError):
            temporary.unlink(missing_ok=True)


def load_head(path: Path, head_type: type[HeadT]) -> HeadT | None:
    """Return the head of a sidecar without reading its arrays and without verifying it; None if there is none."""
    try:
        with open_plain_file(path) as file:
            frame = msgspec.json.decode(file.readline(), type=_Frame)
        if (frame.version, frame.format) != (_VERSION, FORMAT):
            return None
        return msgspec.json.decode(frame.head, type=head_type)
    except (OSError, DamagedRun, msgspec.DecodeError, RecursionError):
        return None


def load(path: Path, head_type: type[HeadT]) -> tuple[HeadT, list[memoryview]] | None:
    """Return head and arrays of a sidecar, or None if it cannot be used.

    The arrays are views of the mapped file: they take memory only where they are read. The file is never changed in
    place, and a file that is replaced or deleted stays mapped.
    """
    try:
        with open_plain_file(path) as file:
            if not _is_intact(file):
                return None
            mapping = mmap(file.fileno(), 0, access=ACCESS_READ)
    except (OSError, DamagedRun, ValueError):  # ValueError: the file is empty
        return None
    end = mapping.find(b"\n") + 1
    view = memoryview(mapping)
    try:
        frame = msgspec.json.decode(view[:end], type=_Frame)
        if (frame.version, frame.format) != (_VERSION, FORMAT):
            return None
        head = msgspec.json.decode(frame.head, type=head_type)
    except (msgspec.DecodeError, RecursionError):
        return None
    arrays = []
    for size in frame.sizes:
        arrays.append(view[end : end + size])
        end += size
    return head, arrays


def copy_column(column: array[Any], content: memoryview) -> array[Any]:
    """Return the empty column, filled."""
    column.frombytes(content)
    release_pages(content)  # the copy alone stays in memory
    return column


def map_column(column: array[Any], content: memoryview) -> array[Any]:
    """Return a view of the sidecar that can be read like the column. It takes memory only where it is read."""
    typecode = cast("Any", column.typecode)  # an array of Any has any of them
    return cast("array[Any]", content.cast(typecode)) if len(content) else column


def release_pages(view: memoryview) -> None:
    """Give the memory of a mapped sidecar back to the system. The next reader of a page gets it from the file."""
    mapping = view.obj
    if isinstance(mapping, mmap):
        mapping.madvise(MADV_DONTNEED)


def _is_intact(file: BinaryIO) -> bool:
    """Return whether the checksum at the end of a sidecar is right. Reads it in blocks, which take no memory."""
    remaining = os.fstat(file.fileno()).st_size - _CHECKSUM_BYTES
    checksum = 0
    while remaining > 0:
        block = file.read(min(remaining, _BLOCK_BYTES))
        if not block:
            return False
        checksum = crc32(block, checksum)
        remaining -= len(block)
    return file.read() == b"%08x" % checksum
