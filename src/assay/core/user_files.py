"""Which files are the user's own, and which belong to assay, to Python or to an installed package."""

from __future__ import annotations

import os
import sysconfig
from pathlib import Path

PACKAGE = str(Path(__file__).parents[1]) + os.sep
"""The folder of assay, with a separator at its end."""
INSTALLED = tuple(
    {
        path + os.sep
        for key in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(key))
    }
    | {str(Path(os.__file__).parent) + os.sep, PACKAGE}
)
"""The folders of assay, of Python and of installed packages, with a separator at their ends."""


def is_users_file(file: str) -> bool:
    """Return False for files of assay, of the standard library and of installed packages, True for all others.

    Notebook cells and code passed to `exec` have no file; they count as written by the user.
    """
    if file.startswith("<frozen"):
        return False
    path = file if file.startswith("<") else str(Path(file).absolute())
    return not path.startswith(INSTALLED) and f"{os.sep}site-packages{os.sep}" not in path
