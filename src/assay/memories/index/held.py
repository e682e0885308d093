"""Items with a vector each, in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.core.memory import Around, Found, Item
from assay.memories.index.ranking import best
from assay.memories.index.vectors import Centred, Vectors

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Held:
    """Grows at the end; an item may be replaced in its place. `centre`: cosines are about the mean of all."""

    def __init__(self, around: Around, *, centre: bool = False) -> None:
        self._embed = around.embed
        self._kind = Centred if centre else Vectors
        self.reset()

    def reset(self) -> None:
        """Hold nothing."""
        self.items: list[Item] = []
        self._vectors = self._kind()

    async def add(self, items: Sequence[Item], texts: Sequence[str] | None = None) -> None:
        """At the end, by their own texts or by others. Where embedding fails, nothing is added."""
        if items:
            self._vectors.add(await self._embed(texts or [item.text for item in items]))
            self.items += items

    async def replace(self, place: int, item: Item) -> None:
        """The same place with another text."""
        self._vectors.replace(place, await self.vector(item.text))
        self.items[place] = item

    async def vector(self, text: str) -> NDArray[Any]:
        """Of a text that is not held."""
        row: NDArray[Any] = (await self._embed([text]))[0]
        return row

    def row(self, place: int) -> NDArray[Any]:
        """The vector of an item; it is good until more is held."""
        row: NDArray[Any] = self._vectors.rows[place]
        return row

    def cosines(self, vector: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """How near each item is, or each of some."""
        return self._vectors.cosines(vector, places)

    async def nearness(self, text: str) -> NDArray[Any]:
        """How near each item is to a text."""
        return self.cosines(await self.vector(text))

    async def nearest(self, text: str, k: int) -> list[Found]:
        """However far they are, of equal ones the older first; nothing for a text that says nothing."""
        if not self.items or not text.strip():
            return []
        vector = await self.vector(text)
        scores = self.cosines(vector)
        return self.found(best(scores, k), scores) if vector.any() else []

    def found(self, places: Sequence[int], scores: NDArray[Any]) -> list[Found]:
        """The items at these places, each with its score."""
        return [Found(self.items[place], float(scores[place])) for place in places]
