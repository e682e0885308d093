"""Metrics, one per file. A metric compares the target of a document with the model's answer.

    AGGREGATIONS = ("mean", "median", "nanmean")       # ways to get one number from all documents, default first
    HIGHER_IS_BETTER = True
    RIGHT_WRONG = True                                 # 1 is right, 0 wrong: see the text below
    OUTPUT_TYPES = ("generate_until",)                 # output types of tasks that may use the metric

    def build() -> Measure:                            # options of the metric are keyword arguments
        return lambda target, answer: 1.0 if answer == target else 0.0

`RIGHT_WRONG` declares that a value is 1 for right and 0 for wrong. The number then has the interval of a proportion,
and a document without an answer counts as 0. Other metrics leave it out, and have an interval by their own spread.

The value for a document is a number. Metrics such as F1, which need all documents, return the pair
[target, answer] instead. Only tasks with `generate_until` call the measure. Other output types compute their
metrics from log-likelihoods; `build` of a metric that exists only for them raises UsageError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core.errors import UsageError

Measure = Callable[[Any, Any], Any]

# The metrics of a task file without `metric_list`, by its output type. As in lm-evaluation-harness.
DEFAULT_METRICS = {
    "generate_until": ("exact_match",),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
}


def pair(target: Any, answer: Any) -> list[Any]:
    """Measure of metrics that need all documents: return target and answer for the aggregation."""
    return [target, answer]


def no_measure(name: str, output_types: tuple[str, ...]) -> UsageError:
    """Return the error for a metric that has no measure because it is computed from log-likelihoods."""
    where = f"output_type {' or '.join(output_types)}" if output_types else "`process_results`"
    return UsageError(f"{name!r} is computed from log-likelihoods; it can be used with {where} only")
