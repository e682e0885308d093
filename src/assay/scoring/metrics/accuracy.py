"""`accuracy`: accuracy of labels, under the name that Hugging Face `evaluate` has for it. The same as `acc`."""

from __future__ import annotations

from assay.scoring.metrics import Measure
from assay.scoring.metrics.acc import build as build_acc

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES = ("generate_until",)


def build() -> Measure:
    """Return the measure. There are no options."""
    return build_acc()
