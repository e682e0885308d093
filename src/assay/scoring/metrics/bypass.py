"""Collects answers without scoring them; its value is always 999, as in the harness."""

from __future__ import annotations

from assay.scoring.metrics import Measure

AGGREGATIONS = ("bypass",)
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("generate_until", "loglikelihood", "multiple_choice")


def build() -> Measure:
    """Takes no options."""
    return lambda _target, _answer: None
