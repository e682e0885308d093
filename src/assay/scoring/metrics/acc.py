"""1.0 where the answer names the target label, else 0.0; white space around it does not matter."""

from __future__ import annotations

from assay.scoring.metrics import Measure

AGGREGATIONS = ("mean", "median")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True


def build() -> Measure:
    """Takes no options."""
    return lambda target, answer: 1.0 if str(target).strip() == str(answer).strip() else 0.0
