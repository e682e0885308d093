"""Finds a plugin by name: a built-in one, or an installed entry point.

    find("metric", "exact_match")               # BUILT_IN["exact_match"] of assay.scoring.metrics
    find("judge", "rubric")                     # the module assay.scoring.judges.rubric

A built-in metric or filter is an entry in the table `BUILT_IN` of its module. A built-in plugin of another kind is a
file in the package of its kind and needs no registration. `usercode/plugins.py` also finds plugins in files of the
user.
"""

from __future__ import annotations

import importlib
import os
import sys
from collections.abc import Mapping
from functools import cache, lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import UsageError, unknown

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
# Kinds whose built-in plugins are a table in a module.
_TABLES = {"metric", "filter"}


def names(kind: str) -> list[str]:
    """Return every name that `find` finds, built-in and installed."""
    return sorted(built_in(kind) | {point.name for point in entry_points_of(_group(kind))})


def is_known(kind: str, name: str) -> bool:
    """Return whether `find` finds this name. The metadata of packages is read only if it is not built in."""
    return name in built_in(kind) or name in names(kind)


@cache
def built_in(kind: str) -> set[str]:
    """Return the names of the built-in plugins: those of the kind's table, or the modules of its package.

    Subpackages are shared code. A memory's name is spelled out: `FUMemory` is `fu_memory.py`.
    """
    if kind in _TABLES:
        return set(_table(kind))
    package = importlib.import_module(KINDS[kind])
    # Not `pkgutil.iter_modules`, which takes ten times as long.
    files = (file for folder in package.__path__ for file in os.listdir(folder))  # noqa: PTH208 - as in `_state`
    modules = {file.removesuffix(".py") for file in files if file.endswith(".py")} - {"__init__"}
    return {_public_name(kind, module) for module in modules}


def _table(kind: str) -> Mapping[str, Any]:
    table: Mapping[str, Any] = importlib.import_module(KINDS[kind]).BUILT_IN
    return table


def _public_name(kind: str, file: str) -> str:
    """Return the public name of a plugin for its module's name."""
    if kind == "memory" and file.endswith("_memory"):
        return f"{file.removesuffix('_memory').upper()}Memory"
    return file.replace("_", "-") if kind == "model" else file


def _file_name(name: str) -> str:
    """Return the module's name for a plugin's public name."""
    if name.endswith("Memory"):
        return f"{name.removesuffix('Memory').lower()}_memory"
    return name.replace("-", "_")


def find(kind: str, name: str) -> Any:
    """Return a plugin: a module or an entry of its table if it is built in, else what the entry point names."""
    if name in built_in(kind):
        return _table(kind)[name] if kind in _TABLES else importlib.import_module(f"{KINDS[kind]}.{_file_name(name)}")
    for point in entry_points_of(_group(kind)):
        if point.name == name:
            return point.load()
    raise UsageError(unknown("provider" if kind == "model" else kind, name, names(kind)))


def _group(kind: str) -> str:
    """Return the group of a kind's entry points."""
    return "assay.memories" if kind == "memory" else f"assay.{kind}s"


def short(name: str) -> str:
    """Return a plugin's name for use in file names: `file` for `path/to/file.py:Name`."""
    return Path(name.partition(".py:")[0]).name


def entry_points_of(group: str) -> EntryPoints:
    """Return the entry points of a group, of all installed packages.

    Python reads the metadata of every package for this: 30 ms in an environment of 130 packages. They are read again
    when a folder of `sys.path` has changed, as after `pip install` beside a notebook.
    """
    return _read_entry_points(group, tuple(_state(folder or ".") for folder in sys.path))


@lru_cache(maxsize=16)
def _read_entry_points(group: str, folders: tuple[tuple[int, int, int], ...]) -> EntryPoints:
    """Return the entry points of a group. `folders` is the state of `sys.path` for which the cached ones hold."""
    from importlib.metadata import entry_points  # built-in plugins do not need it

    return entry_points(group=group)


def _state(path: str) -> tuple[int, int, int]:
    """Return numbers that change when a package comes into a folder or leaves it; zeros for a missing folder."""
    try:
        found = os.stat(path)  # noqa: PTH116 - a Path for each folder costs more than the call
    except OSError:
        return 0, 0, 0
    return found.st_dev, found.st_ino, found.st_mtime_ns
