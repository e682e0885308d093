"""Statistics: percentiles, and the aggregations of tasks with their standard errors. Intervals are in `intervals.py`.

`AGGREGATIONS` and `stderr` reproduce lm-evaluation-harness bit for bit. So sums are added from left to right in
plain floats (the built-in `sum` compensates rounding errors since Python 3.12), except where the harness itself
uses numpy (`nanmean`, `brier_score`). F1 and Matthews correlation are in `classification.py`; BLEU, chrF and TER
are in `translation.py`.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from assay.scoring import translation
from assay.scoring.classification import label_f1, matthews_corrcoef, resampled_f1, resampled_matthews

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import ArrayLike, NDArray

    from assay.scoring.classification import RowStatistic


def percentile(ordered: Sequence[float], share: float) -> float | None:
    """Return the value below which this share of the sorted values lies, linear between ranks. None if empty.

    The same as numpy's default: the median of [1, 3] is 2.
    """
    if not ordered:
        return None
    rank = share * (len(ordered) - 1)
    low = math.floor(rank)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (rank - low)


def percentiles(seconds: Iterable[float]) -> dict[str, Any]:
    """Return the number of values, their median (p50) and their 95 % percentile (p95)."""
    ordered = sorted(seconds)
    return {"n": len(ordered), "p50": percentile(ordered, 0.5), "p95": percentile(ordered, 0.95)}


# Scores over the repeats of one document.


def pass_at_k(repeats: int, right: int, k: int) -> float:
    """Return the probability that at least one of k drawn repeats is right. Computed in whole numbers."""
    if not 0 <= right <= repeats or not 1 <= k <= repeats:
        raise ValueError(f"pass@{k} is not defined for {repeats} repeats of which {right} are right")
    draws = math.comb(repeats, k)
    return (draws - math.comb(repeats - right, k)) / draws


def first_votes(answers: Sequence[Hashable], right: Mapping[Hashable, bool]) -> list[bool]:
    """Return for every k whether the most frequent of the first k answers is right. In a tie the earlier wins.

    The filters `take_first_k` and `majority_vote` give the same results, but this takes one pass for all k.
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


# Aggregations: functions from the values of all documents to one number.


def left_sum(values: Iterable[float]) -> float:
    """Return the sum in plain floats, added from first to last."""
    total = 0.0
    for value in values:
        total += value
    return total


def mean(values: Sequence[float]) -> float:
    """Return the arithmetic mean of at least one value."""
    return left_sum(values) / len(values)


def nanmean(values: Sequence[float]) -> float:
    """Return the mean of the values that are not NaN. NaN if all are."""
    import numpy as np

    positions, of_rows = _resampled_nanmean(values)
    return float(np.asarray(of_rows(positions[np.newaxis]))[0])


