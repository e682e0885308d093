"""Embeddings: the messages whose vectors are nearest to that of the question."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query, options_of
from assay.memories.index.ranking import best
from assay.memories.index.vectors import Vectors
from assay.memories.listing.items import Listed, indexed

ABOUT = AboutMemory(
    summary="finds messages by the cosine of embeddings, dates and speakers included",
    embeds=True,
    options={"centre": True, "date": True},
)


class Dense:
    """A message is held when its vector is there: where the embedding fails, none of those together is."""

    def __init__(self, around: Around, *, centre: bool, date: bool) -> None:
        self._embed = around.embed
        self._centre, self._date = centre, date
        self.reset()

    def reset(self) -> None:
        """Hold nothing."""
        self._listed = Listed()
        self._vectors = Vectors(centre=self._centre)

    async def add(self, messages: Sequence[Message]) -> None:
        """One item a message; their texts are embedded together."""
        if messages:
            rows = await self._embed([indexed(message, date=self._date) for message in messages])
            self._vectors.add(rows)
            self._listed.add(messages)

    async def search(self, query: Query, k: int) -> list[Found]:
        """The nearest, however far they are; nothing for an empty question."""
        items = self.items()
        if not items or not query.text.strip():
            return []
        near = self._vectors.scores((await self._embed([query.text]))[0])
        return [] if near is None else [Found(items[place], float(near[place])) for place in best(near, k)]

    def items(self) -> list[Item]:
        """In the order in which they came."""
        return self._listed.items()

    def end_session(self) -> None:
        """Nothing is done then."""


def make(around: Around) -> Dense:
    """It needs the embedder only."""
    options = options_of(ABOUT, around.options)
    return Dense(around, centre=options["centre"], date=options["date"])
