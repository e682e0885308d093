"""Whether all answers to a question are right; pairs [said yes, document] come from `process_results`."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("mean", "acc_all")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES: tuple[str, ...] = ()


def build() -> Measure:
    """Refused: there is no answer to measure."""
    raise no_measure("acc_all", OUTPUT_TYPES)
