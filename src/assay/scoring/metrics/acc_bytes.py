"""`acc_bytes`: 1.0 if the right choice has the highest log-likelihood per UTF-8 byte."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES = ("multiple_choice",)


def build() -> Measure:
    """Raise UsageError: this metric has no measure for a generated answer."""
    raise no_measure("acc_bytes", OUTPUT_TYPES)
