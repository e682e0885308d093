"""`acc`: accuracy.

For multiple choice, 1.0 if the right choice is the most likely one. For a generated answer, 1.0 if it equals the
target apart from white space around it; lm-evaluation-harness fails in this case.
"""

from __future__ import annotations

from assay.scoring.metrics import Measure

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES = ("loglikelihood", "multiple_choice", "generate_until")


def build() -> Measure:
    """Return the measure. There are no options."""
    return lambda target, answer: 1.0 if str(target).strip() == str(answer).strip() else 0.0
