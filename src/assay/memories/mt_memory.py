"""MTMemory, MemTree: a tree of notes whose upper notes summarise those below them.

A message goes down from the root to the nearest child while the cosine is at least base * exp(rate * depth
/ depth of the tree). It becomes a child of the note at which it stops. The model rewrites each note that it
passes; the root has no text. A search compares all notes by cosine. Two empty replies fail the case.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import message_item
from assay.memories.helpers.prompts import PromptAsker, fingerprint
from assay.memories.helpers.scores import limit, top_places
from assay.memories.helpers.vectors import EmbeddedItems

if TYPE_CHECKING:
    import numpy as np

ABOUT = AboutMemory(
    summary="a tree of notes: a message goes to what is near it, and the notes above it are rewritten",
    asks=True,
    embeds=True,
    options={"k": 0, "base": 0.4, "rate": 0.5},
    prompts=fingerprint("node"),
)
ROOT = -1


class MemTree:
    """Notes by their place. A rewritten note keeps its id. Its sources are all messages that went into it."""

    def __init__(self, context: MemoryContext) -> None:
        self._options = options_of(ABOUT, context.options)
        self._asker = PromptAsker(context, "MTMemory")
        self._embedded = EmbeddedItems(context)
        self.reset()

    def reset(self) -> None:
        """Remove all notes but the root."""
        self._embedded.reset()
        self._children: dict[int, list[int]] = {ROOT: []}
        self._depth: dict[int, int] = {ROOT: 0}
        self._tree_depth = 0

    async def add(self, messages: Sequence[Message]) -> None:
        """Send one message after the other down the tree."""
        for message in messages:
            place = len(self._embedded.items)
            note = replace(message_item(message), id=f"node:{place + 1}", kind="graph_node")
            await self._embedded.add([note])
            parent = await self._descend(note, self._embedded.vector(place))
            self._children[parent].append(place)
            self._children[place] = []
            self._depth[place] = self._depth[parent] + 1
            self._tree_depth = max(self._tree_depth, self._depth[place])

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the nearest notes of the whole tree."""
        return await self._embedded.nearest(query.text, limit(k, self._options["k"]))

    def items(self) -> list[MemoryItem]:
        """Return all notes in the order in which they were made."""
        return list(self._embedded.items)

    def end_session(self) -> None:
        """Do nothing."""

    async def _descend(self, note: MemoryItem, vector: np.ndarray[Any, Any]) -> int:
        """Return the parent for a new note. Rewrites the notes that it passes."""
        here = ROOT
        while children := self._children[here]:
            cosines = self._embedded.cosines(vector, children)
            (nearest,) = top_places(cosines, 1)
            base, rate = self._options["base"], self._options["rate"]
            if cosines[nearest] < threshold(self._depth[here], self._tree_depth, base, rate):
                break
            if here != ROOT:
                await self._rewrite(here, note)
            here = children[nearest]
        return here

    async def _rewrite(self, place: int, note: MemoryItem) -> None:
        old, number = self._embedded.items[place], str(len(self._children[place]))
        text = await self._asker.text("node", summary=old.text, text=note.text, number=number)
        await self._embedded.replace(place, replace(old, text=text, sources=(*old.sources, *note.sources)))


def threshold(depth: int, tree_depth: int, base: float, rate: float) -> float:
    """Return the least cosine for a step down from a note at this depth. It grows with the depth."""
    return base * math.exp(rate * depth / tree_depth)


def make(context: MemoryContext) -> MemTree:
    """Make an empty memory. It asks once for each note that a message passes."""
    return MemTree(context)
