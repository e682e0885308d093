"""Items with their embedding vectors, and the cosine of each with a question.

With `centre` the mean of all vectors is subtracted before the cosine is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.core.memory import MemoryContext, MemoryItem, SearchHit
from assay.memories.helpers.scores import GrowingArray, top_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Cosines are rounded to 6 digits. Further digits depend on the processor, and would decide between equal items.
_DIGITS = 6
# Number of zero vectors that count as part of the mean. Without them, the mean of the first few messages would
# be close to each of them, and subtracting it would leave nothing.
_PRIOR_COUNT = 10


class EmbeddedItems:
    """Items in order, each with the vector of its text. With `centre`, cosines are relative to the mean vector."""

    def __init__(self, context: MemoryContext, *, centre: bool = False) -> None:
        self._embed = context.embed
        self._vectors_type = CentredVectors if centre else Vectors
        self.reset()

    def reset(self) -> None:
        """Remove all items."""
        self.items: list[MemoryItem] = []
        self._vectors = self._vectors_type()

    async def add(self, items: Sequence[MemoryItem], texts: Sequence[str] | None = None) -> None:
        """Append items. Embeds `texts` if given, else the texts of the items. If that fails, no item is added."""
        if items:
            self._vectors.add(await self._embed(texts or [item.text for item in items]))
            self.items += items

    async def replace(self, place: int, item: MemoryItem) -> None:
        """Replace the item at a place, and embed the text of the new item."""
        self._vectors.replace(place, await self.embed(item.text))
        self.items[place] = item

    async def embed(self, text: str) -> NDArray[Any]:
        """Return the vector of a text."""
        vector: NDArray[Any] = (await self._embed([text]))[0]
        return vector

    def vector(self, place: int) -> NDArray[Any]:
        """Return the vector of an item. The array is valid until the next `add`."""
        vector: NDArray[Any] = self._vectors.rows[place]
        return vector

    def cosines(self, vector: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the cosine of each item with a vector. With `places`, only of the items at these places."""
        return self._vectors.cosines(vector, places)

    async def similarity(self, text: str) -> NDArray[Any]:
        """Return the cosine of each item with a text."""
        return self.cosines(await self.embed(text))

    async def nearest(self, text: str, k: int) -> list[SearchHit]:
        """Return the `k` nearest items, without a minimum score. Of equal cosines the older item comes first.

        A text without words has a zero vector and returns nothing.
        """
        if not self.items or not text.strip():
            return []
        vector = await self.embed(text)
        if not vector.any():
            return []
        scores = self.cosines(vector)
        return self.hits(top_places(scores, k), scores)

    def hits(self, places: Sequence[int], scores: NDArray[Any]) -> list[SearchHit]:
        """Return the items at these places with their scores."""
        return [SearchHit(self.items[place], float(scores[place])) for place in places]


class Vectors:
    """Vectors as rows of float32. Each has length 1, or is zero for a text without words: its cosine is 0."""

    def __init__(self) -> None:
        self._array: GrowingArray | None = None  # created by the first `add`, which knows the dimension

    @property
    def rows(self) -> NDArray[Any]:
        """All vectors, in order. Requires at least one vector."""
        assert self._array is not None
        return self._array.rows

    def add(self, rows: NDArray[Any]) -> None:
        """Append vectors. All must have the dimension of the first."""
        if self._array is None:
            self._array = GrowingArray("f4", rows.shape[1])
        self._array.extend(rows)

    def replace(self, place: int, row: NDArray[Any]) -> None:
        """Replace the vector at a place."""
        self.rows[place] = row

    def cosines(self, row: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the cosines (-1 to 1) of all vectors, or of those at `places`, with `row`."""
        rows = self.rows if places is None else self.rows[places]
        return _rounded(_dot_products(rows, row))


class CentredVectors(Vectors):
    """Computes cosines after subtracting the mean vector.

    All messages of a conversation share a direction. It does not help to tell them apart, so it is removed.
    """

    def __init__(self) -> None:
        super().__init__()
        self._squares = GrowingArray("f4")
        self._sum: Any = 0.0
        self._centre: tuple[NDArray[Any], NDArray[Any]] | None = None

    def add(self, rows: NDArray[Any]) -> None:
        """Append vectors. This changes the mean, and with it every cosine."""
        import numpy as np

        super().add(rows)
        self._squares.extend(np.einsum("ij,ij->i", rows, rows))
        self._sum = self._sum + rows.sum(axis=0, dtype=np.float64)
        self._centre = None

    def replace(self, place: int, row: NDArray[Any]) -> None:
        """Replace the vector at a place. This changes the mean, and with it every cosine."""
        self._sum = self._sum - self.rows[place] + row
        self._squares.rows[place] = row @ row
        self._centre = None
        super().replace(place, row)

    def cosines(self, row: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the cosines (-1 to 1) relative to the mean of all vectors, even if `places` selects a few."""
        import numpy as np

        if self._centre is None:
            # Cached: mean and distances are the same for all questions until a vector is added or replaced.
            rows = self.rows
            mean = (self._sum / (len(rows) + _PRIOR_COUNT)).astype(np.float32)
            squares = self._squares.rows - 2 * _dot_products(rows, mean) + mean @ mean
            self._centre = mean, np.sqrt(np.maximum(squares, 1e-12))
        mean, distances = self._centre
        direction = row - mean
        products = _dot_products(self.rows, direction) - mean @ direction
        cosines = products / (distances * max(float(np.linalg.norm(direction)), 1e-6))
        scores = _rounded(np.where(self._squares.rows > 0, cosines, 0))
        return scores if places is None else scores[places]


def _dot_products(rows: NDArray[Any], row: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    # einsum uses one core. `@` starts threads and waits for them, up to 8 ms on busy cores.
    products: NDArray[Any] = np.einsum("ij,j->i", rows, row)
    return products


def _rounded(cosines: NDArray[Any]) -> NDArray[Any]:
    return cosines.astype("f8").round(_DIGITS)
