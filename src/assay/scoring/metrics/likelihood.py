"""`likelihood`: the index of the right choice and all log-likelihoods. Needs an aggregation function of the user."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("mean",)
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice",)


def build() -> Measure:
    """Raise UsageError: this metric has no measure for a generated answer."""
    raise no_measure("likelihood", OUTPUT_TYPES)