def median(values: Sequence[float]) -> float:
    """Return the upper median. The harness does not average the two middle values either."""
    return sorted(values)[len(values) // 2]


def sample_stddev(values: Sequence[float]) -> float:
    """Return the standard deviation with Bessel's correction (n - 1) of at least two values."""
    middle = mean(values)
    return math.sqrt(left_sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def mean_stderr(values: Sequence[float]) -> float:
    """Return the standard error of the mean of at least two values."""
    return sample_stddev(values) / math.sqrt(len(values))


def perplexity(values: Sequence[float]) -> float:
    """Return the perplexity of log-likelihoods. It is infinite if it exceeds a float."""
    return _exp(-mean(values))


def weighted_perplexity(pairs: Sequence[Any]) -> float:
    """Return the perplexity of pairs [log-likelihood, weight]. The weight is a number of words or bytes."""
    return _exp(-_weighted_mean(pairs))


def bits_per_byte(pairs: Sequence[Any]) -> float:
    """Return the bits per byte of pairs [log-likelihood, number of bytes]."""
    return -_weighted_mean(pairs) / math.log(2)


def brier_score(pairs: Sequence[Any]) -> float:
    """Return the mean squared distance between the probabilities of the choices and the right choice.

    A pair is [index of the right choice, probabilities]. Documents may have different numbers of choices, and
    the index may be outside the choices; then no choice is right. The harness fails in both cases.
    """
    import numpy as np

    distances = []
    for gold, choice_probabilities in pairs:
        probabilities = np.asarray(choice_probabilities, dtype=np.float64)
        target = np.zeros(len(probabilities))
        if -len(probabilities) <= gold < len(probabilities):
            target[gold] = 1.0
        distances.append(float(np.sum((probabilities - target) ** 2)))
    return float(np.mean(np.asarray(distances)))


def acc_all(pairs: Sequence[Any]) -> float:
    """Return the share of questions whose answers are all right.

    A pair is [whether the model said yes, document with `idx` and `label`].
    """
    import numpy as np

    return float(np.mean(_questions_right(pairs, ("paragraph", "question"))))


def acc_all_stderr(pairs: Sequence[Any]) -> float | None:
    """Return the standard error of `acc_all` as the harness computes it.

    Here the harness identifies a question by its number alone, without the paragraph. So do we.
    """
    right = _questions_right(pairs, ("question",))
    return mean_stderr(right) if len(right) > 1 else None


def _questions_right(pairs: Sequence[Any], parts: tuple[str, ...]) -> list[int]:
    questions: dict[tuple[Any, ...], bool] = {}
    for said_yes, doc in pairs:
        question = tuple(doc["idx"][part] for part in parts)
        questions[question] = questions.get(question, True) and (doc["label"] == 1) == said_yes
    return [int(right) for right in questions.values()]


def _bypass(_: Sequence[Any]) -> int:
    # The value that the harness shows for answers that are collected but not scored.
    return 999


def _weighted_mean(pairs: Sequence[Any]) -> float:
    return left_sum(value for value, _ in pairs) / left_sum(weight for _, weight in pairs)


def _exp(value: float) -> float:
    try:
        return math.exp(value)
    except OverflowError:
        return math.inf


# All aggregations that a metric of a task may name.
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
# Aggregations that take one number per document. The others take pairs.
OF_NUMBERS = frozenset({"mean", "nanmean", "median", "perplexity"})


# Standard errors of aggregations.

# Default of `bootstrap_iters` in the harness.
BOOTSTRAP_DRAWS = 100_000
# The harness limits the draws for BLEU, chrF and TER, which are slow, to this number.
_MOST_CORPUS_DRAWS = 100
# The harness uses a new random generator for each thousand draws.
_CHUNK_DRAWS = 1000
# Number of values drawn at a time. They fit into the processor's cache, and memory is bounded.
_MOST_CELLS = 50_000


def stderr(aggregation: str, values: Sequence[Any], draws: int = BOOTSTRAP_DRAWS) -> float | None:
    """Return the standard error as the harness computes it: by formula, by a seeded bootstrap, or None.

    The harness prints "N/A" for None. `draws` is its `bootstrap_iters`; 0 switches all standard errors off.
    """
    if len(values) <= 1 or draws <= 0:
        return None
    if aggregation in _ANALYTIC:
        return _ANALYTIC[aggregation](values)
    if aggregation not in _RESAMPLED or draws == 1:
        return None
    data, of_rows = _RESAMPLED[aggregation](values)
    if aggregation in translation.NAMES:
        draws = min(draws, _MOST_CORPUS_DRAWS)
    return bootstrap_stderr(data, of_rows, draws)


def bootstrap_stderr(values: ArrayLike, of_rows: RowStatistic, draws: int = BOOTSTRAP_DRAWS) -> float:
    """Return the standard deviation of a statistic over bootstrap samples of the values."""
    import numpy as np

    data = np.asarray(values)
    statistics: list[float] = []
    for positions in bootstrap_positions(len(data), draws):
        statistics.extend(np.asarray(of_rows(data.take(positions))).tolist())
    return sample_stddev(statistics)


def bootstrap_positions(count: int, draws: int = BOOTSTRAP_DRAWS) -> Iterator[NDArray[np.int64]]:
    """Yield arrays of drawn positions. Each row is one draw.

    Draws i*1000 to i*1000+999 equal those of `random.Random(i).choices`, which the harness uses. Fewer than
    1000 draws are one chunk. Like the harness, this ignores draws beyond the last whole chunk.
    """
    import numpy as np

    chunk = min(_CHUNK_DRAWS, draws)
    rows = max(1, min(chunk, _MOST_CELLS // count))  # the random numbers do not depend on this
    for seed in range(draws // chunk):
        # numpy's Mersenne Twister in the state of Python's gives the same numbers, many times faster.
        state = random.Random(seed).getstate()[1]  # noqa: S311
        stream = np.random.RandomState()
        stream.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
        for start in range(0, chunk, rows):
            uniform = stream.random_sample((min(rows, chunk - start), count))
            uniform *= count
            yield uniform.astype(np.int64)


# Each of these functions returns the data to draw from, and the function that computes the statistic of rows of
# drawn data.


def _resampled_median(values: Sequence[float]) -> tuple[NDArray[np.int32], RowStatistic]:
    """Uses ranks instead of values, because numpy partitions small whole numbers twice as fast."""
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
    """Return the perplexity of every row. Uses Python's exp, since numpy's differs in the last bit."""
    import numpy as np

    if len(rows) == 1:
        sums = [left_sum(rows[0].tolist())]
    else:
        # Adds column by column, which is from left to right. Along a row, numpy adds pairwise and rounds differently.
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
