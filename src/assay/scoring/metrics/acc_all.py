"""`acc_all`: 1 if all answers to a question are right (MultiRC).

The task's `process_results` returns the pairs [model said yes, document].
"""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("mean", "acc_all")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES: tuple[str, ...] = ()


def build() -> Measure:
    """Raise UsageError: this metric has no measure for a generated answer."""
    raise no_measure("acc_all", OUTPUT_TYPES)
