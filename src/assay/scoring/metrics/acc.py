"""1.0 where the answer names the target label, else 0.0; white space around it does not matter.

With choices: where the right one is the likeliest. Of an answer the harness itself has no accuracy: it fails.
"""

from __future__ import annotations

from assay.scoring.metrics import Measure

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES = ("loglikelihood", "multiple_choice", "generate_until")


def build() -> Measure:
    """Takes no options."""
    return lambda target, answer: 1.0 if str(target).strip() == str(answer).strip() else 0.0
