"""Vectors of texts, and how near they are to that of a question.

Nearness is the cosine after the mean of what is held was taken away: what all messages of a conversation have
in common says nothing about any one of them.
"""

from __future__ import annotations

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

    def __init__(self, *, centre: bool = True) -> None:
        self._centre = centre
        self._held: Grown | None = None
        self._squares = Grown("f4")
        self._sum: Any = 0.0
        self._about_mean: tuple[NDArray[Any], NDArray[Any]] | None = None

    def add(self, rows: NDArray[Any]) -> None:
        """The vectors of some texts, all as long as the first one."""
        import numpy as np

        if self._held is None:
            self._held = Grown("f4", rows.shape[1])
        self._held.extend(rows)
        self._squares.extend(np.einsum("ij,ij->i", rows, rows))
        self._sum = self._sum + rows.sum(axis=0, dtype=np.float64)
        self._about_mean = None

    def scores(self, row: NDArray[Any]) -> NDArray[Any] | None:
        """From -1 to 1 for each text; None where the question says nothing, or nothing is held."""
        import numpy as np

        if self._held is None or not row.any():
            return None
        if self._about_mean is None:
            self._about_mean = self._centred(self._held.rows)
        mean, lengths = self._about_mean
        aim = row - mean
        near = (_products(self._held.rows, aim) - mean @ aim) / (
            lengths * max(float(np.linalg.norm(aim)), 1e-6)
        )
        return np.where(self._squares.rows > 0, near, 0).astype(np.float64).round(_DIGITS)

    def _centred(self, held: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The mean, and how far each row is from it: the same for all questions until more is added."""
        import numpy as np

        count = len(held) + _PRIOR
        mean = (self._sum / count).astype(np.float32) if self._centre else np.zeros_like(held[0])
        squares = self._squares.rows - 2 * _products(held, mean) + mean @ mean
        return mean, np.sqrt(np.maximum(squares, 1e-12))


def _products(held: NDArray[Any], row: NDArray[Any]) -> NDArray[Any]:
    """Each row's product alike, on one core: `@` waits for its threads, for 8 ms where cores are busy."""
    import numpy as np

    found: NDArray[Any] = np.einsum("ij,j->i", held, row)
    return found
