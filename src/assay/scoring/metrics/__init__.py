"""Metrics compare one target with one answer. One file each, found by its name.

A metric's `build(**options)` returns `measure(target, answer)`. Its value for a doc is a number, or a pair
[target, answer] where only all docs together have a value; `AGGREGATIONS` names what can make one number of
them, the default first.
`RIGHT_WRONG` says whether a doc without an answer counts as 0 (else it is left out and counted).
`OUTPUT_TYPES` are those it may be used with. Only `generate_until` measures an answer; the others compute
their metrics from log-likelihoods, so a metric of theirs alone has a `build` that refuses.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from assay.core.errors import UsageError

Measure = Callable[[Any, Any], Any]

# What a task file without `metric_list` is scored by.
DEFAULT_METRICS = {
    "generate_until": ("exact_match",),
    "loglikelihood": ("perplexity", "acc"),
    "loglikelihood_rolling": ("word_perplexity", "byte_perplexity", "bits_per_byte"),
    "multiple_choice": ("acc", "acc_norm"),
}


def pair(target: Any, answer: Any) -> list[Any]:
    """The measure of metrics that need all docs: what was wanted and what was given."""
    return [target, answer]


def no_measure(name: str, output_types: tuple[str, ...]) -> UsageError:
    """For a metric that is computed from log-likelihoods."""
    where = f"output_type {' or '.join(output_types)}" if output_types else "`process_results`"
    return UsageError(f"{name!r} is computed from log-likelihoods and belongs to {where}")
