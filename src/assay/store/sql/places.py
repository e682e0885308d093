"""Finds what `assay sql` reads: runs, folders with runs, and files of other programs."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from assay.core.errors import UsageError
from assay.store.runs import find_run, run_folders


def find_places(places: Sequence[str]) -> tuple[list[Path], list[Path]]:
    """Return the run folders, and the files or folders to import. Without places, the runs below the current folder.

    A place is a path, or the beginning of a run's name. A folder without runs may hold the results of another program.
    """
    folders: list[Path] = []
    files: list[Path] = []
    for place in places or (".",):
        path = Path(place)
        runs = list(run_folders(path)) if path.is_dir() else []
        if runs:
            folders += runs
        elif path.exists() and place != ".":
            files.append(path)
        elif place != ".":
            folders.append(find_run(place))
    if not folders and not files:
        raise UsageError("there are no runs below the current folder. Name a run, a folder or a result file")
    return folders, files
