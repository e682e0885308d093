"""Files of a run folder: only plain ones are opened, for reading and for writing.

    content = read_plain(folder / "run.json")
    fd = open_plain(folder / "lock", os.O_RDWR | os.O_CREAT)

A run folder may come from somebody else. A link in it leads out of the folder, a pipe lets a reader wait for ever, a
device such as /dev/zero has no end. Each of them, and a folder in place of a file, is damage: DamagedRun says so.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from pathlib import Path
from typing import BinaryIO

from assay.core.errors import DamagedRun, Problem
from assay.files.write import FILE_MODE

PUBLISHED = "pipeline.json"
"""The hashes of the files that a memory eval run published, by which `--eval-only` knows them."""
MAX_BYTES = 1 << 30
"""The most that is read at once. `summary.json` of the largest runs has a few megabytes."""

_KINDS = {
    stat.S_ISLNK: "a link",
    stat.S_ISFIFO: "a named pipe",
    stat.S_ISCHR: "a device",
    stat.S_ISBLK: "a device",
    stat.S_ISSOCK: "a socket",
    stat.S_ISDIR: "a folder",
}


def open_plain(path: Path, flags: int = os.O_RDONLY) -> int:
    """Open a file and return its descriptor. Raises DamagedRun if it is no plain file, else OSError as `os.open`."""
    try:
        # Without O_NONBLOCK, opening a pipe waits for its other end.
        fd = os.open(path, flags | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, FILE_MODE)
    except OSError as error:
        problem = plain_problem(path)
        if problem is None:
            raise
        raise DamagedRun(problem) from error
    mode = os.fstat(fd).st_mode
    if not stat.S_ISREG(mode):
        os.close(fd)
        raise DamagedRun(_problem(path, mode))
    return fd


def open_plain_file(path: Path, buffering: int = -1) -> BinaryIO:
    """Open a file for reading. Raises as `open_plain` does."""
    return os.fdopen(open_plain(path), "rb", buffering)


def read_plain(path: Path) -> bytes:
    """Return the bytes of a file. Raises as `open_plain` does, and DamagedRun for more than MAX_BYTES."""
    with open_plain_file(path) as file:
        if os.fstat(file.fileno()).st_size > MAX_BYTES:
            raise DamagedRun(Problem(str(path), f"has more than {MAX_BYTES:,} bytes, which no run writes"))
        return file.read()


def plain_size(path: Path) -> int | None:
    """Return the size of a file; None if there is no plain file of this name."""
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_size if stat.S_ISREG(found.st_mode) else None


def is_plain(path: Path) -> bool:
    """Return whether there is a plain file of this name."""
    return plain_size(path) is not None


def plain_problem(path: Path) -> Problem | None:
    """Return what is wrong with a path that is no plain file; None for a plain file and where nothing is."""
    try:
        mode = os.lstat(path).st_mode
    except OSError:
        return None
    return None if stat.S_ISREG(mode) else _problem(path, mode)


def folder_problems(folder: Path, files: Collection[str]) -> Iterator[Problem]:
    """Yield a problem for each entry in and below a run folder that is neither a plain file nor a folder.

    A folder with one of the names of `files` is a problem too. Links are not followed.
    """
    with os.scandir(folder) as scan:
        entries = sorted(scan, key=lambda entry: entry.name)
    for entry in entries:
        path = folder / entry.name
        if entry.is_dir(follow_symlinks=False) and entry.name not in files:
            yield from folder_problems(path, ())
        elif (problem := plain_problem(path)) is not None:
            yield problem


def _problem(path: Path, mode: int) -> Problem:
    kind = next((name for is_kind, name in _KINDS.items() if is_kind(mode)), "no plain file")
    # What a link leads to may be the only copy, so nobody is told to remove it.
    what_to_do = "Replace it by a copy of its target" if stat.S_ISLNK(mode) else "Remove it, or restore the file"
    message = f"is {kind}. A run folder has plain files, and nothing else is opened. {what_to_do}"
    return Problem(str(path), message)
