"""How many edits turn the answers into their references, over all docs."""

from __future__ import annotations

from assay.scoring.metrics import Measure, pair
from assay.scoring.translation import check_installed

AGGREGATIONS = ("ter",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("generate_until",)


def build() -> Measure:
    """Needs the extra `bleu`, and says so before the first request."""
    check_installed("ter")
    return pair
