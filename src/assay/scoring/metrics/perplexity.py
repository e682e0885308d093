"""`perplexity`: perplexity of the target after the prompt."""

from __future__ import annotations

from assay.scoring.metrics import Measure, no_measure

AGGREGATIONS = ("perplexity", "mean", "median", "nanmean")
HIGHER_IS_BETTER = False
RIGHT_WRONG = False
OUTPUT_TYPES = ("loglikelihood",)


def build() -> Measure:
    """Raise UsageError: this metric has no measure for a generated answer."""
    raise no_measure("perplexity", OUTPUT_TYPES)
