"""An array that grows: room is doubled, so that a row costs the same whenever it comes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

_FIRST = 64


class Grown:
    """Rows of one kind. What `rows` gives is a view: it is good until the next row comes."""

    def __init__(self, kind: str, width: int | None = None) -> None:
        import numpy as np

        self._count = 0
        self._rows: NDArray[Any] = np.empty(_FIRST if width is None else (_FIRST, width), kind)

    def extend(self, rows: ArrayLike) -> None:
        """Behind those that are there."""
        import numpy as np

        new = np.asarray(rows, self._rows.dtype)
        wanted = self._count + len(new)
        if wanted > len(self._rows):
            room = np.empty((max(wanted, 2 * len(self._rows)), *self._rows.shape[1:]), self._rows.dtype)
            room[: self._count] = self.rows
            self._rows = room
        self._rows[self._count : wanted] = new
        self._count = wanted

    @property
    def rows(self) -> NDArray[Any]:
        """All that came, in order."""
        return self._rows[: self._count]

    def __len__(self) -> int:
        return self._count
