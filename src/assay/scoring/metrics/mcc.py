"""Matthews' correlation of right and given labels, over all docs."""

from __future__ import annotations

from assay.scoring.metrics import Measure, pair

AGGREGATIONS = ("matthews_corrcoef", "mcc")
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice", "generate_until")


def build() -> Measure:
    """Takes no options."""
    return pair
