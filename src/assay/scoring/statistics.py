"""Numbers about numbers: every aggregation by name, its standard error, and intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple

from assay.scoring import translation
from assay.scoring.averages import (
    acc_all,
    acc_all_stderr,
    bits_per_byte,
    brier_score,
    left_sum,
    mean,
    mean_stderr,
    median,
    nanmean,
    perplexity,
    resampled_median,
    resampled_nanmean,
    resampled_perplexity,
    sample_stddev,
    weighted_perplexity,
)
from assay.scoring.bootstrap import BOOTSTRAP_DRAWS, OfRows, bootstrap_stderr
from assay.scoring.labels import label_f1, matthews_corrcoef, resampled_f1, resampled_matthews

__all__ = [
    "AGGREGATIONS",
    "BOOTSTRAP_DRAWS",
    "OF_NUMBERS",
    "Interval",
    "bootstrap_stderr",
    "label_f1",
    "left_sum",
    "mean",
    "median",
    "normal_interval",
    "percentile",
    "percentiles",
    "sample_stddev",
    "stderr",
    "wilson",
]


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def bypass(_: Sequence[Any]) -> int:
    """Always 999: the harness's mark for answers that are collected and not scored."""
    return 999


# Of what every metric may name: all documents' values to one number.
AGGREGATIONS: dict[str, Callable[[Any], float]] = {
    "mean": mean,
    "nanmean": nanmean,
    "median": median,
    "perplexity": perplexity,
    "weighted_perplexity": weighted_perplexity,
    "bits_per_byte": bits_per_byte,
    "f1": label_f1,
    "matthews_corrcoef": matthews_corrcoef,
    "mcc": matthews_corrcoef,
    "brier_score": brier_score,
    "acc_all": acc_all,
    "bypass": bypass,
    **{name: translation.corpus_score(name) for name in translation.NAMES},
}
# Those that take one number from each document; the others take pairs.
OF_NUMBERS = frozenset({"mean", "nanmean", "median", "perplexity"})

_ANALYTIC: dict[str, Callable[[Any], float | None]] = {"mean": mean_stderr, "acc_all": acc_all_stderr}


_RESAMPLED: dict[str, Callable[[Any], tuple[Any, OfRows]]] = {
    "median": resampled_median,
    "nanmean": resampled_nanmean,
    "perplexity": resampled_perplexity,
    "f1": resampled_f1,
    "matthews_corrcoef": resampled_matthews,
    "mcc": resampled_matthews,
    **{name: translation.resampled(name) for name in translation.NAMES},
}
_MOST_CORPUS_DRAWS = 100


def stderr(aggregation: str, values: Sequence[Any], draws: int = BOOTSTRAP_DRAWS) -> float | None:
    """As the harness computes it: a formula for means, a seeded bootstrap, or none (it prints "N/A").

    `draws` is its `bootstrap_iters`: 0 switches every standard error off, and scores of whole corpora are
    drawn at most 100 times.
    """
    if len(values) <= 1 or draws <= 0:
        return None
    if aggregation in _ANALYTIC:
        return _ANALYTIC[aggregation](values)
    if aggregation not in _RESAMPLED or draws == 1:
        return None
    data, of_rows = _RESAMPLED[aggregation](values)
    most = _MOST_CORPUS_DRAWS if aggregation in translation.NAMES else draws
    return bootstrap_stderr(data, of_rows, min(draws, most))


def wilson(successes: float, total: int) -> Interval | None:
    """The score interval of a proportion; sound for few cases and for 0 and 1, where mean ± 2 s.e. is not."""
    if not total:
        return None
    z = 1.959963984540054
    share = successes / total
    spread = z * math.sqrt(share * (1 - share) / total + z * z / (4 * total * total))
    center = share + z * z / (2 * total)
    scale = 1 + z * z / total
    return Interval(max(0.0, (center - spread) / scale), min(1.0, (center + spread) / scale))


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which this share of them lies: one that occurred. None of nothing."""
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))] if ordered else None


def percentiles(seconds: Iterable[float]) -> dict[str, Any]:
    """p50 and p95 with their denominator, as summaries have them."""
    ordered = sorted(seconds)
    return {"n": len(ordered), "p50": percentile(ordered, 0.5), "p95": percentile(ordered, 0.95)}


def normal_interval(value: float, error: float) -> Interval:
    """Mean ± 1.96 s.e., for values that are not proportions."""
    return Interval(value - 1.959963984540054 * error, value + 1.959963984540054 * error)
