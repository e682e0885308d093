"""chrF++: shared character and word sequences of answers and references, over all docs."""

from __future__ import annotations

from assay.scoring.metrics import Measure, pair
from assay.scoring.translation import check_installed

AGGREGATIONS = ("chrf++",)
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("generate_until",)


def build() -> Measure:
    """Needs the extra `bleu`, and says so before the first request."""
    check_installed("chrf++")
    return pair
