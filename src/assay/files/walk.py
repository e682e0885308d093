"""Walks the folders below a folder, for what people have put there: runs, tasks."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path

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
