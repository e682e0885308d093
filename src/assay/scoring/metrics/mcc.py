"""`mcc`: Matthews correlation coefficient of target labels and answered labels, over all documents."""

from __future__ import annotations

from assay.scoring.metrics import Measure, pair

AGGREGATIONS = ("matthews_corrcoef", "mcc")
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice", "generate_until")


def build() -> Measure:
    """Return the measure. There are no options."""
    return pair
