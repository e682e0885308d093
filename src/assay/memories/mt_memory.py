"""MemTree: a tree of notes, in which the upper ones sum up what lies below them.

A message goes down from the root to the nearest child while the cosine is at least
base * exp(rate * depth / depth of the tree), and is hung up where it stops. The model rewrites each note that
it passes; the root holds no text. A search takes all notes, by cosine. An empty reply twice is an error.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.asking.asker import Asker
from assay.memories.asking.wording import fingerprint
from assay.memories.index.held import Held
from assay.memories.index.ranking import best
from assay.memories.listing.items import item_of
from assay.memories.listing.limits import most

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
    """Notes by place; a note keeps its id when it is rewritten, and counts all messages that went into it."""

    def __init__(self, around: Around) -> None:
        self._options = options_of(ABOUT, around.options)
        self._asker = Asker(around, "MTMemory")
        self._held = Held(around)
        self.reset()

    def reset(self) -> None:
        """Nothing but a root."""
        self._held.reset()
        self._children: dict[int, list[int]] = {ROOT: []}
        self._depth: dict[int, int] = {ROOT: 0}
        self._deepest = 0

    async def add(self, messages: Sequence[Message]) -> None:
        """Each goes down the tree in its turn."""
        for message in messages:
            place = len(self._held.items)
            note = replace(item_of(message), id=f"node:{place + 1}", kind="graph_node")
            await self._held.add([note])
            self._hang(place, await self._descend(note, self._held.row(place)))

    async def search(self, query: Query, k: int) -> list[Found]:
        """The nearest notes, wherever they hang."""
        return await self._held.nearest(query.text, most(k, self._options["k"]))

    def items(self) -> list[Item]:
        """All notes, in the order in which they were hung up."""
        return list(self._held.items)

    def end_session(self) -> None:
        """Nothing is done then."""

    async def _descend(self, note: Item, vector: np.ndarray[Any, Any]) -> int:
        """The note below which the new one belongs; those that are passed are rewritten."""
        here = ROOT
        while children := self._children[here]:
            scores = self._held.cosines(vector, children)
            (nearest,) = best(scores, 1)
            if scores[nearest] < self._threshold(here):
                break
            if here != ROOT:
                await self._rewrite(here, note)
            here = children[nearest]
        return here

    def _threshold(self, here: int) -> float:
        return threshold(self._depth[here], self._deepest, self._options["base"], self._options["rate"])

    async def _rewrite(self, place: int, note: Item) -> None:
        old, number = self._held.items[place], str(len(self._children[place]))
        text = await self._asker.text("node", summary=old.text, text=note.text, number=number)
        await self._held.replace(place, replace(old, text=text, sources=(*old.sources, *note.sources)))

    def _hang(self, place: int, parent: int) -> None:
        self._children[parent].append(place)
        self._children[place] = []
        self._depth[place] = self._depth[parent] + 1
        self._deepest = max(self._deepest, self._depth[place])


def threshold(depth: int, deepest: int, base: float, rate: float) -> float:
    """How near a child of a note at this depth must be: the deeper, the nearer."""
    return base * math.exp(rate * depth / deepest)


def make(around: Around) -> MemTree:
    """It asks once for each note that a message passes."""
    return MemTree(around)
