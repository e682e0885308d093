"""Compares runs of any suite: `compare` and the structs that it returns."""

from assay.store.comparison.compare import Comparison, ComparisonResult, Cost, OneSided, Side, compare
from assay.store.comparison.rows import Flip, Flips, FlipSide

__all__ = [
    "Comparison",
    "ComparisonResult",
    "Cost",
    "Flip",
    "FlipSide",
    "Flips",
    "OneSided",
    "Side",
    "compare",
]
