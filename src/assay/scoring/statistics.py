"""Statistics: intervals, percentiles, and every aggregation that a task may name, with its standard error.

`AGGREGATIONS` and `stderr` reproduce lm-evaluation-harness bit for bit. So sums go from left to right in plain
floats (`sum` compensates since Python 3.12), except where the harness itself sums with numpy (`nanmean`,
`brier_score`). F1 and Matthews' correlation are in `classification.py`, BLEU and its kin in `translation.py`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.scoring import translation
from assay.scoring.classification import label_f1, matthews_corrcoef, resampled_f1, resampled_matthews

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from assay.scoring.classification import RowStatistic

_Z = 1.959963984540054
"""97.5 % of the normal distribution lie below it."""


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def wilson(successes: float, total: int) -> Interval | None:
    """The score interval of a proportion. It is sound for few cases and for 0 and 1; mean ± 2 s.e. is not."""
    if not total:
        return None
    share = successes / total
    spread = _Z * math.sqrt(share * (1 - share) / total + _Z * _Z / (4 * total * total))
    center = share + _Z * _Z / (2 * total)
    scale = 1 + _Z * _Z / total
    return Interval(max(0.0, (center - spread) / scale), min(1.0, (center + spread) / scale))


def normal_interval(value: float, error: float) -> Interval:
    """Mean ± 1.96 s.e., for values that are not proportions."""
    return Interval(value - _Z * error, value + _Z * error)


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """The value below which this share of sorted values lies. It is one of them; None for no values."""
    if not ordered:
        return None
    return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def percentiles(seconds: Iterable[float]) -> dict[str, Any]:
    """p50 and p95 with their denominator."""
    ordered = sorted(seconds)
    return {"n": len(ordered), "p50": percentile(ordered, 0.5), "p95": percentile(ordered, 0.95)}


# Repeats of one document.


def pass_at_k(repeats: int, right: int, k: int) -> float:
    """The chance that at least one of k drawn repeats is right; exact to the last bit for any n."""
    if not 0 <= right <= repeats or not 1 <= k <= repeats:
        raise ValueError(f"pass@{k} of {repeats} repeats with {right} right does not exist")
    draws = math.comb(repeats, k)
    return (draws - math.comb(repeats - right, k)) / draws


def first_votes(answers: Sequence[Hashable], right: Mapping[Hashable, bool]) -> list[bool]:
    """For every k, whether the most frequent of the first k answers is right. A tie goes to the earlier one.

    The filters `take_first_k` and `majority_vote` give the same; this does all k in one pass.
    """
    counts: Counter[Hashable] = Counter()
    order: dict[Hashable, int] = {}
    winner: Hashable = None
    outcomes: list[bool] = []
    for answer in answers:
        order.setdefault(answer, len(order))
        counts[answer] += 1
        if not outcomes or (counts[answer], -order[answer]) > (counts[winner], -order[winner]):
            winner = answer
        outcomes.append(right[winner])
    return outcomes


# Aggregations: all documents' values to one number.


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
    """The mean without NaN; NaN where every value is NaN."""
    import numpy as np

    positions, of_rows = _resampled_nanmean(values)
    return float(np.asarray(of_rows(positions[np.newaxis]))[0])


def median(values: Sequence[float]) -> float:
    """The upper median: the harness takes the middle of the sorted values without averaging two."""
    return sorted(values)[len(values) // 2]


def sample_stddev(values: Sequence[float]) -> float:
    """The standard deviation with Bessel's correction; needs two values."""
    middle = mean(values)
    return math.sqrt(left_sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def mean_stderr(values: Sequence[float]) -> float:
    """The standard error of a mean; needs two values."""
    return sample_stddev(values) / math.sqrt(len(values))


def perplexity(values: Sequence[float]) -> float:
    """Of mean log-likelihoods; infinite where a float has no room for it."""
    return _exp(-mean(values))


def weighted_perplexity(pairs: Sequence[Any]) -> float:
    """Of pairs [log-likelihood, weight]; the weight is a number of words, say."""
    return _exp(-_weighted_mean(pairs))


def bits_per_byte(pairs: Sequence[Any]) -> float:
    """Of pairs [log-likelihood, bytes]."""
    return -_weighted_mean(pairs) / math.log(2)


def brier_score(pairs: Sequence[Any]) -> float:
    """The squared distance of the choices' probabilities from the right choice; pairs [index, probabilities].

    Documents may differ in their number of choices, and an index outside the choices is met by none. The
    harness fails in both cases.
    """
    import numpy as np

    distances = []
    for gold, probabilities in pairs:
        chances = np.asarray(probabilities, dtype=np.float64)
        wanted = np.zeros(len(chances))
        if -len(chances) <= gold < len(chances):
            wanted[gold] = 1.0
        distances.append(float(np.sum((chances - wanted) ** 2)))
    return float(np.mean(np.asarray(distances)))


def acc_all(pairs: Sequence[Any]) -> float:
    """The share of questions whose answers are all right; pairs [said yes, document with `idx` and `label`]."""
    import numpy as np

    return float(np.mean(_questions_right(pairs, ("paragraph", "question"))))


def acc_all_stderr(pairs: Sequence[Any]) -> float | None:
    """As the harness computes it: here it tells questions apart by their own number, not by the paragraph."""
    right = _questions_right(pairs, ("question",))
    return mean_stderr(right) if len(right) > 1 else None


def _questions_right(pairs: Sequence[Any], parts: tuple[str, ...]) -> list[int]:
    questions: dict[tuple[Any, ...], bool] = {}
    for said_yes, doc in pairs:
        question = tuple(doc["idx"][part] for part in parts)
        questions[question] = questions.get(question, True) and (doc["label"] == 1) == said_yes
    return [int(right) for right in questions.values()]


def _bypass(_: Sequence[Any]) -> int:
    # The harness's mark for answers that are collected and not scored.
    return 999


def _weighted_mean(pairs: Sequence[Any]) -> float:
    return left_sum(value for value, _ in pairs) / left_sum(weight for _, weight in pairs)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


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
    "bypass": _bypass,
    **{name: translation.corpus_score(name) for name in translation.NAMES},
}
"""Every aggregation that a metric may name."""
OF_NUMBERS = frozenset({"mean", "nanmean", "median", "perplexity"})
"""Aggregations that take one number from each document; the others take pairs."""


