"""95 % confidence intervals: of a mean, of a proportion, of a paired difference of proportions.

    sample = cluster_sample(values, clusters)      # the mean, its variance and degrees of freedom
    share_interval(sample.mean, sample.variance, sample.freedom, cases=sample.clusters)

Values of one cluster, such as questions about one conversation, are not independent. So the variance of a mean comes
from the sums of the clusters (CR2, the sandwich estimator with the correction of Bell and McCaffrey), and Student's t
has their degrees of freedom. A clustered variance is never smaller than that of independent values.

| values | interval |
|---|---|
| independent, each 0 or 1 | Wilson's score interval |
| from 0 to 1, graded or clustered | Student's t on the log-odds scale |
| any other numbers | Student's t |
| differences of 0 and 1 | Tango's score interval |

`docs/statistics.md` says why; `make simulate` measures how often each of them contains the true value.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.report import Interval

if TYPE_CHECKING:
    from numpy.typing import NDArray

# The 97.5 % quantile of the normal distribution.
Z = 1.959963984540054
# Fewer clusters say too little about how clusters differ.
MIN_CLUSTERS = 5
# A variance below this is 0 apart from rounding.
ROUNDING = 1e-24


class Bounds(NamedTuple):
    """An interval and the name of its method. The method is empty if there is no interval."""

    interval: Interval | None
    method: str


class ClusterSample(NamedTuple):
    """The mean of clustered values, and what its interval needs.

    `variance` and `naive` are variances of the mean: with clusters, and as if all values were independent. `variance`
    is the larger one. It is infinite if there is one cluster, because one cluster cannot tell how clusters differ.
    """

    mean: float
    n: int
    clusters: int
    variance: float
    naive: float
    freedom: float

    @property
    def stderr(self) -> float | None:
        """The standard error of the mean. None if there is one cluster, or if the values are too large to add."""
        return math.sqrt(self.variance) if math.isfinite(self.variance) else None

    @property
    def is_clustered(self) -> bool:
        """True if some cluster has several values."""
        return self.clusters < self.n


def cluster_sample(values: NDArray[Any], clusters: NDArray[Any] | None = None) -> ClusterSample:
    """Summarize at least one value. `clusters` has the cluster of each value; None means independent values."""
    import numpy as np

    count = len(values)
    with np.errstate(over="ignore", invalid="ignore"):
        mean = float(values.mean())
        residuals = values - mean
        spread = float((residuals * residuals).sum())
        naive = spread / (count - 1) / count if count > 1 else math.inf
        groups = count
        if clusters is not None:
            names, members = np.unique(clusters, return_inverse=True)
            groups = len(names)
        if groups < 2 or not math.isfinite(spread):
            return ClusterSample(mean, count, groups, math.inf, naive, max(1.0, groups - 1.0))
        if groups == count:
            return ClusterSample(mean, count, groups, naive, naive, count - 1.0)
        sums = np.bincount(members.ravel(), weights=residuals)
        sizes = np.bincount(members.ravel()).astype(np.float64)
        # CR2: a large cluster pulls the mean towards itself, which makes its own residuals too small.
        scale = 1 / (1 - sizes / count)
        clustered = float((sums * sums * scale).sum()) / count**2
        # Satterthwaite's degrees of freedom of this variance: G - 1 for G equal clusters, fewer for unequal ones.
        weights = scale * sizes * sizes
        cross = float(weights.sum()) ** 2 - float((weights * weights).sum())
        freedom = count**2 / (float((sizes * sizes).sum()) + cross / count**2)
    return ClusterSample(mean, count, groups, max(clustered, naive), naive, max(1.0, freedom))


def mean_bounds(sample: ClusterSample, *, right_wrong: bool, is_share: bool) -> Bounds:
    """Return the interval of a sample's mean.

    `right_wrong` tells that all values are 0 or 1, `is_share` that they lie between 0 and 1. There is no interval
    with one cluster, and none if other values than shares are all equal: nothing tells how far others may be off.
    """
    if not math.isfinite(sample.variance):
        return Bounds(None, "")
    if right_wrong and not sample.is_clustered:
        return Bounds(wilson(sample.mean * sample.n, sample.n), "wilson")
    if is_share:
        bounds = share_interval(sample.mean, sample.variance, sample.freedom, cases=sample.clusters)
    else:
        bounds = t_interval(sample.mean, sample.variance, sample.freedom)
    if sample.is_clustered and bounds.method not in ("", "wilson"):
        return Bounds(bounds.interval, f"clustered {bounds.method}")
    return bounds


def few_clusters(sample: ClusterSample, *, is_share: bool, share: float | None = None) -> str:
    """Return why an interval rests on too few clusters, or "". Independent values have no such problem.

    Below 5 clusters the interval is not reliable. A share also needs one cluster's worth of each outcome: with 10
    clusters, a value between 0.1 and 0.9. `share` replaces the mean, for differences of shares.
    """
    if not sample.is_clustered:
        return ""
    groups = sample.clusters
    if groups < MIN_CLUSTERS:
        return f"too few clusters: {groups}. An interval is reliable from {MIN_CLUSTERS} clusters on"
    value = sample.mean if share is None else share
    if is_share and groups * min(value, 1 - value) < 1 - 1e-9:
        return (
            f"too few clusters: with {groups}, an interval is reliable for values between {1 / groups:.2g} and "
            f"{1 - 1 / groups:.2g}"
        )
    return ""


# Intervals


def wilson(successes: float, total: int) -> Interval | None:
    """Return Wilson's score interval of a proportion, or None without cases.

    Unlike mean ± 2 standard errors it is sound for few cases and for proportions near 0 and 1.
    """
    if not total:
        return None
    share = successes / total
    spread = Z * math.sqrt(share * (1 - share) / total + Z * Z / (4 * total * total))
    center = share + Z * Z / (2 * total)
    scale = 1 + Z * Z / total
    return Interval(max(0.0, (center - spread) / scale), min(1.0, (center + spread) / scale))


def share_interval(mean: float, variance: float, freedom: float, cases: int) -> Bounds:
    """Return the interval of a mean of values from 0 to 1: Student's t on the log-odds scale.

    It lies between 0 and 1 and is longer towards 0.5. If all values are equal, the variance is 0 and this interval
    would have no width; then it is Wilson's interval of so many `cases`.
    """
    if variance < ROUNDING or not 0 < mean < 1:
        return Bounds(wilson(min(1.0, max(0.0, mean)) * cases, cases), "wilson")
    odds = math.log(mean / (1 - mean))
    reach = t_quantile(freedom) * math.sqrt(variance) / (mean * (1 - mean))
    low, high = ((1 + math.tanh(bound / 2)) / 2 for bound in (odds - reach, odds + reach))
    return Bounds(Interval(low, high), "logit t")


def t_interval(mean: float, variance: float, freedom: float) -> Bounds:
    """Return mean ± Student's t standard errors. No interval if the variance is 0 or not finite."""
    # Relative to the mean, because the values can have any unit.
    if not math.isfinite(variance) or variance <= ROUNDING * mean * mean:
        return Bounds(None, "")
    reach = t_quantile(freedom) * math.sqrt(variance)
    return Bounds(Interval(mean - reach, mean + reach), "t")


