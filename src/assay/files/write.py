"""Atomic writes: a file is written completely or not at all."""

from __future__ import annotations

import os
from contextlib import suppress
from glob import escape
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

import msgspec

# Prompts, replies and rows may be confidential. So no other user may read them; whether the group may, umask says.
FILE_MODE, FOLDER_MODE = 0o640, 0o750


def close_to_others(path: Path) -> None:
    """Take the permissions of all users but the owner and the group away from a file."""
    mode = path.stat().st_mode & 0o7777
    if mode & 0o007:
        path.chmod(mode & ~0o007)


# What Linux and macOS allow: bytes of one name, and of a whole path with its end.
MAX_NAME_BYTES, _MAX_PATH_BYTES = 255, 4096


def can_exist(path: str | Path) -> bool:
    """Return False for a path that no file can have: a name in it is over 255 bytes, or it has a NUL.

    Ask before `Path.exists` and `Path.is_file`, which raise for a long name, where people may write anything.
    """
    name = os.fsencode(path)
    return (
        b"\0" not in name
        and len(name) < _MAX_PATH_BYTES
        and all(len(part) <= MAX_NAME_BYTES for part in name.split(b"/"))
    )


def fitting_name(name: str, most: int = MAX_NAME_BYTES) -> str:
    """Return a name for a file or folder. One of more than `most` bytes is cut, and ends in a hash of all of it."""
    encoded = os.fsencode(name)
    if len(encoded) <= most:
        return name
    digest = sha256(encoded).hexdigest()[:12]
    return f"{encoded[: most - 13].decode(errors='ignore')}-{digest}"


def path_from_here(path: Path) -> Path:
    """Return a path relative to the working folder if it is below that folder, as people type it."""
    here = Path.cwd()
    return path.relative_to(here) if path.is_relative_to(here) else path


def sync_data(fd: int) -> None:
    """Flush the content of an open file to the disk. macOS has no fdatasync."""
    if hasattr(os, "fdatasync"):
        os.fdatasync(fd)
    else:
        os.fsync(fd)


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


def write_json(path: Path, value: Any) -> Path:
    """Write a value as indented JSON, with keys in their own order. Returns the path."""
    return write_whole(path, msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n")
