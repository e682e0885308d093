"""`exact_match`: 1.0 if answer and target are the same text, else 0.0."""

from __future__ import annotations

import string
from collections.abc import Callable
from typing import Any

from assay.language.patterns import compile_pattern
from assay.scoring.metrics import Measure

AGGREGATIONS = ("mean", "median", "nanmean")
HIGHER_IS_BETTER = True
RIGHT_WRONG = True
OUTPUT_TYPES = ("generate_until", "multiple_choice")

_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DIGITS = str.maketrans("", "", string.digits)


def build(
    *,
    ignore_case: bool = False,
    ignore_punctuation: bool = False,
    ignore_numbers: bool = False,
    regexes_to_ignore: list[str] | None = None,
    quirks: bool = False,
) -> Measure:
    """Return the measure. Target and answer are cleaned in this order: regexes, case, ASCII punctuation, digits.

    Values that are not texts are compared unchanged: 1 equals 1.0 but not "1".

    `quirks` reproduces lm-evaluation-harness, which compares numpy arrays of fixed-length texts: NUL characters
    at the end are ignored, and a text that becomes longer in lower case is cut to its old length.
    """
    lower = _lower_in_place if quirks else str.lower
    steps: list[Callable[[str], str]] = [_without(pattern) for pattern in regexes_to_ignore or ()]
    steps += [lower] if ignore_case else []
    steps += [lambda text: text.translate(_PUNCTUATION)] if ignore_punctuation else []
    steps += [lambda text: text.translate(_DIGITS)] if ignore_numbers else []
    steps += [lambda text: text.rstrip("\0")] if quirks else []

    if not steps:
        return lambda target, answer: 1.0 if target == answer else 0.0

    def clean(text: Any) -> Any:
        for step in steps if isinstance(text, str) else ():
            text = step(text)
        return text

    return lambda target, answer: 1.0 if clean(target) == clean(answer) else 0.0


def _without(pattern: str) -> Callable[[str], str]:
    regex = compile_pattern(pattern)
    return lambda text: regex.sub("", text)


def _lower_in_place(text: str) -> str:
    return text.rstrip("\0").lower()[: len(text)]