def statistic_interval(value: float, error: float | None, count: int, *, is_share: bool) -> Bounds:
    """Return the interval of a number that comes with its standard error, such as a BLEU or a group of tasks.

    The interval of a share of `count` cases has a width even if the error is 0. For other numbers with an error of 0
    there is no interval.
    """
    if error is None or not math.isfinite(error) or not math.isfinite(value):
        return Bounds(None, "")
    if is_share and count > 1 and 0 <= value <= 1:
        return share_interval(value, error * error, count - 1.0, cases=count)
    if error * error <= ROUNDING * value * value:
        return Bounds(None, "")
    return Bounds(Interval(value - Z * error, value + Z * error), "normal")


def tango(rose: float, fell: float, count: float, quantile: float = Z) -> Interval:
    """Return Tango's score interval of a difference of paired proportions.

    `rose` and `fell` count the pairs of which only the new, or only the base value is 1. For clustered pairs the
    counts are divided by the design effect. The interval contains every difference that a score test does not reject;
    it has a width even if no pair differs.
    """
    middle = (rose - fell) / count

    def distance(difference: float) -> float:
        """Return the score statistic of a true difference. It falls as the difference rises."""
        # The probability of a fall, most likely among those with this difference.
        linear = -rose - fell + (2 * count - rose + fell) * difference
        root = math.sqrt(max(0.0, linear * linear + 8 * count * fell * difference * (1 - difference)))
        probability = (root - linear) / (4 * count)
        variance = count * (2 * probability + difference * (1 - difference))
        gap = rose - fell - count * difference
        if variance <= 0:
            return math.copysign(math.inf, gap) if gap else 0.0
        return gap / math.sqrt(variance)

    return Interval(
        _bisect(lambda difference: distance(difference) <= quantile, -1.0, middle),
        _bisect(lambda difference: distance(difference) < -quantile, middle, 1.0),
    )


