"""The memories of a run as people name them: a memory, its own options, and the number of a repeat.

    split_settings(["bm25,k=5", "bm25,k=10", "GAMemory,STMemory"])   # one text for each memory
    find_settings(["bm25,k=5", "mine.py:A"], {}, "--memory")         # the same as settings, by name

A part with `=` is an option of the memory before it. `bm25,STMemory` are two memories. Every memory has the option `k`,
the number of items to retrieve per question.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from msgspec import Struct

from assay.core import registry
from assay.core.errors import UsageError, unknown
from assay.core.memory import AboutMemory, Memory, MemoryContext, options_of
from assay.core.roles import Role
from assay.core.spec import parse_pairs, split_pairs
from assay.suites.memory.roles import BUILD_ROLE, EMBEDDER_ROLE
from assay.usercode import plugins
from assay.usercode.plugins import MemoryPlugin, find_memory

_OPTION = re.compile(r"[A-Za-z_]\w*=", re.ASCII)
# Characters of a name that file names cannot have everywhere.
_UNSAFE = re.compile(r"[^\w.,=+#()-]+")


class MemorySetting(Struct, frozen=True, kw_only=True):
    """One subject of a run: a memory with its options. `name` is its name in reports and files."""

    name: str
    reference: str
    """The memory as `core.registry` finds it: a name, or `path/to/file.py:make`."""
    plugin: MemoryPlugin
    options: dict[str, Any]
    k: int = 0
    """Number of items to retrieve per question instead of --top-k. 0 means --top-k."""
    repeat: int = 1
    """The number of the repeat, from 1. Each repeat builds the memory with another seed."""
    group: str = ""
    """The name that all repeats share."""

    @property
    def about(self) -> AboutMemory:
        """The memory's description of itself."""
        return self.plugin.about

    @property
    def make(self) -> Callable[[MemoryContext], Memory]:
        """The function that creates the memory."""
        return self.plugin.make

    @property
    def title(self) -> str:
        """The name in tables and charts. It marks a reference, so that it is not mistaken for a real memory."""
        return f"{self.name} (reference)" if self.about.reference else self.name


def split_settings(texts: Sequence[str]) -> list[str]:
    """Split what --memory was given into one text for each memory, with its options. Repeated texts are dropped."""
    settings: dict[str, None] = {}
    for text in texts:
        current = ""
        for part in (each.strip() for each in split_pairs(text)):
            if not part:
                continue
            if not _OPTION.match(part):
                if current:
                    settings[current] = None
                current = part
            elif current:
                current = f"{current},{part}"
            else:
                raise UsageError(f"{part!r} is an option of no memory: write NAME,{part}, such as bm25,{part}")
        if current:
            settings[current] = None
    return list(settings)


def find_settings(
    texts: Sequence[str], common: Mapping[str, Any], flag: str, repeats: int = 1
) -> dict[str, MemorySetting]:
    """Return the memories by the names that reports and files use.

    `texts` are those of `split_settings`. Each of the `common` options goes to every memory that has it; an option of
    the text itself wins. `flag` is the option to name in errors.
    """
    if not texts:
        choices = ", ".join(registry.names("memory"))
        raise UsageError(f"no memory is named; {flag} takes {choices}, or FILE.py:Name")
    found: list[tuple[str, str, MemoryPlugin, dict[str, Any]]] = []
    for text in texts:
        reference, _, pairs = text.partition(",")
        names = [part.partition("=")[0].strip() for part in split_pairs(pairs)] if pairs else []
        if twice := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise UsageError(f"{flag} {text}: {', '.join(twice)} is given twice")
        found.append((text, reference, find_memory(reference), parse_pairs(pairs)))
    _check_common(common, [plugin for _, _, plugin, _ in found])
    settings: dict[str, MemorySetting] = {}
    for text, reference, plugin, options in found:
        own = {name: value for name, value in common.items() if name in plugin.about.options}
        k = options.get("k", 0)
        if type(k) is not int or ("k" in options and k < 1):
            raise UsageError(f"{flag} {text}: k is the number of items to retrieve, from 1 up, not {k!r}")
        if "k" not in plugin.about.options:
            options.pop("k", None)
        try:
            merged = options_of(plugin.about, own | options)
        except UsageError as error:
            also = ". Every memory also has k, the number of items" if "there is no" in str(error) else ""
            raise UsageError(f"{flag} {text}: {error}{also}") from None
        group = _name(reference, text, {each for _, each, _, _ in found})
        # A memory of ours that calls no model is the same in every repeat.
        count = repeats if plugin.about.asks or ".py:" in reference else 1
        for repeat in range(1, count + 1):
            name = f"{group}#{repeat}" if count > 1 else group
            if name in settings:
                raise UsageError(f"two memories would be called {name!r}; rename a file")
            settings[name] = MemorySetting(
                name=name, reference=reference, plugin=plugin, options=merged, k=k, repeat=repeat, group=group
            )
    if repeats > 1 and len(settings) == len(found):
        raise UsageError(
            "--repeats has no effect: none of these memories calls a model, so all repeats would be equal. Remove it."
        )
    return settings


def _name(reference: str, text: str, references: set[str]) -> str:
    """Return a name for files: `bm25,k=5`; `mine` for mine.py:A, or `mine.A` if the run has mine.py:B too."""
    name = registry.short(reference)
    path, by_path, attribute = reference.partition(".py:")
    if by_path and any(each != reference and each.startswith(f"{path}.py:") for each in references):
        name = f"{name}.{attribute}"
    return _UNSAFE.sub("_", name + text.removeprefix(reference))


def _check_common(common: Mapping[str, Any], plugins: Sequence[MemoryPlugin]) -> None:
    """Raise UsageError for an option of --memory-args that no memory of the run has."""
    names = {name for plugin in plugins for name in plugin.about.options}
    for name in common:
        if name not in names:
            raise UsageError(unknown("option of these memories", name, sorted(names)))


def memories_identity(settings: Mapping[str, MemorySetting], embedder: str) -> dict[str, Any]:
    """Return the part of a run's identity that its memories are: their code, options and prompts, and the embedder."""
    return {
        "memories": {
            name: [plugins.identity(setting.reference), setting.options, setting.k, setting.about.prompts]
            for name, setting in settings.items()
        },
        "embedder": plugins.identity(embedder),
    }


def building_identity(
    roles: Mapping[str, Role], settings: Mapping[str, MemorySetting], data: Any, seed: int
) -> list[Any] | None:
    """Return what two runs share whose memories make the same calls; None if their memories make no calls.

    The settings are not part of it: equal requests of other settings are as good. The seed is, although requests of the
    log do not show it: a run with another seed wants other replies.
    """
    models = {name: roles[name] for name in (BUILD_ROLE, EMBEDDER_ROLE) if name in roles}
    asks = any(setting.about.asks or ".py:" in setting.reference for setting in settings.values())
    if not asks and EMBEDDER_ROLE not in models:
        return None
    return [{name: [role.model, role.base_url, role.params] for name, role in models.items()}, data, seed]
