"""Which files are the user's own, and which belong to assay, to Python or to an installed package."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + os.sep
"""The folder of assay, with a separator at its end."""


@cache
def installed_folders() -> tuple[str, ...]:
    """Return the folders of assay, of Python and of installed packages, with a separator at their ends."""
    import sysconfig  # here, because a run without user code does not need it

    paths = sysconfig.get_paths()
    found = {paths[key] + os.sep for key in ("stdlib", "platstdlib", "purelib", "platlib") if paths.get(key)}
    return tuple(found | {str(Path(os.__file__).parent) + os.sep, PACKAGE})


def is_users_file(file: str) -> bool:
    """Return False for files of assay, of the standard library and of installed packages, True for all others.

    Notebook cells and code passed to `exec` have no file; they count as written by the user.
    """
    if file.startswith("<frozen"):
        return False
    path = file if file.startswith("<") else str(Path(file).absolute())
    return not path.startswith(installed_folders()) and f"{os.sep}site-packages{os.sep}" not in path
