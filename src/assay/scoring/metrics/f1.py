"""`f1`: F1 of labels over all documents.

With `aggregation: mean` it is the word overlap of each answer with its target, averaged over documents. With `average`
as well, an option of Hugging Face `evaluate`, it is the F1 of each document's label: 1.0 if it is right, else 0.0.
"""

from __future__ import annotations

import re
from typing import Any

from assay.core.errors import UsageError
from assay.scoring.metrics import Measure, pair
from assay.scoring.metrics.acc import build as build_acc
from assay.scoring.text_overlap import overlap_f1

AGGREGATIONS = ("f1", "mean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = False
OUTPUT_TYPES = ("multiple_choice", "generate_until")

_AVERAGES = ("micro", "macro", "weighted")
_WORD = re.compile(r"[\u3400-\u9fff]|[^\W_]+")


def build() -> Measure:
    """Return the measure for the aggregation `f1`: pairs [target, answer], since F1 needs all documents."""
    return pair


def build_mean(average: str | None = None) -> Measure:
    """Return the measure for the aggregation `mean`: the word overlap of one answer with its target.

    With `average` it compares labels. Of one document, all averages over labels are the same.
    """
    if average is None:
        return word_f1
    if average not in _AVERAGES:
        raise UsageError(f"average is {', '.join(_AVERAGES[:-1])} or {_AVERAGES[-1]}, not {average!r}")
    return build_acc()


def word_f1(target: Any, answer: Any) -> float:
    """Return 2 * shared words / all words. Each Chinese character is a word. Two empty texts have 1.0."""
    return overlap_f1(_words(target), _words(answer))


def _words(text: Any) -> list[str]:
    return _WORD.findall(str(text).lower())
