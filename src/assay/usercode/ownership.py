"""What the user wrote: files, modules, classes and values that are not of assay, Python or an installed package.

Code of the user may change between two runs, so its content is part of a run's identity. Installed packages are taken
to stay as they are.
"""

from __future__ import annotations

import builtins
import os
import sys
import types
from functools import cache
from pathlib import Path
from typing import Any

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


def is_users_module(module: types.ModuleType) -> bool:
    """Return whether the user wrote a module. One without a file counts, such as `__main__` of a notebook."""
    if module.__name__ in sys.builtin_module_names:
        return False
    file = getattr(module, "__file__", None)
    if file is not None:
        return is_users_file(file)
    # `__main__` of a notebook, a folder without __init__.py, or a module that the user made without a file.
    folders = list(getattr(module, "__path__", ()))
    return any(map(is_users_file, folders)) if folders else getattr(module, "__spec__", None) is None


def is_users_class(cls: type) -> bool:
    """Return whether the user wrote a class."""
    module = sys.modules.get(cls.__module__)
    if module is None:
        return True  # its file was loaded without an entry in sys.modules
    if module is builtins:
        # A class that `exec` defines in a namespace without `__name__` gets the module name `builtins`.
        return not hasattr(builtins, cls.__name__) and any(
            isinstance(member, types.FunctionType) for member in vars(cls).values()
        )
    return is_users_module(module)


def is_users_value(value: Any) -> bool:
    """Return whether a value is a function or class that the user wrote, or an object of such a class."""
    if isinstance(value, types.FunctionType):
        return is_users_file(value.__code__.co_filename)
    return is_users_class(value if isinstance(value, type) else type(value))
