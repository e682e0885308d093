"""The right choice's index and all log-likelihoods; needs an aggregation of the user's own."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("mean",)
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice",)


def build() -> Measure:
    """Refused: there is no answer to measure."""
    raise no_measure("likelihood", OUTPUT_TYPES)
