"""Messages by the cosine of their vectors: the ground of `dense` and LTMemory."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import Around, Found, Item, Message, Query
from assay.memories.index.held import Held
from assay.memories.listing.items import indexed, item_of
from assay.memories.listing.limits import most


class Nearest:
    """A message is held when its vector is there: where the embedding fails, none of those together is."""

    def __init__(self, around: Around, *, centre: bool = False, date: bool = False, k: int = 0) -> None:
        self._held = Held(around, centre=centre)
        self._date, self._k = date, k

    def reset(self) -> None:
        """Hold nothing."""
        self._held.reset()

    async def add(self, messages: Sequence[Message]) -> None:
        """One item a message; their texts are embedded together."""
        texts = [indexed(message, date=self._date) for message in messages]
        await self._held.add([item_of(message) for message in messages], texts)

    async def search(self, query: Query, k: int) -> list[Found]:
        """The nearest, however far they are; nothing for a question that says nothing."""
        return await self._held.nearest(query.text, most(k, self._k))

    def items(self) -> list[Item]:
        """In the order in which they came."""
        return list(self._held.items)

    def end_session(self) -> None:
        """Nothing is done then."""
