"""Writes files: completely or not at all, closed to other users, and without formulas in CSV files.

    write_whole(folder / "report.md", text.encode())
    write_json(folder / "summary.json", summary)
    writer.writerow([csv_cell(answer)])

A reader sees the old file or the new one, also after a crash.
"""

from __future__ import annotations

import os
import re
from contextlib import suppress
from glob import escape
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

# Prompts, replies and rows may be confidential. So no other user may read them; whether the group may, umask says.
FILE_MODE, FOLDER_MODE = 0o640, 0o750


def open_new(path: Path, buffering: int = -1) -> BinaryIO:
    """Open an empty file for writing and reading, in place of what has this name.

    A folder may come from somebody else: a link in it is replaced and never written through.
    """
    path.unlink(missing_ok=True)
    fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    return os.fdopen(fd, "w+b", buffering)


def write_whole(path: Path, data: bytes) -> Path:
    """Write a file atomically: readers, also those after a crash, see the old content or the new one."""
    temporary = path.with_name(f".{path.name}.tmp")
    try:
        with open_new(temporary) as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        with suppress(OSError):  # the first error has the cause
            temporary.unlink(missing_ok=True)
        raise
    return path


def write_json(path: Path, value: Any) -> Path:
    """Write a value as indented JSON, with keys in their own order. Returns the path."""
    return write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")


def own_temporary(path: Path) -> Path:
    """Return a temporary name for a file that several processes may write at once. It contains the process id.

    Temporary files of processes that are gone are removed: they were killed while they wrote.
    """
    for leftover in path.parent.glob(f".{escape(path.name)}.*.tmp"):
        with suppress(OSError, ValueError):
            process = int(leftover.suffixes[-2][1:])
            try:
                os.kill(process, 0)
            except ProcessLookupError:
                leftover.unlink()
    return path.with_name(f".{path.name}.{os.getpid()}.tmp")


def close_to_others(path: Path) -> None:
    """Take the permissions of all users but the owner and the group away from a file."""
    mode = path.stat().st_mode & 0o7777
    if mode & 0o007:
        path.chmod(mode & ~0o007)


def sync_data(fd: int) -> None:
    """Flush the content of an open file to the disk. macOS has no fdatasync."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


# Spreadsheets execute a cell that starts with one of these characters as a formula.
_FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r")
_NUMBER = re.compile(r"[+-]?\d+(\.\d+)?([eE][+-]?\d+)?")


def csv_cell(text: str) -> str:
    """Return a text with a quote before it if a spreadsheet would execute it as a formula. A number stays: `-1.5`."""
    if text.startswith(_FORMULA_STARTS) and not _NUMBER.fullmatch(text):
        return f"'{text}"
    return text
