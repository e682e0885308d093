"""`bypass`: collects answers without scoring them. The value is always 999, as in lm-evaluation-harness."""

from __future__ import annotations

from assay.scoring.metrics import Measure

AGGREGATIONS = ("bypass",)
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("generate_until", "loglikelihood", "multiple_choice")


def build() -> Measure:
    """Return the measure. There are no options."""
    return lambda _target, _answer: None
