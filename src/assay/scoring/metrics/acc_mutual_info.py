"""1.0 where the prompt makes the right choice more likely by more than it does the others."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES = ("multiple_choice",)


def build() -> Measure:
    """Refused: there is no answer to measure."""
    raise no_measure("acc_mutual_info", OUTPUT_TYPES)
