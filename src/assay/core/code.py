"""The user's Python files by content, together with what they import from beside them."""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path

from assay.core.hashing import file_sha256


def code_sha256(path: Path) -> str:
    """A file's content, and that of every file beside it that it imports, however deep.

    A change of a helper changes what the file does. What is installed is taken to stay as it is.
    """
    found = _reached(path)
    if len(found) == 1:
        return file_sha256(path)
    parts = sorted(f"{each.relative_to(path.parent)} {file_sha256(each)}" for each in found)
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()


def _reached(path: Path) -> set[Path]:
    found, waiting = {path}, [path]
    while waiting:
        for each in _beside(waiting.pop(), path.parent):
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
    try:
        tree = ast.parse(path.read_bytes())
    except (SyntaxError, ValueError):
        return []  # to import it says what is wrong
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
