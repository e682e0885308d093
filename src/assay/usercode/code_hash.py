"""Hashes of the user's Python files. A hash includes the files in the same folder that the code imports.

They are part of a run's fingerprint: an edited function, or an edited helper of it, starts another run. Installed
packages are not part of it.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from assay.core.hashing import file_sha256


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
    trees = [tree for source in sources if (tree := _parse(source)) is not None]
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
    tree = _parse(path.read_bytes())
    return [] if tree is None else _imported_files(tree, path, root)


def _parse(source: str | bytes) -> ast.Module | None:
    """Return the syntax tree, or None if the source is invalid. Running the code reports the error better."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _imported_files(tree: ast.Module, path: Path, root: Path) -> list[Path]:
    candidates = (file for node in ast.walk(tree) for file in _candidate_files(node, path, root))
    return [file for file in candidates if file.is_relative_to(root) and file.is_file()]


def _candidate_files(node: ast.AST, path: Path, root: Path) -> Iterator[Path]:
    """Yield the paths where the modules of an import statement may be."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _module_files(root, alias.name)
    if isinstance(node, ast.ImportFrom):
        base = path.parents[min(node.level, len(path.parents)) - 1] if node.level else root
        yield from _module_files(base, node.module or "")
        # In `from a import b`, b may be a module too.
        for alias in node.names:
            yield from _module_files(base, ".".join(filter(None, (node.module, alias.name))))


def _module_files(base: Path, name: str) -> Iterator[Path]:
    """Yield the possible files of a module and of its packages: importing `a.b` also runs `a/__init__.py`."""
    for part in filter(None, name.split(".")):
        base = base / part
        yield base.with_suffix(".py")
        yield base / "__init__.py"
