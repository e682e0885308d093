"""Compares runs of any suite: `compare` and the structs that it returns."""

from assay.store.comparison.compare import Comparison, ComparisonResult, Cost, OneSided, compare
from assay.store.comparison.flips import Flip, Flips, FlipSide
from assay.store.comparison.selection import Side
from assay.store.comparison.slices import PairedSlice

__all__ = [
    "Comparison",
    "ComparisonResult",
    "Cost",
    "Flip",
    "FlipSide",
    "Flips",
    "OneSided",
    "PairedSlice",
    "Side",
    "compare",
]
