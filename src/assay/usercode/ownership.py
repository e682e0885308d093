"""Which Python code the user wrote: not assay, not the standard library, not an installed package.

Code of the user may change between two runs, so its content is part of a function's identity. Installed packages are
taken to stay as they are.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import sys
import types
from pathlib import Path
from typing import Any

from assay.core.hashing import file_sha256
from assay.usercode.source import parse_source
from assay.usercode.user_files import is_users_file


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


def files_of(module_name: str) -> dict[str, str]:
    """Return the hashes of the user's files that are read when a module is imported, by the name of their module."""
    hashes: dict[str, str] = {}
    names = [module_name]
    while names:
        name = names.pop()
        if name in hashes or (path := _file_of(name)) is None:
            continue
        hashes[name] = file_sha256(path)
        tree = parse_source(path.read_bytes())
        parents = name.split(".")
        names += [".".join(parents[:length]) for length in range(1, len(parents))]
        # A relative import starts at the package of the module. For __init__.py the module is the package.
        package = parents if path.stem == "__init__" else parents[:-1]
        for node in ast.walk(tree) if tree else ():
            if isinstance(node, ast.Import):
                names += [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                base = [*package[: len(package) - node.level + 1]] if node.level else []
                source = ".".join([*base, *filter(None, [node.module])])
                names += [source, *(f"{source}.{alias.name}" for alias in node.names)]
    return hashes


def _file_of(module_name: str) -> Path | None:
    """Return the file of a user's module, loaded or not. Returns None for any other module."""
    module = sys.modules.get(module_name)
    if module is not None:
        file = getattr(module, "__file__", None)
    elif module_name.partition(".")[0] in sys.stdlib_module_names:
        return None
    else:
        try:
            spec = importlib.util.find_spec(module_name)
        except Exception:  # noqa: BLE001 - finding a.b imports a, which may raise anything
            return None
        file = spec.origin if spec is not None else None
    if not file or not is_users_file(file):
        return None
    path = Path(file)
    return path if path.suffix == ".py" and path.is_file() else None
