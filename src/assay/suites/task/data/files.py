"""Finds data files by name or pattern, and opens them whether they are compressed or not."""

from __future__ import annotations

import bz2
import glob
import gzip
import io
import lzma
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from assay.core import jsonl
from assay.core.errors import InputError, Problem

_COMPRESSED: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": gzip.open,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file; the first few say whether and how it is compressed."""
    file = path.open("rb", buffering=1 << 18)
    start = file.peek(6)  # type: ignore[attr-defined]
    for magic, unpack in _COMPRESSED.items():
        if start.startswith(magic):
            file.close()
            return io.BufferedReader(unpack(path), 1 << 18)
    return file


def lines(path: Path) -> Iterator[tuple[int, bytes]]:
    """Every line that is not blank, by number; compressed files too, otherwise as `jsonl.lines`."""
    with readable(path), opened(path) as file:
        for number, raw in enumerate(file, 1):
            if text := jsonl.body(raw, number):
                yield number, text


class readable:  # noqa: N801 - reads as a statement
    """A damaged archive or an unreadable file is the file's problem, and said as one."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, (EOFError, OSError, lzma.LZMAError)):
            raise InputError(Problem(str(self._path), f"cannot be read: {error}")) from None


def find_files(named: str | list[str], beside: Path) -> list[Path]:
    """Files by name or pattern, relative to the working directory, else to the task file; may be none."""
    found: list[Path] = []
    for name in [named] if isinstance(named, str) else named:
        for base in (Path(), beside):
            matches = [base / name] if (base / name).is_file() else matching(base, name)
            if matches:
                found += matches
                break
        else:
            return []
    return found


def matching(base: Path, pattern: str) -> list[Path]:
    """Files by a pattern; the folder it is relative to is no part of the pattern."""
    full = str(Path(glob.escape(str(base))) / pattern)
    return [path for path in map(Path, sorted(glob.glob(full, recursive=True))) if path.is_file()]  # noqa: PTH207
