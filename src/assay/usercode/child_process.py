"""Child processes of assay that run Python: none of them imports a module of the working folder.

    command = python_command("assay.view.index_process", str(folder))

`python -m` and `python -c` put the working folder first on `sys.path`. A `json.py` or `assay.py` that lies there would
run instead of ours, because somebody started assay in a folder with files of others. `-P` keeps the folder out, as it
is for the command `assay` itself.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

_SAFE_PATH = "PYTHONSAFEPATH"


def python_command(module: str, *arguments: str) -> list[str]:
    """Return the command line of a child process that runs a module with this Python."""
    return [sys.executable, "-P", "-m", module, *arguments]


def python_code_command(code: str, *arguments: str) -> list[str]:
    """Return the command line of a child process that runs a piece of our own code with this Python."""
    return [sys.executable, "-P", "-c", code, *arguments]


def safe_path_variable() -> str | None:
    """Return the user's own value of PYTHONSAFEPATH, for `restore_safe_path` in the child."""
    return os.environ.get(_SAFE_PATH)


@contextmanager
def spawned_safely() -> Iterator[None]:
    """Context manager: processes that `multiprocessing` spawns inside have no working folder on their `sys.path`.

    `multiprocessing` has no option for `-P`, so the environment says it. The child calls `restore_safe_path`.
    """
    before = safe_path_variable()
    os.environ[_SAFE_PATH] = "1"
    try:
        yield
    finally:
        restore_safe_path(before)


def restore_safe_path(value: str | None) -> None:
    """Set PYTHONSAFEPATH to the user's own value: user code may start Python processes of its own."""
    if value is None:
        os.environ.pop(_SAFE_PATH, None)
    else:
        os.environ[_SAFE_PATH] = value
