"""`brier_score`: squared distance between the probabilities of the choices and the right choice."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("brier_score",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice",)


def build() -> Measure:
    """Raise UsageError: this metric has no measure for a generated answer."""
    raise no_measure("brier_score", OUTPUT_TYPES)
