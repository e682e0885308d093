"""The best of many, in an order that never depends on chance, and several such orders as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from numpy.typing import NDArray


def best(scores: NDArray[Any], k: int, above: float = -math.inf) -> list[int]:
    """The places of the `k` highest scores above a bound, best first; of equal ones the earlier."""
    import numpy as np

    if k < 1:
        return []
    places = np.flatnonzero(scores > above)
    if k < len(places):
        held = scores[places]
        least = np.partition(held, len(held) - k)[len(held) - k]
        places = places[held >= least]
    order = np.argsort(-scores[places], kind="stable")
    found: list[int] = places[order[:k]].tolist()
    return found


def fused(orders: Sequence[tuple[float, Sequence[int]]], constant: float) -> list[tuple[int, float]]:
    """Reciprocal rank fusion: an order gives `weight / (constant + rank)`; best first, then earlier first."""
    found: dict[int, float] = {}
    for weight, places in orders:
        if not weight:  # what counts nothing finds nothing
            continue
        for rank, place in enumerate(places, 1):
            found[place] = found.get(place, 0.0) + weight / (constant + rank)
    return sorted(found.items(), key=lambda pair: (-pair[1], pair[0]))