def _bisect(is_above: Callable[[float], bool], low: float, high: float) -> float:
    """Return the place between `low` and `high` from which on `is_above` holds."""
    for _ in range(60):
        middle = (low + high) / 2
        if is_above(middle):
            high = middle
        else:
            low = middle
    return high


# Student's t


@lru_cache(maxsize=4096)
def t_quantile(freedom: float, share: float = 0.975) -> float:
    """Return the quantile of Student's t, for a share of at least 0.5. `freedom` need not be a whole number.

    assay computes it itself because it does not depend on scipy, which the tests compare it with.
    """
    from statistics import NormalDist

    z = NormalDist().inv_cdf(share)
    if freedom >= 50:
        # Expansion in 1/freedom. Its relative error is below 1e-7 here.
        terms = (
            (z**3 + z) / 4,
            (5 * z**5 + 16 * z**3 + 3 * z) / 96,
            (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384,
            (79 * z**9 + 776 * z**7 + 1482 * z**5 - 1920 * z**3 - 945 * z) / 92160,
        )
        return z + math.fsum(term / freedom**power for power, term in enumerate(terms, 1))
    # Newton's method from the left. The tail is convex, so no step goes too far.
    factor = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    quantile = z
    for _ in range(100):
        density = factor * (1 + quantile * quantile / freedom) ** (-(freedom + 1) / 2)
        step = (_t_tail(quantile, freedom) - (1 - share)) / density
        quantile += step
        if abs(step) <= 1e-12 * quantile:
            break
    return quantile


def _t_tail(quantile: float, freedom: float) -> float:
    """Return the probability that Student's t exceeds a value of at least 0."""
    return _incomplete_beta(freedom / 2, 0.5, freedom / (freedom + quantile * quantile)) / 2


def _incomplete_beta(a: float, b: float, x: float) -> float:
    """Return the regularized incomplete beta function, by Lentz's continued fraction."""
    if x >= 1:
        return 1.0
    if x > (a + 1) / (a + b + 2):  # the fraction converges fast on the other side only
        return 1 - _incomplete_beta(b, a, 1 - x)
    front = math.exp(math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x))
    upper, lower = 1.0, 1 / (1 - (a + b) * x / (a + 1))
    fraction = lower
    for m in range(1, 500):
        for numerator in (
            m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m)),
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
        ):
            lower = 1 / (1 + numerator * lower)
            upper = 1 + numerator / upper
            fraction *= upper * lower
        if abs(upper * lower - 1) < 1e-15:
            break
    return front * fraction / a
