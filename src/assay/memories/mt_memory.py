"""MTMemory, MemTree: a tree of notes. A note summarises the notes below it.

A new message starts at the root, which has no text. It moves to the nearest child as long as the cosine is at
least base * exp(rate * depth / depth of the tree). It becomes a child of the note at which it stops, and the
model rewrites the notes that it passed. A search compares the question with all notes by cosine. If the model
writes an empty note twice, the case fails.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import message_item
from assay.memories.helpers.prompts import PromptAsker, prompt_version
from assay.memories.helpers.scores import limit, top_places
from assay.memories.helpers.vectors import EmbeddedItems

if TYPE_CHECKING:
    import numpy as np

ABOUT = AboutMemory(
    summary="a tree of notes: similar messages share a branch, and the model rewrites the notes above them",
    asks=True,
    embeds=True,
    options={"k": 0, "base": 0.4, "rate": 0.5},
    prompts=prompt_version("node"),
)
# Place of the root, which has no text and no vector. Places of notes begin at 0.
ROOT = -1


class MemTree:
    """Stores notes by their place. A rewritten note keeps its id; its sources are all messages it summarises."""

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
        """Insert the messages into the tree, one after the other."""
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
        """Return all notes in the order in which they were created."""
        return list(self._embedded.items)

    def end_session(self) -> None:
        """Do nothing."""

    async def _descend(self, note: MemoryItem, vector: np.ndarray[Any, Any]) -> int:
        """Return the parent for a new note. Rewrites the notes on the way down to it."""
        parent = ROOT
        while children := self._children[parent]:
            cosines = self._embedded.cosines(vector, children)
            (nearest,) = top_places(cosines, 1)
            base, rate = self._options["base"], self._options["rate"]
            if cosines[nearest] < threshold(self._depth[parent], self._tree_depth, base, rate):
                break
            if parent != ROOT:
                await self._rewrite(parent, note)
            parent = children[nearest]
        return parent

    async def _rewrite(self, place: int, note: MemoryItem) -> None:
        old, number = self._embedded.items[place], str(len(self._children[place]))
        text = await self._asker.text("node", summary=old.text, text=note.text, number=number)
        await self._embedded.replace(place, replace(old, text=text, sources=(*old.sources, *note.sources)))


def threshold(depth: int, tree_depth: int, base: float, rate: float) -> float:
    """Return the lowest cosine at which a note moves down from this depth. It grows with the depth."""
    return base * math.exp(rate * depth / tree_depth)


def make(context: MemoryContext) -> MemTree:
    """Make an empty memory. It asks the model once for each note that a message passes."""
    return MemTree(context)
