"""How far the choices' probabilities are from the right choice."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("brier_score",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice",)


def build() -> Measure:
    """Refused: there is no answer to measure."""
    raise no_measure("brier_score", OUTPUT_TYPES)
