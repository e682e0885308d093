"""Of the whole text, by UTF-8 byte."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("weighted_perplexity",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("loglikelihood_rolling",)


def build() -> Measure:
    """Refused: there is no answer to measure."""
    raise no_measure("byte_perplexity", OUTPUT_TYPES)