# Standard errors of aggregations.

BOOTSTRAP_DRAWS = 100_000
# Of scores over whole corpora the harness draws at most this often.
_MOST_CORPUS_DRAWS = 100
# The harness seeds a generator for each thousand draws.
_CHUNK = 1000
# Values drawn at a time: they fit the cache, and memory is bounded.
_MOST_CELLS = 50_000


def stderr(aggregation: str, values: Sequence[Any], draws: int = BOOTSTRAP_DRAWS) -> float | None:
    """As the harness computes it: a formula for means, a seeded bootstrap, or None (it prints "N/A").

    `draws` is its `bootstrap_iters`: 0 switches every standard error off.
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


def bootstrap_stderr(values: ArrayLike, of_rows: RowStatistic, draws: int = BOOTSTRAP_DRAWS) -> float:
    """The standard deviation of a statistic over draws of as many values as there are."""
    import numpy as np

    data = np.asarray(values)
    statistics: list[float] = []
    for positions in bootstrap_positions(len(data), draws):
        statistics.extend(np.asarray(of_rows(data.take(positions))).tolist())
    return sample_stddev(statistics)


def bootstrap_positions(count: int, draws: int = BOOTSTRAP_DRAWS) -> Iterator[NDArray[np.int64]]:
    """Drawn positions, one row for each draw, some rows at a time.

    Draws i*1000 to i*1000+999 come from `random.Random(i).choices`. Fewer than 1000 draws are one chunk. The
    harness does not draw what is left over after the last whole chunk, and neither do we.
    """
    import numpy as np

    chunk = min(_CHUNK, draws)
    rows = max(1, min(chunk, _MOST_CELLS // count))  # The stream is the same, however it is cut.
    for seed in range(draws // chunk):
        # Numpy's generator in the state of Python's own, which the harness draws from.
        state = random.Random(seed).getstate()[1]  # noqa: S311
        stream = np.random.RandomState()
        stream.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
        for start in range(0, chunk, rows):
            uniform = stream.random_sample((min(rows, chunk - start), count))
            uniform *= count
            yield uniform.astype(np.int64)


# Each of these gives data to draw from, and the statistic of rows of drawn data.


def _resampled_median(values: Sequence[float]) -> tuple[NDArray[np.int32], RowStatistic]:
    """Ranks instead of values: numpy partitions small whole numbers twice as fast."""
    import numpy as np

    ordered, ranks = np.unique(np.asarray(values, dtype=np.float64), return_inverse=True)
    middle = len(values) // 2
    return ranks.astype(np.int32), lambda rows: ordered[np.partition(rows, middle, axis=1)[:, middle]]


def _resampled_nanmean(values: Sequence[float]) -> tuple[NDArray[np.int64], RowStatistic]:
    import numpy as np

    data = np.asarray(values, dtype=np.float64)
    is_number = ~np.isnan(data)
    filled, weights = np.where(is_number, data, 0.0), is_number.astype(np.float64)

    def of_rows(rows: NDArray[Any]) -> NDArray[np.float64]:
        count = weights.take(rows).sum(axis=1)
        means = np.full(len(rows), np.nan)
        np.divide(filled.take(rows).sum(axis=1), count, out=means, where=count > 0)
        return means

    return np.arange(len(data)), of_rows


def _resampled_perplexity(values: Sequence[float]) -> tuple[NDArray[np.float64], RowStatistic]:
    import numpy as np

    return np.asarray(values, dtype=np.float64), perplexities


def perplexities(rows: NDArray[np.float64]) -> list[float]:
    """The perplexity of every row. The exponential is Python's: numpy's differs in the last bit."""
    import numpy as np

    if len(rows) == 1:
        sums = [left_sum(rows[0].tolist())]
    else:
        # Column by column, which is from left to right: along a row numpy would add pairwise.
        sums = np.add.reduce(np.ascontiguousarray(rows.T), axis=0).tolist()
    return [_exp(-(total / rows.shape[1])) for total in sums]


_ANALYTIC: dict[str, Callable[[Any], float | None]] = {"mean": mean_stderr, "acc_all": acc_all_stderr}
_RESAMPLED: dict[str, Callable[[Any], tuple[Any, RowStatistic]]] = {
    "median": _resampled_median,
    "nanmean": _resampled_nanmean,
    "perplexity": _resampled_perplexity,
    "f1": resampled_f1,
    "matthews_corrcoef": resampled_matthews,
    "mcc": resampled_matthews,
    **{name: translation.resampled(name) for name in translation.NAMES},
}
