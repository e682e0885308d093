"""Compares runs of any suite: `compare` and the structs that it returns."""

from assay.store.comparison.compare import Compared, Comparison, Cost, OneSided, Side, compare
from assay.store.comparison.rows import Flip, Flips, FlipSide

__all__ = [
    "Compared",
    "Comparison",
    "Cost",
    "Flip",
    "FlipSide",
    "Flips",
    "OneSided",
    "Side",
    "compare",
]
