"""Makes one number of many: means, the median, perplexities, the Brier score.

Sums go from left to right in plain floats, so that results are the same on every Python (`sum` compensates
since 3.12) and equal, bit for bit, to what lm-evaluation-harness prints. Where the harness itself sums with
numpy (`nanmean`, `brier_score`), so do we.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from assay.scoring.bootstrap import OfRows


def left_sum(values: Iterable[float]) -> float:
    """The plain sum, first to last."""
    total = 0.0
    for value in values:
        total += value
    return total


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean of at least one value."""
    return left_sum(values) / len(values)


def nanmean(values: Sequence[float]) -> float:
    """The mean of what is a number; NaN where nothing is."""
    import numpy as np

    positions, of_rows = resampled_nanmean(values)
    return float(np.asarray(of_rows(positions[np.newaxis]))[0])


def median(values: Sequence[float]) -> float:
    """The upper median: the harness takes the middle of the sorted values without averaging two."""
    return sorted(values)[len(values) // 2]


def sample_stddev(values: Sequence[float]) -> float:
    """With Bessel's correction; needs two values."""
    middle = mean(values)
    return math.sqrt(left_sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def mean_stderr(values: Sequence[float]) -> float:
    """The standard error of a mean; needs two values."""
    return sample_stddev(values) / math.sqrt(len(values))


def perplexity(values: Sequence[float]) -> float:
    """Of mean log-likelihoods; infinite where a float has no room for it."""
    return _exp(-mean(values))


def weighted_perplexity(pairs: Sequence[Any]) -> float:
    """Of pairs [log-likelihood, weight], such as the number of words."""
    return _exp(-_weighted_mean(pairs))


def bits_per_byte(pairs: Sequence[Any]) -> float:
    """Of pairs [log-likelihood, bytes]."""
    return -_weighted_mean(pairs) / math.log(2)


def brier_score(pairs: Sequence[Any]) -> float:
    """How far the choices' probabilities are from the right one, squared; pairs [index, probabilities].

    Documents may differ in their number of choices, and an index that is no choice is met by none: there the
    harness fails.
    """
    import numpy as np

    distances = [_distance(np.asarray(chances, dtype=np.float64), gold) for gold, chances in pairs]
    return float(np.mean(np.asarray(distances)))


def _distance(chances: NDArray[np.float64], gold: int) -> float:
    import numpy as np

    wanted = np.zeros(len(chances))
    if -len(chances) <= gold < len(chances):
        wanted[gold] = 1.0
    return float(np.sum((chances - wanted) ** 2))


def acc_all(pairs: Sequence[Any]) -> float:
    """The share of questions with right answers only; pairs [said yes, document with `idx` and `label`]."""
    import numpy as np

    return float(np.mean(_all_right(pairs, ("paragraph", "question"))))


def acc_all_stderr(pairs: Sequence[Any]) -> float | None:
    """As the harness: it tells questions apart by their own number only, not by their paragraph's."""
    whole = _all_right(pairs, ("question",))
    return mean_stderr(whole) if len(whole) > 1 else None


def _all_right(pairs: Sequence[Any], parts: tuple[str, ...]) -> list[int]:
    found: dict[tuple[Any, ...], bool] = {}
    for said, doc in pairs:
        question = tuple(doc["idx"][part] for part in parts)
        found[question] = found.get(question, True) and (doc["label"] == 1) == said
    return [int(right) for right in found.values()]


def _weighted_mean(pairs: Sequence[Any]) -> float:
    return left_sum(value for value, _ in pairs) / left_sum(weight for _, weight in pairs)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


def resampled_median(values: Sequence[float]) -> tuple[NDArray[np.int32], OfRows]:
    """Ranks instead of values: numpy partitions small whole numbers twice as fast."""
    import numpy as np

    ordered, ranks = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)
    middle = len(values) // 2
    return ranks.astype(np.int32), lambda rows: ordered[np.partition(rows, middle, axis=1)[:, middle]]


def resampled_nanmean(values: Sequence[float]) -> tuple[NDArray[np.int64], OfRows]:
    """Positions, and the means of rows of positions."""
    import numpy as np

    data = np.asarray(values, dtype=np.float64)
    known = ~np.isnan(data)
    filled, weights = np.where(known, data, 0.0), known.astype(np.float64)

    def of_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
        count = weights.take(rows).sum(axis=1)
        means = np.full(len(rows), np.nan)
        np.divide(filled.take(rows).sum(axis=1), count, out=means, where=count > 0)
        return means

    return np.arange(len(data)), of_rows


def resampled_perplexity(values: Sequence[float]) -> tuple[NDArray[np.float64], OfRows]:
    """The values, and the perplexities of rows of them."""
    import numpy as np

    return np.asarray(values, dtype=np.float64), perplexities


def perplexities(rows: NDArray[np.float64]) -> list[float]:
    """The perplexity of every row. The exponential is Python's: numpy's differs in the last bit."""
    return [_exp(-(total / rows.shape[1])) for total in _left_sums(rows)]


def _left_sums(rows: NDArray[np.float64]) -> list[float]:
    """Every row's sum from left to right: column by column, as numpy adds pairwise along a row."""
    import numpy as np

    if len(rows) == 1:
        return [left_sum(rows[0].tolist())]
    sums: list[float] = np.add.reduce(np.ascontiguousarray(rows.T), axis=0).tolist()
    return sums
