"""1.0 where answer and target are the same text, else 0.0."""

from __future__ import annotations

import re
import string
from typing import Any

from assay.scoring.metrics import Measure

AGGREGATIONS = ("mean", "median")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)


def build(
    *,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
    regexes_to_ignore: list[str] | None = None,
) -> Measure:
    """Both sides are cleaned in the same order: regexes, case, ASCII punctuation, digits."""
    patterns = [re.compile(pattern) for pattern in regexes_to_ignore or ()]

    def clean(text: Any) -> Any:
        if not isinstance(text, str):
            return text
        for pattern in patterns:
            text = pattern.sub("", text)
        if ignore_case:
            text = text.lower()
        if ignore_punctuation:
            text = text.translate(_PUNCTUATION)
        if ignore_numbers:
            text = text.translate(_DIGITS)
        return text

    return lambda target, answer: 1.0 if clean(target) == clean(answer) else 0.0
