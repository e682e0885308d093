"""Paths that people write, and folders that they fill: which names can exist, and walks that end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path

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


# Nobody nests results deeper. Without a limit, a wrong folder could mean a walk over the whole disk.
_DEPTH = 8
# Folders of programs, which may have ten thousands of folders. Hidden ones like `.venv` and `.git` are skipped too.
_SKIPPED = frozenset({"node_modules", "__pycache__", "site-packages"})


def walk_folders(root: Path, is_end: Callable[[Path], bool], *, follow_links: bool) -> Iterator[Path]:
    """Yield a folder and those below it. Below one that `is_end`, no folder is looked at.

    Hidden folders and those of programs are left out, and folders that this user may not read.
    """
    yield from _walk(root, is_end, follow_links, ())


def _walk(
    folder: Path, is_end: Callable[[Path], bool], follow_links: bool, above: tuple[tuple[int, int], ...]
) -> Iterator[Path]:
    yield folder
    if len(above) >= _DEPTH or is_end(folder):
        return
    try:
        stat = folder.stat()
        if (stat.st_dev, stat.st_ino) in above:
            return  # a link to a folder above
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if entry.is_dir(follow_symlinks=follow_links)]
    except OSError:
        return
    for name in sorted(names):
        if name not in _SKIPPED and not name.startswith("."):
            yield from _walk(folder / name, is_end, follow_links, (*above, (stat.st_dev, stat.st_ino)))
