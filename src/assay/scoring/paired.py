"""Compares two systems on the same cases: the difference with its interval, and McNemar's exact test.

Pairs of one cluster, such as questions about one conversation, are not independent. So the variance of the mean
difference is computed from the sums of the clusters (sandwich estimator with the factor G / (G - 1) for G
clusters), and the interval uses Student's t with G - 1 degrees of freedom. With one pair per cluster this is the
usual paired t interval.

If all values are 0 or 1 and every cluster has one pair, the interval is that of Bonett and Price. It is sound for
few cases, and also if no case differs; the t interval has no width then.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.report import Interval, PairedRow

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A difference with a lower p of McNemar's test is called better or worse. It corresponds to the 95 % intervals.
SIGNIFICANT = 0.05
# The 97.5 % quantile of the normal distribution.
_Z = 1.959963984540054
# The 97.5 % quantiles of Student's t for 1 to 20 degrees of freedom. Tabulated, because assay does not depend on
# scipy. For more degrees of freedom the expansion in 1/n below has an error of at most 2e-7.
_T = (
    *(12.7062047362, 4.30265272975, 3.18244630528, 2.7764451052, 2.57058183564),
    *(2.44691185114, 2.36462425159, 2.3060041352, 2.2621571628, 2.22813885199),
    *(2.20098516009, 2.17881282967, 2.16036865646, 2.14478668792, 2.13144954556),
    *(2.11990529922, 2.10981557783, 2.10092204024, 2.09302405441, 2.08596344727),
)
_EXPANSION = (2.372271230298562, 2.8224986157396112, 2.555849679507722, 1.5895340533938225)


class Paired(NamedTuple):
    """The result of a comparison. `rose` and `fell` count cases whose value is higher or lower in `new`.

    `p` is that of McNemar's test. It is None unless all values are 0 or 1 and every cluster has one pair.
    """

    n: int
    clusters: int
    base: float
    new: float
    difference: float
    stderr: float | None
    interval: Interval | None
    method: str
    rose: int
    fell: int
    ties: int
    right_wrong: bool
    p: float | None


def paired(base: NDArray[Any], new: NDArray[Any], clusters: NDArray[Any]) -> Paired:
    """Compare paired values, at least one pair. `clusters` has the number of each pair's cluster.

    The result has no interval if the values are so large that their sum is infinite.
    """
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        differences = new - base
        mean = float(differences.mean())
        _, members = np.unique(clusters, return_inverse=True)
        cluster_sums = np.bincount(members.ravel(), weights=differences - mean)
        count, groups = len(base), len(cluster_sums)
        error = None
        if groups > 1:  # one cluster says nothing about how clusters differ
            error = math.sqrt(groups / (groups - 1) * float((cluster_sums * cluster_sums).sum())) / count
        rose, fell = int((differences > 0).sum()), int((differences < 0).sum())
        is_single = groups == count
        right_wrong = bool(np.isin(base, (0.0, 1.0)).all() and np.isin(new, (0.0, 1.0)).all())
        interval: Interval | None = None
        if right_wrong and is_single:
            interval = bonett_price(rose, fell, count)
            method = "bonett-price"
        else:
            method = "paired t" if is_single else "clustered t"
            if error is not None and math.isfinite(error):
                reach = t_quantile(groups - 1) * error
                interval = Interval(mean - reach, mean + reach)
        return Paired(
            n=count,
            clusters=groups,
            base=float(base.mean()),
            new=float(new.mean()),
            difference=mean,
            stderr=error,
            interval=interval,
            method=method,
            rose=rose,
            fell=fell,
            ties=count - rose - fell,
            right_wrong=right_wrong,
            p=mcnemar(rose, fell) if right_wrong and is_single else None,
        )


def fill_row(row: PairedRow, result: Paired) -> None:
    """Write the numbers of a result into a row of a comparison table, and its verdict.

    The verdict is "better" or "worse" if McNemar's p is below 0.05, or, without a p, if the interval excludes 0.
    """
    row.n, row.clusters, row.base, row.new = result.n, result.clusters, result.base, result.new
    row.difference, row.stderr = result.difference, result.stderr
    row.interval, row.interval_method = result.interval, result.method
    row.ties, row.right_wrong, row.p = result.ties, result.right_wrong, result.p
    if row.higher_is_better:
        row.wins, row.losses = result.rose, result.fell
    else:
        row.wins, row.losses = result.fell, result.rose
    row.verdict = "unclear"
    if row.p is not None:
        if row.p < SIGNIFICANT:
            row.verdict = "better" if row.wins > row.losses else "worse"
    elif row.interval is not None and not row.interval[0] <= 0 <= row.interval[1]:
        rises = row.interval[0] > 0
        row.verdict = "better" if rises == row.higher_is_better else "worse"


def t_quantile(freedom: int) -> float:
    """Return the 97.5 % quantile of Student's t."""
    if freedom <= len(_T):
        return _T[freedom - 1]
    return _Z + math.fsum(factor / freedom**power for power, factor in enumerate(_EXPANSION, 1))


def bonett_price(rose: int, fell: int, count: int) -> Interval:
    """Return the interval of a difference of paired proportions, by Bonett and Price.

    It is a Wald interval after adding one pair that rose and one that fell.
    """
    total = count + 2
    up, down = (rose + 1) / total, (fell + 1) / total
    reach = _Z * math.sqrt((up + down - (up - down) ** 2) / total)
    return Interval(max(-1.0, up - down - reach), min(1.0, up - down + reach))


def mcnemar(rose: int, fell: int) -> float:
    """Return the two-sided exact p of McNemar's test.

    It is twice the binomial tail (probability 1/2) of the rarer direction among the pairs that differ, at most 1.
    """
    flips, rarer = rose + fell, min(rose, fell)
    if 2 * rarer >= flips - 1:
        return 1.0
    # Logarithms, because binomial coefficients of large numbers exceed a float.
    log_term = math.lgamma(flips + 1) - math.lgamma(rarer + 1) - math.lgamma(flips - rarer + 1)
    term = total = math.exp(log_term - flips * math.log(2))
    for k in range(rarer, 0, -1):
        term *= k / (flips - k + 1)
        total += term
        if term < total * 1e-17:  # further terms do not change the sum
            break
    return min(1.0, 2 * total)
