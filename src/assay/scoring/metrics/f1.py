"""F1 of labels over all docs; with `aggregation: mean`, of the words an answer shares with its target."""

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
    """A pair for each doc: `f1` as aggregation needs all of them."""
    return pair


def build_mean() -> Measure:
    """Word overlap of one answer, which may be averaged: words by Unicode, Chinese by character."""
    return word_f1


def word_f1(target: Any, answer: Any) -> float:
    """Twice the shared words by all words; two empty texts agree."""
    return overlap_f1(_words(target), _words(answer))


def _words(text: Any) -> list[str]:
    return _WORD.findall(str(text).lower())
