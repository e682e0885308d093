"""Plugins by the names that people write: `path/to/file.py:Name`, or a name of the registry.

find("memory", "my_memory.py:make")         # the function `make` of a user's file
find("memory", "bm25")                      # the module assay.memories.bm25
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, cast

from assay.core import registry
from assay.core.errors import UsageError, similar, similar_file
from assay.core.memory import AboutMemory, Embedder, Memory, MemoryContext
from assay.core.roles import About

# What the examples of the documentation call the plugin in a user's file.
_USUAL_NAMES = {"memory": "make", "embedder": "load"}


def find(kind: str, name: str) -> Any:
    """Return a plugin: a module if it is built in, else the object that the file or entry point names."""
    if ".py:" in name:
        return load_from_file(name)
    if name.endswith(".py"):
        raise UsageError(
            f"{name!r} is a file. Name the function or class in it too, such as {name}:{_USUAL_NAMES.get(kind, 'NAME')}"
        )
    return registry.find(kind, name)


def load_from_file(reference: str) -> Any:
    """Import a user's file and return the object that `path/to/file.py:Name` names."""
    from assay.usercode.modules import load_module  # a command without user code does not need it

    path, _, attribute = reference.rpartition(":")
    module = load_module(Path(path))
    try:
        return getattr(module, attribute)
    except AttributeError:
        names = [name for name, value in vars(module).items() if name[0] != "_" and callable(value)]
        hint = similar(attribute, names) or (f"; it has {', '.join(names)}" if names else "")
        raise UsageError(f"{path} has no {attribute!r}{hint}") from None


def identity(name: str) -> str:
    """Return a plugin's part of a fingerprint: its name, or for a user's file a hash of the code.

    Raises UsageError if there is no such file.
    """
    from assay.usercode.code_hash import code_sha256

    stem, by_path, attribute = name.partition(".py:")
    if not by_path:
        return name
    path = Path(f"{stem}.py")
    if not path.is_file():
        raise UsageError(f"there is no file {str(path)!r}{similar_file(path)}")
    return f"{code_sha256(path)}:{attribute}"


class MemoryPlugin(NamedTuple):
    """A memory plugin: its description, and the function that creates a memory."""

    about: AboutMemory
    make: Callable[[MemoryContext], Memory]
    name: str = ""

    @property
    def title(self) -> str:
        """The name in tables and charts. It marks a reference, so that it is not mistaken for a real memory."""
        return f"{self.name} (reference)" if self.about.reference else self.name


def find_memory(name: str) -> MemoryPlugin:
    """Find a memory by its name or by `path/to/file.py:make`."""
    from assay.usercode.user_function import signature_problem

    plugin = find("memory", name)
    module = sys.modules.get(getattr(plugin, "__module__", ""))
    about = getattr(plugin, "ABOUT", None) or getattr(module, "ABOUT", AboutMemory(summary=name))
    make = getattr(plugin, "make", plugin)
    if not isinstance(about, AboutMemory) or not callable(make):
        raise UsageError(
            f"{name!r} is no memory: it needs make(context), and ABOUT, if any, is an AboutMemory; see docs/memories.md"
        )
    if problem := signature_problem(make, ("context",)):
        raise UsageError(f"{name!r} is no memory: {problem}; see docs/memories.md")
    return MemoryPlugin(about, make, registry.short(name))


def load_embedder(name: str) -> Embedder:
    """Load an embedder by its name or by `path/to/file.py:load`.

    `load` is a function or a class. A class with a method `load` is loaded by it, any other class is called.
    """
    from assay.usercode.errors import UserCodeError
    from assay.usercode.user_function import call_here, signature_problem

    plugin = find("embedder", name)
    load = getattr(plugin, "load", plugin)
    if not callable(load):
        raise UsageError(f"{name!r} is no embedder: it needs load(); see docs/extending.md")
    if problem := signature_problem(load, ()):
        raise UsageError(f"{name!r} is no embedder: {problem}; see docs/extending.md")
    try:
        embedder: Any = call_here(load)
    except UserCodeError as error:
        raise UsageError(f"the embedder {name!r} cannot be loaded: it raised {error.raised}") from error
    if not callable(getattr(embedder, "embed", None)):
        kind = type(embedder).__name__
        raise UsageError(f"{name!r} is no embedder: {kind} has no method embed(texts); see docs/extending.md")
    return cast("Embedder", embedder)


def describe_provider(name: str) -> About:
    """Return the description of a provider. Raises UsageError for an unknown provider.

    One in a user's file may have none. Then its arguments are unknown.
    """
    about = getattr(find("model", name), "ABOUT", None)
    return about if isinstance(about, About) else _UNDESCRIBED


# A provider in a user's file without a description.
_UNDESCRIBED = About(summary="", needs="", can=frozenset(), example="", any_args=True)
