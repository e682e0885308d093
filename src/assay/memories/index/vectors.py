"""Vectors of texts, and how near they are to that of a question: by cosine, plain or about their mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.memories.index.grown import Grown

if TYPE_CHECKING:
    from numpy.typing import NDArray

_DIGITS = 6
"""Nearness is told with so many: what is beyond depends on the processor."""
_PRIOR = 10
"""So many empty vectors count into the mean, so that the first few messages are not all at it."""


class Vectors:
    """Rows of float32 of length 1, or of length 0: a text that says nothing is near to nothing."""

    def __init__(self) -> None:
        self._held: Grown | None = None

    @property
    def rows(self) -> NDArray[Any]:
        """In order; to be asked for when there is one."""
        assert self._held is not None
        return self._held.rows

    def add(self, rows: NDArray[Any]) -> None:
        """The vectors of some texts, all as long as the first one."""
        if self._held is None:
            self._held = Grown("f4", rows.shape[1])
        self._held.extend(rows)

    def replace(self, place: int, row: NDArray[Any]) -> None:
        """Another one in the same place."""
        self.rows[place] = row

    def cosines(self, row: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """From -1 to 1 for each text, or for each of some."""
        rows = self.rows if places is None else self.rows[places]
        return _told(_products(rows, row))


class Centred(Vectors):
    """Cosines after the mean is taken away: what all messages have in common says nothing about any one."""

    def __init__(self) -> None:
        super().__init__()
        self._squares = Grown("f4")
        self._sum: Any = 0.0
        self._about_mean: tuple[NDArray[Any], NDArray[Any]] | None = None

    def add(self, rows: NDArray[Any]) -> None:
        """The mean moves, and with it all that are held."""
        import numpy as np

        super().add(rows)
        self._squares.extend(np.einsum("ij,ij->i", rows, rows))
        self._sum = self._sum + rows.sum(axis=0, dtype=np.float64)
        self._about_mean = None

    def replace(self, place: int, row: NDArray[Any]) -> None:
        """The mean moves by the difference."""
        self._sum = self._sum - self.rows[place] + row
        self._squares.rows[place] = row @ row
        self._about_mean = None
        super().replace(place, row)

    def cosines(self, row: NDArray[Any], places: Sequence[int] | None = None) -> NDArray[Any]:
        """From -1 to 1; the mean is that of all, also where some are asked for."""
        import numpy as np

        if self._about_mean is None:
            self._about_mean = self._centred(self.rows)
        mean, lengths = self._about_mean
        aim = row - mean
        near = (_products(self.rows, aim) - mean @ aim) / (lengths * max(float(np.linalg.norm(aim)), 1e-6))
        found = _told(np.where(self._squares.rows > 0, near, 0))
        return found if places is None else found[places]

    def _centred(self, held: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The mean, and how far each row is from it: the same for all questions until more is added."""
        import numpy as np

        mean = (self._sum / (len(held) + _PRIOR)).astype(np.float32)
        squares = self._squares.rows - 2 * _products(held, mean) + mean @ mean
        return mean, np.sqrt(np.maximum(squares, 1e-12))


def _products(held: NDArray[Any], row: NDArray[Any]) -> NDArray[Any]:
    """Each row's product alike, on one core: `@` waits for its threads, for 8 ms where cores are busy."""
    import numpy as np

    found: NDArray[Any] = np.einsum("ij,j->i", held, row)
    return found


def _told(near: NDArray[Any]) -> NDArray[Any]:
    return near.astype("f8").round(_DIGITS)
