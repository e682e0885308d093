"""Numbers about numbers: aggregations, standard errors, intervals.

Sums go from left to right in plain floats, so that results are the same on every Python (`sum` compensates
since 3.12), and the seeded bootstrap gives bit for bit what lm-evaluation-harness prints.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

BOOTSTRAP_DRAWS = 100_000
_CHUNK = 1000
_MOST_CELLS = 2_000_000


class Interval(NamedTuple):
    """A 95 % confidence interval."""

    low: float
    high: float


def left_sum(values: Iterable[float]) -> float:
    """The plain sum, first to last."""
    total = 0.0
    for value in values:
        total += value
    return total


def mean(values: Sequence[float]) -> float:
    """The arithmetic mean of at least one value."""
    return left_sum(values) / len(values)


def median(values: Sequence[float]) -> float:
    """The upper median: the harness takes the middle of the sorted values without averaging two."""
    return sorted(values)[len(values) // 2]


def sample_stddev(values: Sequence[float]) -> float:
    """With Bessel's correction; needs two values."""
    middle = mean(values)
    return math.sqrt(left_sum((value - middle) ** 2 for value in values) / (len(values) - 1))


def label_f1(pairs: Sequence[Any]) -> float:
    """F1 of label 1 where labels are 0 and 1; the mean F1 of all labels otherwise."""
    labels = sorted({str(label) for pair in pairs for label in pair})
    if set(labels) <= {"0", "1"}:
        labels = ["1"]
    return mean([_f1_of(label, pairs) for label in labels])


def _f1_of(label: str, pairs: Sequence[Any]) -> float:
    hits = sum(1 for gold, given in pairs if str(gold) == label == str(given))
    wanted = sum(1 for gold, _ in pairs if str(gold) == label)
    found = sum(1 for _, given in pairs if str(given) == label)
    return 2.0 * hits / (wanted + found) if wanted + found else 0.0


AGGREGATIONS: dict[str, Callable[[Any], float]] = {"mean": mean, "median": median, "f1": label_f1}


def stderr(aggregation: str, values: Sequence[Any]) -> float | None:
    """As the harness computes it: analytic for the mean, seeded bootstrap for the median, else none."""
    if len(values) <= 1:
        return None
    if aggregation == "mean":
        return sample_stddev(values) / math.sqrt(len(values))
    if aggregation == "median":
        return bootstrap_stderr(values, _row_medians)
    return None


def bootstrap_stderr(
    values: Sequence[float], of_rows: Callable[[NDArray[np.float64]], NDArray[np.float64]]
) -> float:
    """Standard deviation over 100,000 draws; draws i*1000 to i*1000+999 come from `random.Random(i)`."""
    import numpy as np

    data = np.asarray(values, dtype=np.float64)
    drawn: list[float] = []
    rows = max(1, min(_CHUNK, _MOST_CELLS // len(data)))  # at a time: one stream, however it is cut
    for seed in range(BOOTSTRAP_DRAWS // _CHUNK):
        stream = _mersenne(seed)
        for start in range(0, _CHUNK, rows):
            uniform = stream.random_sample((min(rows, _CHUNK - start), len(data)))
            drawn.extend(of_rows(data[(uniform * len(data)).astype(np.int64)]).tolist())
    return sample_stddev(drawn)


def _mersenne(seed: int) -> np.random.RandomState:
    """Numpy's generator in the state of Python's own, which the harness draws from."""
    import numpy as np

    state = random.Random(seed).getstate()[1]  # noqa: S311
    generator = np.random.RandomState()
    generator.set_state(("MT19937", np.array(state[:-1], dtype=np.uint32), state[-1], 0, 0.0))
    return generator


def _row_medians(rows: NDArray[np.float64]) -> NDArray[np.float64]:
    import numpy as np

    middle = rows.shape[1] // 2
    return np.partition(rows, middle, axis=1)[:, middle]


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


def normal_interval(value: float, error: float) -> Interval:
    """Mean ± 1.96 s.e., for values that are not proportions."""
    return Interval(value - 1.959963984540054 * error, value + 1.959963984540054 * error)
