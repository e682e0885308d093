"""The memories of a run: found by name, given their options, with what they need to be made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from assay.core import registry
from assay.core.errors import UsageError
from assay.core.memory import Kind, find_memory, options_of
from assay.solvers.memory.embedding import ROLE, Embed, Embedding, at_endpoint
from assay.solvers.memory.holding import Maker


def memories_named(names: Sequence[str], flag: str) -> dict[str, Kind]:
    """By the names that outputs have."""
    if not names:
        known = ", ".join(registry.names("memory"))
        raise UsageError(f"no memory is named; {flag} takes {known}, or FILE.py:Name")
    found: dict[str, Kind] = {}
    for name in names:
        kind = find_memory(name)
        if kind.name in found:
            raise UsageError(f"two memories would be called {kind.name!r}; rename a file")
        found[kind.name] = kind
    return found


class Makers:
    """How each memory is made. `roles` are the models that embedding asks; none for one of this process."""

    def __init__(
        self, kinds: Mapping[str, Kind], given: Mapping[str, Any], embedder: str, timeout: float
    ) -> None:
        self.roles: dict[str, str] = {}
        self.asks = any(kind.about.asks for kind in kinds.values())
        self.told = frozenset(name for name, kind in kinds.items() if kind.about.needs_evidence)
        """Those that declare to need where the evidence stands."""
        embedding = self._embedding(embedder)
        self.by_name = {
            name: Maker(kind, _options(kind, given, kinds), embedding, timeout)
            for name, kind in kinds.items()
        }

    def _embedding(self, name: str) -> Embedding:
        """PROVIDER/NAME is asked at its endpoint; another name is an embedder of this process."""
        if "/" in name and ".py:" not in name:
            self.roles[ROLE] = name
            return at_endpoint
        return lambda _: _local(name)


def _options(kind: Kind, given: Mapping[str, Any], kinds: Mapping[str, Kind]) -> dict[str, Any]:
    """Every memory takes those that it has; what none has is refused."""
    known = {name for each in kinds.values() for name in each.about.options}
    if strange := [name for name in given if name not in known]:
        raise UsageError(registry.unknown("option of these memories", strange[0], sorted(known)))
    return options_of(kind.about, {key: given[key] for key in given if key in kind.about.options})


def _local(name: str) -> Embed:
    """Loaded when a memory first embeds something."""

    async def embed(texts: Sequence[str]) -> Any:
        return registry.find("embedder", name).load().embed(texts)

    return embed
