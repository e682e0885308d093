"""`chrf`: character sequences that answers share with references, over all documents (sacrebleu)."""

from __future__ import annotations

from assay.scoring.metrics import Measure, pair
from assay.scoring.translation import check_installed

AGGREGATIONS = ("chrf",)
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("generate_until",)


def build() -> Measure:
    """Return the measure. Raises MissingExtra before the first request if `assay[bleu]` is not installed."""
    check_installed("chrf")
    return pair
