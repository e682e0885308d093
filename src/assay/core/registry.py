"""Finds a plugin by name: `path/to/file.py:Name`, a built-in file, or an installed entry point.

Built-ins are found by file name, through the same door as everybody else's.
"""

from __future__ import annotations

import importlib
import pkgutil
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import UsageError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoints

KINDS = {
    "model": "assay.models",
    "metric": "assay.scoring.metrics",
    "filter": "assay.scoring.filters",
    "judge": "assay.scoring.judges",
    "memory": "assay.memories",
    "embedder": "assay.embedders",
}


def names(kind: str) -> list[str]:
    """Every name that `find` knows, built-in and installed."""
    return sorted(built_in(kind) | {point.name for point in _entry_points(kind)})


@cache
def built_in(kind: str) -> set[str]:
    """The names of the built-in plugins: modules of the kind's package. Packages in it are shared code.

    Characters that a file name may not hold are spelled out: `chrf++` is `chrf_plus_plus.py`, `FUMemory` is
    `fu_memory.py`.
    """
    package = importlib.import_module(KINDS[kind])
    return {
        _public_name(kind, module.name)
        for module in pkgutil.iter_modules(package.__path__)
        if not module.ispkg
    }


def _public_name(kind: str, file: str) -> str:
    """The public name of a plugin, from the name of its file."""
    if kind == "memory" and file.endswith("_memory"):
        return f"{file.removesuffix('_memory').upper()}Memory"
    return file.replace("_", "-") if kind == "model" else file.replace("_plus", "+")


def _file_name(name: str) -> str:
    """The module file name for a plugin's public name."""
    if name.endswith("Memory"):
        return f"{name.removesuffix('Memory').lower()}_memory"
    return name.replace("-", "_").replace("+", "_plus")


def find(kind: str, name: str) -> Any:
    """The plugin: a module for built-ins, whatever the file or entry point names otherwise."""
    if ".py:" in name:
        return load_from_file(name)
    module = f"{KINDS[kind]}.{_file_name(name)}"
    if name in built_in(kind):
        return importlib.import_module(module)
    for point in _entry_points(kind):
        if point.name == name:
            return point.load()
    raise UsageError(unknown(kind, name, names(kind)))


def short(name: str) -> str:
    """A plugin's name as part of a file name: `path/to/file.py:Name` is `file`."""
    return Path(name.partition(".py:")[0]).name


def identity(name: str) -> str:
    """The plugin's name for a fingerprint. A plugin named by path is identified by its content."""
    from assay.core.code import code_sha256

    path, by_path, attribute = name.partition(".py:")
    return f"{code_sha256(Path(path + '.py'))}:{attribute}" if by_path else name


def unknown(kind: str, name: str, known: list[str]) -> str:
    """The message for an unknown name, with the nearest known ones."""
    from difflib import get_close_matches  # imported here because only a typo needs it

    near = get_close_matches(name, known, n=3, cutoff=0.5)
    hint = f"did you mean {' or '.join(map(repr, near))}?" if near else f"known: {', '.join(known)}"
    return f"there is no {kind} named {name!r}; {hint}"


def load_from_file(reference: str) -> Any:
    """The object that `path/to/file.py:Name` names. The file is executed: the user asked for it by name."""
    from assay.core.user_code import load_module  # brings asyncio, which `--help` does not need

    path, _, attribute = reference.rpartition(":")
    module = load_module(Path(path))
    try:
        return getattr(module, attribute)
    except AttributeError:
        raise UsageError(f"{path} has no {attribute!r}") from None


def _entry_points(kind: str) -> EntryPoints:
    from importlib.metadata import entry_points  # 30 ms that built-ins do not need

    return entry_points(group="assay.memories" if kind == "memory" else f"assay.{kind}s")
