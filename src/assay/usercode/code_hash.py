"""Hashes of the user's Python files, with the files that they import.

They are part of a run's fingerprint: an edited function, or an edited helper of it, starts another run. Installed
packages are not part of it.

    code_sha256(Path("hop.py"))              # the file, and the files below its folder that it imports
    imported_sha256([source], folder)        # the files below a folder that pieces of code import
    module_hashes("helpers")                 # the user's files behind a module that Python itself finds
"""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import sys
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

from assay.core.hashing import file_sha256
from assay.usercode.ownership import is_users_file
from assay.usercode.source import parse_source


def code_sha256(path: Path) -> str:
    """Return a hash of a file and of every file below its folder that it imports, directly or indirectly."""
    files = _with_imports(path, path.parent)
    if len(files) == 1:
        return file_sha256(path)
    parts = sorted(f"{file.relative_to(path.parent)} {file_sha256(file)}" for file in files)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def imported_sha256(sources: Iterable[str], folder: Path) -> str:
    """Return a hash of the files below `folder` that pieces of code import. Empty if they import none.

    The code itself is not part of the hash.
    """
    trees = [tree for source in sources if (tree := parse_source(source)) is not None]
    # The file name "code" does not exist. It only gives relative imports a folder to start from.
    direct = {file for tree in trees for file in _imported_files(tree, folder / "code", folder)}
    files = sorted(direct.union(*(_with_imports(file, folder) for file in direct)))
    parts = [f"{file.relative_to(folder)} {file_sha256(file)}" for file in files]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _with_imports(path: Path, root: Path) -> set[Path]:
    """Return a file together with all files below `root` that it imports, directly or indirectly."""
    files, queue = {path}, [path]
    while queue:
        file = queue.pop()
        state = file.stat()
        for imported in _direct_imports(file, root, state.st_mtime_ns, state.st_size):
            if imported not in files:
                files.add(imported)
                queue.append(imported)
    return files


# Parsing is slow, and several tasks import the same helpers. Time and size are part of the cache's key, so that a file
# that is edited while the process runs is parsed again.
@lru_cache(1024)
def _direct_imports(path: Path, root: Path, _mtime: int, _size: int) -> list[Path]:
    tree = parse_source(path.read_bytes())
    return [] if tree is None else _imported_files(tree, path, root)


def _imported_files(tree: ast.Module, path: Path, root: Path) -> list[Path]:
    """Return the files below `root` that the code at `path` imports itself."""
    files = []
    for imported in _imports(tree):
        base = path.parents[min(imported.level, len(path.parents)) - 1] if imported.level else root
        for name in imported.modules:
            files += [file for file in _module_files(base, name) if file.is_relative_to(root) and file.is_file()]
    return files


def _module_files(base: Path, name: str) -> Iterator[Path]:
    """Yield the possible files of a module and of its packages: importing `a.b` also runs `a/__init__.py`."""
    for part in filter(None, name.split(".")):
        base = base / part
        yield base.with_suffix(".py")
        yield base / "__init__.py"


def module_hashes(name: str) -> dict[str, str]:
    """Return the hashes of the user's files that are read when a module is imported, by the names of their modules."""
    hashes: dict[str, str] = {}
    names = [name]
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
        for imported in _imports(tree) if tree else ():
            base = package[: len(package) - imported.level + 1] if imported.level else []
            names += [".".join(filter(None, [*base, module])) for module in imported.modules]
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


class _Import(NamedTuple):
    """An import statement: the dots before its name, and the modules that it may load. "" is the package itself."""

    level: int
    modules: list[str]


def _imports(tree: ast.Module) -> Iterator[_Import]:
    """Yield the import statements of a file, wherever in it they stand."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield _Import(0, [alias.name for alias in node.names])
        elif isinstance(node, ast.ImportFrom):
            source = node.module or ""
            # In `from a import b`, b may be a module too.
            below = [".".join(filter(None, (source, alias.name))) for alias in node.names]
            yield _Import(node.level, [source, *below])
