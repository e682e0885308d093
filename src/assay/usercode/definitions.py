"""What a Python file or a model's file has, found without running it, for `assay check`."""

from __future__ import annotations

import ast
from pathlib import Path

from assay.core.errors import InputError, similar_file, unreadable
from assay.core.file_check import nearest
from assay.files.read import read_file

# A Python file that is larger was not written by a person.
MAX_CODE_BYTES = 1 << 24


def python_problem(path: Path, name: str) -> str:
    """Return why a Python file has no usable definition of `name`; empty if it seems to have one.

    The file is parsed and not run, so a name that the code creates in another way than by `def`, `class`, `=` or
    `import` is not found. A file with `from x import *` may have any name.
    """
    try:
        tree = ast.parse(read_file(path, MAX_CODE_BYTES), str(path))
    except OSError as error:
        return str(unreadable(path, error))
    except InputError as error:
        return str(error)
    except SyntaxError as error:
        return f"{path}:{error.lineno}: not Python: {error.msg}"
    except (ValueError, RecursionError, MemoryError) as error:
        return f"{path}: not Python: {error or 'nested too deeply'}"
    names = defined_names(tree)
    if name in names or "*" in names:
        return ""
    near = nearest(name, sorted(names))
    hint = f"; did you mean {near!r}?" if near else ""
    return f"{path} has no function {name!r}{hint}"


def defined_names(tree: ast.Module) -> set[str]:
    """Return the names that code defines by `def`, `class`, `=` or `import`, at any depth. `*` is any name."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            names.update((alias.asname or alias.name).partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


# Providers whose models are files: `python/FILE.py:NAME` and `script/FILE`.
_FILE_PROVIDERS = ("python", "script")


def model_path(model: str, folder: str) -> str:
    """Return the name of a model without its provider, for `folder`, the folder of the file that names the model.

    If the model is a file in that folder, the name is its path. Other names are returned as they are.
    """
    provider, _, name = model.partition("/")
    if folder and provider in _FILE_PROVIDERS:
        file = name.rpartition(":")[0] if provider == "python" else name
        if (Path(folder) / file).is_file():
            return str(Path(folder) / name)
    return name


def model_file_problem(model: str, file: Path) -> str:
    """Return why the model `python/FILE.py:NAME` or `script/FILE` that `file` names does not exist, else "".

    A run looks for it in the folder of a settings file, and in its working folder. That is this one, or one above
    `file`.
    """
    provider, _, name = model.partition("/")
    if provider not in _FILE_PROVIDERS:
        return ""
    function = ""
    if provider == "python":
        name, _, function = name.rpartition(":")
        if not name.endswith(".py"):
            return f"{model} names no function: write python/FILE.py:function"
    folders = [Path(), *file.absolute().parents]
    path = next((folder / name for folder in folders if (folder / name).is_file()), None)
    if path is None:
        return f"there is no file {name!r}{similar_file(Path(name))}"
    return python_problem(path, function) if function else ""
