"""Bounds for reading users' files: no file may block a reader, fill the memory, or overflow the stack.

    data = read_file(path, MAX_DOCUMENT_BYTES)      # refuses pipes, devices and larger files
    for raw in read_lines(file, path):              # refuses an endless line

Everything that is refused is an InputError with one sentence. A run and `assay check` use the same readers.
"""

from __future__ import annotations

import stat
from collections.abc import Iterator
from pathlib import Path
from typing import IO

from assay.core.errors import InputError, Problem

MAX_LINE_BYTES = 1 << 26
"""One row of a data file. The longest rows of published data sets, whole books, have a few megabytes."""
MAX_DOCUMENT_BYTES = 1 << 32
"""A JSON document is decoded as a whole. The largest published one, LongMemEval's M set, has 2.7 GB."""
MAX_DEPTH = 300
"""Deeper values overflow the stack of recursive code that reads them later. Real data has about ten levels."""

_SPECIAL_FILES = {
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
}
# Characters of a rendered template. Far beyond any context window: a larger text is a mistake or an attack.
MAX_TEXT_CHARS = 10_000_000
TEXT_TOO_LARGE = f"the result would be larger than {MAX_TEXT_CHARS:,} characters"


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


def read_lines(file: IO[bytes], path: Path) -> Iterator[bytes]:
    """Yield the lines of an open file with their line breaks. Raises InputError for a line without end."""
    readline, number = file.readline, 0
    while raw := readline(MAX_LINE_BYTES):
        number += 1
        if len(raw) == MAX_LINE_BYTES and not raw.endswith(b"\n"):
            message = f"the line is longer than {MAX_LINE_BYTES:,} bytes; is this a file of JSON lines?"
            raise InputError(Problem(f"{path}:{number}", message))
        yield raw


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
