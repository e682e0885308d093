"""Items with their vectors, and how near they are to a question: by cosine, plain or about the mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.core.memory import MemoryContext, MemoryItem, SearchHit
from assay.memories.helpers.scores import GrowingArray, top_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Cosines are rounded to 6 digits: the digits beyond depend on the processor, and would decide ties.
_DIGITS = 6
# As many zero vectors count into the mean. Without them the first messages would all lie at the mean.
_PRIOR = 10


class EmbeddedItems:
    """Items in order, each with the vector of its text. `centre`: cosines are about the mean of all."""

    def __init__(self, context: MemoryContext, *, centre: bool = False) -> None:
        self._embed = context.embed
        self._vectors_type = CentredVectors if centre else Vectors
        self.reset()

    def reset(self) -> None:
        """Remove all items."""
        self.items: list[MemoryItem] = []
        self._vectors = self._vectors_type()

    async def add(self, items: Sequence[MemoryItem], texts: Sequence[str] | None = None) -> None:
        """Append items, embedded by their own texts or by `texts`. If embedding fails, none is added."""
        if items:
            self._vectors.add(await self._embed(texts or [item.text for item in items]))
            self.items += items

    async def replace(self, place: int, item: MemoryItem) -> None:
        """Put another item in the place of one, and embed its text."""
        self._vectors.replace(place, await self.embed(item.text))
        self.items[place] = item

    async def embed(self, text: str) -> NDArray[Any]:
        """Return the vector of any text."""
        vector: NDArray[Any] = (await self._embed([text]))[0]
        return vector

    def vector(self, place: int) -> NDArray[Any]:
        """Return the vector of an item. It is valid until the next `add`."""
        vector: NDArray[Any] = self._vectors.rows[place]
        return vector

    def cosines(self, vector: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """Return the cosine of each item with a vector, or of the items at some places."""
        return self._vectors.cosines(vector, places)

    async def similarity(self, text: str) -> NDArray[Any]:
        """Return the cosine of each item with a text."""
        return self.cosines(await self.embed(text))

    async def nearest(self, text: str, k: int) -> list[SearchHit]:
        """Return the `k` nearest items, however far they are. Ties go to the older item.

        A text without words finds nothing: its vector is zero.
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
    """Rows of float32. They have length 1, or 0 for a text without words, which is near to nothing."""

    def __init__(self) -> None:
        self._array: GrowingArray | None = None  # made by the first `add`, which says how long a vector is

    @property
    def rows(self) -> NDArray[Any]:
        """All vectors, in order. There must be one."""
        assert self._array is not None
        return self._array.rows

    def add(self, rows: NDArray[Any]) -> None:
        """Append vectors. All have the length of the first one."""
        if self._array is None:
            self._array = GrowingArray("f4", rows.shape[1])
        self._array.extend(rows)

    def replace(self, place: int, row: NDArray[Any]) -> None:
        """Put another vector in the place of one."""
        self.rows[place] = row

    def cosines(self, row: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """Return cosines from -1 to 1 for all vectors, or for those at some places."""
        rows = self.rows if places is None else self.rows[places]
        return _rounded(_dot_products(rows, row))


class CentredVectors(Vectors):
    """Cosines after the mean is subtracted: what all messages have in common distinguishes none of them."""

    def __init__(self) -> None:
        super().__init__()
        self._squares = GrowingArray("f4")
        self._sum: Any = 0.0
        self._centre: tuple[NDArray[Any], NDArray[Any]] | None = None

    def add(self, rows: NDArray[Any]) -> None:
        """Append vectors. The mean moves, and with it every cosine."""
        import numpy as np

        super().add(rows)
        self._squares.extend(np.einsum("ij,ij->i", rows, rows))
        self._sum = self._sum + rows.sum(axis=0, dtype=np.float64)
        self._centre = None

    def replace(self, place: int, row: NDArray[Any]) -> None:
        """Put another vector in the place of one. The mean moves by the difference."""
        self._sum = self._sum - self.rows[place] + row
        self._squares.rows[place] = row @ row
        self._centre = None
        super().replace(place, row)

    def cosines(self, row: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """Return cosines from -1 to 1 about the mean of all vectors, also where only some are wanted."""
        import numpy as np

        if self._centre is None:
            # Mean and distances stay the same for all questions until a vector is added or replaced.
            rows = self.rows
            mean = (self._sum / (len(rows) + _PRIOR)).astype(np.float32)
            squares = self._squares.rows - 2 * _dot_products(rows, mean) + mean @ mean
            self._centre = mean, np.sqrt(np.maximum(squares, 1e-12))
        mean, distances = self._centre
        aim = row - mean
        products = _dot_products(self.rows, aim) - mean @ aim
        cosines = products / (distances * max(float(np.linalg.norm(aim)), 1e-6))
        scores = _rounded(np.where(self._squares.rows > 0, cosines, 0))
        return scores if places is None else scores[places]


def _dot_products(rows: NDArray[Any], row: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    # einsum works on one core. `@` waits for its threads, up to 8 ms where the cores are busy.
    products: NDArray[Any] = np.einsum("ij,j->i", rows, row)
    return products


def _rounded(cosines: NDArray[Any]) -> NDArray[Any]:
    return cosines.astype("f8").round(_DIGITS)
