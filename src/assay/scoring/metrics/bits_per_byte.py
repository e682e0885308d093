"""Of the whole text."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("bits_per_byte",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("loglikelihood_rolling",)


def build() -> Measure:
    """Refused: there is no answer to measure."""
    raise no_measure("bits_per_byte", OUTPUT_TYPES)
