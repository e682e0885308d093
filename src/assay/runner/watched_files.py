"""The files that a process reads, and whether they have changed: for `--watch`.

files = FilesRead()     # before the work begins
…
before = files.states()
changed_files(before, file_states(before))   # the files that were saved since they were read
"""

from __future__ import annotations

import os
import stat
import sys
import sysconfig
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import assay
from assay.journal.folder import HOME, is_run_folder

# Only such files of a folder count, so that swap files of editors start nothing.
_ENDINGS = frozenset({".csv", ".js", ".json", ".jsonl", ".md", ".parquet", ".py", ".txt", ".yaml", ".yml"})
# Python, its packages and assay itself do not change while somebody works on a prompt.
_SYSTEM = [str(Path(assay.__file__).parent), "/proc", "/dev", "/sys", "/etc"]
_OTHERS = [Path(folder).resolve() for folder in (*sysconfig.get_paths().values(), *_SYSTEM)]

FileStates = dict[str, object]
"""The state of files and folders, by name. Two of them are equal if nothing was saved between them."""


class FilesRead:
    """Notes every file that this process opens for reading from now on, and every folder whose files it lists.

    It uses Python's audit events, so that the prompt which a user's function reads counts as well as the pipeline file.
    Files that the code of a pipeline reads in its own processes count too: opened_files.py hashes them in this one.
    A hook cannot be removed again: use it in a process of its own.
    """

    def __init__(self) -> None:
        self._read: FileStates = {}
        self._listed: set[str] = set()
        self._written: set[str] = set()
        sys.addaudithook(self._on_audit_event)

    def states(self) -> FileStates:
        """Return the files as they were when they were read, and the listed folders as they are now.

        Files that the process wrote itself are left out, and what it wrote into a folder is no change of the folder.
        """
        written = {Path(name).resolve() for name in self._written}
        # Python lists the folders in which it looks for modules.
        listed = self._listed - {str(Path(folder).absolute()) for folder in sys.path}
        states = self._read | file_states(listed)
        by_path = {Path(name).resolve(): state for name, state in states.items()}
        return {str(path): state for path, state in by_path.items() if path not in written and _is_source(path)}

    def _on_audit_event(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in ("open", "os.scandir", "os.listdir"):
            return
        if not isinstance(arguments[0], (str, os.PathLike)):
            return  # the number of an open file
        name = str(Path(arguments[0]).absolute())
        if event != "open":
            self._listed.add(name)
        elif isinstance(arguments[2], int) and arguments[2] & (os.O_WRONLY | os.O_RDWR):
            self._written.add(name)
        elif name not in self._read:
            self._read[name] = _state_of(Path(name))


def _is_source(file: Path) -> bool:
    if "__pycache__" in file.parts or any(file.is_relative_to(folder) for folder in _OTHERS):
        return False
    # A project may be in a folder of the name that the folder of all runs has.
    if any(each.parent.name == HOME and is_run_folder(each) for each in (file, *file.parents)):
        return False
    return file.is_file() or file.is_dir()


def file_states(names: Iterable[str]) -> FileStates:
    """Return time, size and number of each file, and the names in each folder. A file that is gone is None."""
    return {name: _state_of(Path(name)) for name in names}


def changed_files(before: FileStates, now: FileStates) -> list[str]:
    """Return the names of what was saved, added or removed in between."""
    return [name for name, state in now.items() if before.get(name) != state]


def _state_of(file: Path) -> object:
    try:
        status = file.stat()
        if stat.S_ISDIR(status.st_mode):
            return sorted(entry.name for entry in file.iterdir() if entry.suffix in _ENDINGS)
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
