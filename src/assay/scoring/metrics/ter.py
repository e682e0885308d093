"""`ter`: translation edit rate, the edits that turn answers into references, over all documents (sacrebleu)."""

from __future__ import annotations

from assay.scoring.metrics import Measure, pair
from assay.scoring.translation import check_installed

AGGREGATIONS = ("ter",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("generate_until",)


def build() -> Measure:
    """Return the measure. Raises MissingExtra before the first request if `assay[bleu]` is not installed."""
    check_installed("ter")
    return pair
