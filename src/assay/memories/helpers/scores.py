"""Scores of stored texts: arrays that grow, the best places, and rank fusion.

The place of a text is its index: the number of texts that were stored before it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

# Rows of a new array. A short conversation fits without growing.
_FIRST_CAPACITY = 64


class GrowingArray:
    """An array to which rows are appended. Its capacity doubles, so that appending takes constant time."""

    def __init__(self, dtype: str, width: int | None = None) -> None:
        import numpy as np

        shape = _FIRST_CAPACITY if width is None else (_FIRST_CAPACITY, width)
        self._count = 0
        self._buffer: NDArray[Any] = np.empty(shape, dtype)

    def extend(self, rows: ArrayLike) -> None:
        """Append rows."""
        import numpy as np

        new = np.asarray(rows, self._buffer.dtype)
        count = self._count + len(new)
        if count > len(self._buffer):
            capacity = max(count, 2 * len(self._buffer))
            buffer = np.empty((capacity, *self._buffer.shape[1:]), self._buffer.dtype)
            buffer[: self._count] = self.rows
            self._buffer = buffer
        self._buffer[self._count : count] = new
        self._count = count

    @property
    def rows(self) -> NDArray[Any]:
        """All rows, in order. A view that is valid until the next `extend`, which may move the rows."""
        return self._buffer[: self._count]

    def __len__(self) -> int:
        return self._count


def top_places(scores: NDArray[Any], k: int, above: float = -math.inf) -> list[int]:
    """Return the places of the `k` highest scores above a bound, best first.

    Of equal scores the earlier place comes first.
    """
    import numpy as np

    if k < 1:
        return []
    places = np.flatnonzero(scores > above)
    if k < len(places):
        # Drop everything below the k-th score first. This is faster than sorting a long conversation.
        candidates = scores[places]
        threshold = np.partition(candidates, len(candidates) - k)[len(candidates) - k]
        places = places[candidates >= threshold]
    order = np.argsort(-scores[places], kind="stable")
    best: list[int] = places[order[:k]].tolist()
    return best


def fuse_ranks(rankings: Sequence[tuple[float, Sequence[int]]], constant: float) -> list[tuple[int, float]]:
    """Merge rankings by reciprocal rank fusion. Returns (place, score) pairs, best first.

    A ranking is a weight and places, best first. It adds `weight / (constant + rank)` to each of its places.
    Of equal scores the earlier place comes first.
    """
    scores: dict[int, float] = {}
    for weight, places in rankings:
        # A ranking of weight 0 must not add places with a score of 0.
        if not weight:
            continue
        for rank, place in enumerate(places, 1):
            scores[place] = scores.get(place, 0.0) + weight / (constant + rank)
    return sorted(scores.items(), key=lambda pair: (-pair[1], pair[0]))


def recency(decay: float, now: int, last_used: Sequence[int]) -> NDArray[Any]:
    """Return `decay ** (now - last_used)`: 1 for a text that was used just now, less with each message since."""
    import numpy as np

    scores: NDArray[Any] = decay ** (now - np.asarray(last_used, dtype=np.float64))
    return scores


def limit(k: int, option: int) -> int:
    """Return how many items a search may return: the smaller of `k` and the memory's own option `k`.

    An option of 0 means that it is not set.
    """
    return max(0, min(k, option) if option else k)
