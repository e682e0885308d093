"""Items with a vector each, in the order in which they came."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.core.memory import Around, Found, Item

if TYPE_CHECKING:
    import numpy as np

    Numbers = np.ndarray[Any, Any]

_DIGITS = 6
"""Scores are rounded to this: the last bits differ from machine to machine, and equal texts are equal."""
_ROOM = 64


class Held:
    """Grows at the end, by doubling, so that adding is flat in time; an item may be replaced in its place."""

    def __init__(self, around: Around) -> None:
        self._embed = around.embed
        self.reset()

    def reset(self) -> None:
        """Hold nothing."""
        self.items: list[Item] = []
        self._rows: Numbers | None = None

    async def add(self, items: Sequence[Item]) -> None:
        """At the end. Where embedding fails, nothing is added."""
        if items:
            rows = await self._embed([item.text for item in items])
            self._room(len(self.items) + len(items), rows)[len(self.items) :][: len(items)] = rows
            self.items += items

    async def replace(self, place: int, item: Item) -> None:
        """The same place with another text."""
        (row,) = await self._embed([item.text])
        assert self._rows is not None
        self._rows[place], self.items[place] = row, item

    async def vector(self, text: str) -> Numbers:
        """Of a text that is not held."""
        row: Numbers = (await self._embed([text]))[0]
        return row

    def row(self, place: int) -> Numbers:
        """The vector of an item."""
        assert self._rows is not None
        row: Numbers = self._rows[place]
        return row

    def cosines(self, vector: Numbers, places: Sequence[int] | None = None) -> Numbers:
        """How near each item is, or each of some: all vectors have length 1."""
        assert self._rows is not None
        rows = self._rows[: len(self.items)] if places is None else self._rows[places]
        found: Numbers = (rows @ vector).astype("float64").round(_DIGITS)
        return found

    async def nearness(self, text: str) -> Numbers:
        """How near each item is to a text."""
        return self.cosines(await self.vector(text))

    def found(self, places: Sequence[int], scores: Numbers) -> list[Found]:
        """The items at these places, each with its score."""
        return [Found(self.items[place], float(scores[place])) for place in places]

    def _room(self, size: int, rows: Numbers) -> Numbers:
        import numpy as np

        if self._rows is None or len(self._rows) < size:
            grown = np.zeros((max(_ROOM, 2 * size), rows.shape[1]), dtype=np.float32)
            if self._rows is not None:
                grown[: len(self.items)] = self._rows[: len(self.items)]
            self._rows = grown
        return self._rows


def best(scores: Numbers, k: int | None = None) -> list[int]:
    """The places of the highest scores, highest first; of equal ones the earlier first."""
    places: list[int] = (-scores).argsort(kind="stable")[:k].tolist()
    return places


def recency(decay: float, now: int, last: Sequence[int]) -> Numbers:
    """`decay ** (now - last)`: 1 for what was touched now, less with each message since."""
    import numpy as np

    found: Numbers = decay ** (now - np.asarray(last, dtype=np.float64))
    return found
