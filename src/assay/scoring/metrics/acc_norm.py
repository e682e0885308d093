"""1.0 where the right choice is the likeliest by its length in characters."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES = ("multiple_choice",)


def build() -> Measure:
    """Refused: there is no answer to measure."""
    raise no_measure("acc_norm", OUTPUT_TYPES)
