"""Long-term memory: the k messages whose vectors are nearest to the question's, by cosine."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.listing.items import item_of
from assay.memories.listing.limits import most
from assay.memories.nearness.held import Held, best

ABOUT = AboutMemory(
    summary="the k messages nearest to the question, by cosine", embeds=True, options={"k": 0}
)


class LongTerm:
    """Every message with its vector."""

    def __init__(self, around: Around) -> None:
        self._k: int = options_of(ABOUT, around.options)["k"]
        self._held = Held(around)

    def reset(self) -> None:
        """Hold nothing."""
        self._held.reset()

    async def add(self, messages: Sequence[Message]) -> None:
        """One item a message."""
        await self._held.add([item_of(message) for message in messages])

    async def search(self, query: Query, k: int) -> list[Found]:
        """The nearest first; of equally near ones the older."""
        if not self._held.items:
            return []
        scores = await self._held.nearness(query.text)
        return self._held.found(best(scores, most(k, self._k)), scores)

    def items(self) -> list[Item]:
        """In the order in which they came."""
        return list(self._held.items)

    def end_session(self) -> None:
        """Nothing is done then."""


def make(around: Around) -> LongTerm:
    """It needs vectors."""
    return LongTerm(around)
