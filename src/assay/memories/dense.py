"""`dense`: finds the messages whose embedding vectors are nearest to the vector of the question."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit, options_of
from assay.memories.helpers.messages import index_text, message_item
from assay.memories.helpers.scores import limit
from assay.memories.helpers.vectors import EmbeddedItems

ABOUT = AboutMemory(
    summary="finds messages by cosine of embeddings, including dates and speakers",
    embeds=True,
    options={"centre": True, "date": True},
)


class DenseMemory:
    """Searches messages by the cosine of their vectors. LTMemory uses this class too, with other settings."""

    def __init__(self, context: MemoryContext, *, centre: bool = False, date: bool = False, k: int = 0) -> None:
        self._embedded = EmbeddedItems(context, centre=centre)
        self._date, self._k = date, k

    def reset(self) -> None:
        """Remove all messages."""
        self._embedded.reset()

    async def add(self, messages: Sequence[Message]) -> None:
        """Store one item for each message. If the embedding fails, none of these messages is stored."""
        texts = [index_text(message, date=self._date) for message in messages]
        await self._embedded.add([message_item(message) for message in messages], texts)

    async def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the nearest messages, without a minimum score. A question without words returns none."""
        return await self._embedded.nearest(query.text, limit(k, self._k))

    def items(self) -> list[MemoryItem]:
        """Return the messages in the order in which they were stored."""
        return list(self._embedded.items)

    def end_session(self) -> None:
        """Do nothing."""


def make(context: MemoryContext) -> DenseMemory:
    """Make an empty memory."""
    return DenseMemory(context, **options_of(ABOUT, context.options))
