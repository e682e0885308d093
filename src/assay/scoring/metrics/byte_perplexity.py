"""`byte_perplexity`: perplexity of the whole text per UTF-8 byte."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("weighted_perplexity",)
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("loglikelihood_rolling",)


def build() -> Measure:
    """Raise UsageError: this metric has no measure for a generated answer."""
    raise no_measure("byte_perplexity", OUTPUT_TYPES)
