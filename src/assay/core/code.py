"""The user's Python files by content, together with what they import from beside them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path

from assay.core.hashing import file_sha256


def code_sha256(path: Path) -> str:
    """A file's content, and that of every file beside it that it imports, however deep.

    A change of a helper changes what the file does. What is installed is taken to stay as it is.
    """
    found = _reached(path, path.parent)
    if len(found) == 1:
        return file_sha256(path)
    parts = sorted(f"{each.relative_to(path.parent)} {file_sha256(each)}" for each in found)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def imported_sha256(sources: Iterable[str], folder: Path) -> str:
    """What pieces of code import from a folder, by content and however deep; empty if that is nothing."""
    trees = [tree for source in sources if (tree := _parsed(source)) is not None]
    first = {file for tree in trees for file in _named(tree, folder / "code", folder)}
    found = sorted(first.union(*(_reached(file, folder) for file in first)))
    parts = [f"{each.relative_to(folder)} {file_sha256(each)}" for each in found]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest() if parts else ""


def _reached(path: Path, root: Path) -> set[Path]:
    found, waiting = {path}, [path]
    while waiting:
        for each in _beside(waiting.pop(), root):
            if each not in found:
                found.add(each)
                waiting.append(each)
    return found


def _beside(path: Path, root: Path) -> list[Path]:
    """The files below `root` that a file imports; parsed again if it was edited while we run."""
    state = path.stat()
    return _imported(path, root, state.st_mtime_ns, state.st_size)


@lru_cache(1024)
def _imported(path: Path, root: Path, _changed: int, _size: int) -> list[Path]:
    tree = _parsed(path.read_bytes())
    return [] if tree is None else _named(tree, path, root)


def _parsed(source: str | bytes) -> ast.Module | None:
    """Nothing where it does not parse: to run it says what is wrong."""
    try:
        return ast.parse(source)
    except (SyntaxError, ValueError):
        return None


def _named(tree: ast.Module, path: Path, root: Path) -> list[Path]:
    named = (file for node in ast.walk(tree) for file in _files(node, path, root))
    return [file for file in named if file.is_relative_to(root) and file.is_file()]


def _files(node: ast.AST, path: Path, root: Path) -> Iterator[Path]:
    """Where the modules that a statement names would stand."""
    if isinstance(node, ast.Import):
        for alias in node.names:
            yield from _module(root, alias.name)
    if isinstance(node, ast.ImportFrom):
        base = path.parents[min(node.level, len(path.parents)) - 1] if node.level else root
        yield from _module(base, node.module or "")
        for alias in node.names:
            yield from _module(base, ".".join(filter(None, (node.module, alias.name))))


def _module(base: Path, name: str) -> Iterator[Path]:
    """`a.b` runs `a/__init__.py` too."""
    for part in filter(None, name.split(".")):
        base = base / part
        yield base.with_suffix(".py")
        yield base / "__init__.py"
