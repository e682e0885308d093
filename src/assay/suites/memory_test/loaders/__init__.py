"""Data sets, one file each, found by the file's name.

A file has `conversations(path)`. It may have `Caller`, a `PipelineCaller` with statistics of its own, and
`CATEGORIES`, what its categories mean.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.registry import load_from_file, short, unknown
from assay.suites.memory_test.caller import PipelineCaller
from assay.suites.memory_test.conversation import Conversation


class Loader(Struct, frozen=True):
    """A data set by name. `conversations` raises InputError with every problem of a file."""

    name: str
    conversations: Callable[[Path], Iterator[Conversation]]
    caller: type[PipelineCaller] = PipelineCaller
    categories: Mapping[Any, str] = {}
    """What the categories of the data mean, where they do not say it themselves."""
    rules: Mapping[Any, str] = {}
    """Categories whose answers are compared in a way of their own: see `scorer`."""


def names() -> list[str]:
    """The data sets that assay knows."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def loader(name: str) -> Loader:
    """A data set by its file's name, or a user's own by `path/to/file.py:load`.

    What a path names is a function of a file's path, or a subclass of `PipelineCaller` that has this function
    as its static method `conversations` and may count its statistics in its own way.
    """
    if ".py:" in name:
        return _own(name)
    if name not in names():
        raise UsageError(unknown("data set", name, names()))
    module = importlib.import_module(f"{__name__}.{name}")
    caller = getattr(module, "Caller", PipelineCaller)
    told = (getattr(module, name, {}) for name in ("CATEGORIES", "RULES"))
    return Loader(name, module.conversations, caller, *told)


def _own(name: str) -> Loader:
    found = load_from_file(name)
    load = getattr(found, "conversations", found)
    if not callable(load) or (found is load and isinstance(found, type)):
        raise UsageError(
            f"{name} must be a function of a path that gives conversations, or a PipelineCaller with one"
        )
    caller = found if isinstance(found, type) and issubclass(found, PipelineCaller) else PipelineCaller
    return Loader(short(name), load, caller)
