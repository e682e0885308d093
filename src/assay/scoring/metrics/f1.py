"""`f1`: F1 of labels over all documents.

With `aggregation: mean` it is the word overlap of each answer with its target, averaged over documents.
"""

from __future__ import annotations

import re
from typing import Any

from assay.scoring.metrics import Measure, pair
from assay.scoring.text_overlap import overlap_f1

AGGREGATIONS = ("f1", "mean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice", "generate_until")

_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+")


def build() -> Measure:
    """Return the measure for the aggregation `f1`: pairs [target, answer], since F1 needs all documents."""
    return pair


def build_mean() -> Measure:
    """Return the measure for the aggregation `mean`: the word overlap of one answer with its target."""
    return word_f1


def word_f1(target: Any, answer: Any) -> float:
    """Return 2 * shared words / all words. Each Chinese character is a word. Two empty texts have 1.0."""
    return overlap_f1(_words(target), _words(answer))


def _words(text: Any) -> list[str]:
    return _WORD.findall(str(text).lower())
