"""Which Python code the user wrote: not assay, not the standard library, not an installed package.

Code of the user may change between two runs, so its content is part of a function's identity. Installed packages are
taken to stay as they are.
"""

from __future__ import annotations

import ast
import builtins
import importlib.util
import os
import sys
import sysconfig
import types
from pathlib import Path
from typing import Any

from assay.core.function_source import parse_source
from assay.core.hashing import file_sha256

_PACKAGE = str(Path(__file__).parents[1]) + os.sep
_INSTALLED = tuple(
    {
        path + os.sep
        for key in ("stdlib", "platstdlib", "purelib", "platlib")
        if (path := sysconfig.get_paths().get(key))
    }
    | {str(Path(os.__file__).parent) + os.sep, _PACKAGE}
)


def is_users_file(file: str) -> bool:
    """Whether the user wrote a file: neither assay, nor the standard library, nor an installed package.

    Cells of a notebook and text given to `exec` have no file: the user wrote them.
    """
    if file.startswith("<frozen"):
        return False
    path = file if file.startswith("<") else str(Path(file).absolute())
    return not path.startswith(_INSTALLED) and f"{os.sep}site-packages{os.sep}" not in path


def is_users_module(module: types.ModuleType) -> bool:
    """Whether the user wrote a module. A module without a file counts, such as `__main__` of a notebook."""
    if module.__name__ in sys.builtin_module_names:
        return False
    file = getattr(module, "__file__", None)
    if file is not None:
        return is_users_file(file)
    # `__main__` of a notebook, a folder without __init__.py, or a module that the user made without a file.
    folders = list(getattr(module, "__path__", ()))
    return any(map(is_users_file, folders)) if folders else getattr(module, "__spec__", None) is None


def is_users_class(cls: type) -> bool:
    """Whether the user wrote a class."""
    module = sys.modules.get(cls.__module__)
    if module is None:
        return True  # of a file that was loaded without a place in sys.modules
    if module is builtins:
        # `exec` in a namespace without a name gives its classes the name of this module.
        return not hasattr(builtins, cls.__name__) and any(
            isinstance(member, types.FunctionType) for member in vars(cls).values()
        )
    return is_users_module(module)


def is_users_value(value: Any) -> bool:
    """Whether it is a function, a class or an object of a class of the user."""
    if isinstance(value, types.FunctionType):
        return is_users_file(value.__code__.co_filename)
    return is_users_class(value if isinstance(value, type) else type(value))


def files_of(module_name: str) -> dict[str, str]:
    """The hash of each of the user's files that importing a module reads, by the name of the module."""
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
        # A relative import begins at the package, which for __init__.py is the module itself.
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
    """The file of a module of the user, loaded or not; None for any other."""
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
