"""`wer`: word error rate of each answer, averaged over documents, as Hugging Face `evaluate` and jiwer compute it."""

from __future__ import annotations

import re
from typing import Any

from assay.scoring.metrics import Measure

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("generate_until",)

_SPACES = re.compile(r"\s\s+")


def build() -> Measure:
    """Return the measure. There are no options."""
    return word_error_rate


def word_error_rate(target: Any, answer: Any) -> float:
    """Return the fewest words to insert, delete or replace, divided by the words of the target. It may exceed 1.

    Raises ValueError for a target without words.
    """
    expected, found = _words(target), _words(answer)
    if not expected:
        raise ValueError("the target has no words, so there is no word error rate")
    # One row of the table of edit distances between the beginnings of both texts.
    row = list(range(len(found) + 1))
    for number, word in enumerate(expected, 1):
        diagonal, row[0] = row[0], number
        for position, other in enumerate(found, 1):
            replaced = diagonal + (word != other)
            diagonal = row[position]
            row[position] = min(replaced, diagonal + 1, row[position - 1] + 1)
    return row[-1] / len(expected)


def _words(text: Any) -> list[str]:
    # jiwer splits at spaces only, and takes several white characters for one space.
    return [word for word in _SPACES.sub(" ", str(text)).strip().split(" ") if word]
