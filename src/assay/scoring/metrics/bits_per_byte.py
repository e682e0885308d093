"""`bits_per_byte`: negative log2-likelihood of the whole text, divided by its length in UTF-8 bytes."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("bits_per_byte",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("loglikelihood_rolling",)


def build() -> Measure:
    """Raise UsageError: this metric has no measure for a generated answer."""
    raise no_measure("bits_per_byte", OUTPUT_TYPES)
