"""How many cases a comparison of two systems needs, and the smallest difference that so many cases show.

    design = Design(baseline=0.72)
    cases_needed(design, effect=0.03)            # paired: both systems answer the same cases
    smallest_effect(design, cases=500)
    power_of(design, effect=0.03, cases=500)

The formulas are those of the normal approximation. Paired, the variance of a difference is v1 + v2 - 2 r sqrt(v1 v2),
with the variances of both systems and the correlation r of their scores; the more the systems agree case by case, the
fewer cases are needed. Clusters of m cases multiply the cases by the design effect 1 + (m - 1) icc.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from assay.scoring.intervals import t_quantile

# A permutation test of fewer clusters cannot have a p below 0.05: five clusters have 32 combinations of signs.
LEAST_CLUSTERS = 6
# No plan asks for more cases.
_MOST_CASES = 10**12


class Design(NamedTuple):
    """A comparison to plan. `baseline` is the expected value of the system compared with.

    `variance` is that of one case's score; None means scores of 0 and 1, whose variance follows from their mean.
    `design_effect` multiplies the cases, `cluster_size` is the number of cases in a cluster.
    """

    baseline: float
    paired: bool = True
    correlation: float = 0.5
    power: float = 0.8
    alpha: float = 0.05
    variance: float | None = None
    design_effect: float = 1.0
    cluster_size: float = 1.0


def cases_needed(design: Design, effect: float) -> int:
    """Return the number of cases with which a true difference of this size is found with the wanted power.

    Unpaired, it is the number of cases of each of the two runs.
    """
    null, actual = _deviations(design, effect)
    groups = math.inf
    # The quantiles depend on the number of clusters, which depends on them. This settles within a few rounds.
    for _ in range(100):
        freedom = max(1.0, groups - 1)
        reject, reach = _quantile(freedom, 1 - design.alpha / 2), _quantile(freedom, design.power)
        exact = ((reject * null + reach * actual) / abs(effect)) ** 2 * design.design_effect
        if exact > _MOST_CASES or design.cluster_size <= 1:
            break
        before, groups = groups, max(LEAST_CLUSTERS, math.ceil(exact / design.cluster_size))
        if before == groups:
            break
    least = LEAST_CLUSTERS * design.cluster_size if design.cluster_size > 1 else 2
    return max(math.ceil(least), math.ceil(min(exact, _MOST_CASES) - 1e-9))


def power_of(design: Design, effect: float, cases: int) -> float:
    """Return the probability that this many cases show a true difference of this size."""
    from statistics import NormalDist

    null, actual = _deviations(design, effect)
    root = math.sqrt(cases / design.design_effect)
    reject = _quantile(max(1.0, cases / design.cluster_size - 1), 1 - design.alpha / 2)
    if design.cluster_size <= 1:
        reject = NormalDist().inv_cdf(1 - design.alpha / 2)
    if not actual:
        return float(abs(effect) * root > reject * null)
    return NormalDist().cdf((abs(effect) * root - reject * null) / actual)


def smallest_effect(design: Design, cases: int) -> float | None:
    """Return the smallest difference that this many cases show with the wanted power, or None if there is none.

    A rise and a drop of this size are both found; a direction that would leave the range of 0 to 1 does not count.
    """
    sizes = []
    for sign, room in ((1, 1 - design.baseline), (-1, design.baseline)):
        most = room if design.variance is None else math.sqrt(design.variance) * 1e3
        if most <= 0 or cases_needed(design, sign * most) > cases:
            continue
        low, high = 0.0, most
        for _ in range(60):
            middle = (low + high) / 2
            if middle > 0 and cases_needed(design, sign * middle) <= cases:
                high = middle
            else:
                low = middle
        sizes.append(high)
    return max(sizes, default=None)


def _deviations(design: Design, effect: float) -> tuple[float, float]:
    """Return the standard deviations of a case's difference: if there is no effect, and if there is this one."""
    if design.variance is not None:
        first = second = design.variance
        pooled = 2 * design.variance
    else:
        other = design.baseline + effect
        first, second = design.baseline * (1 - design.baseline), other * (1 - other)
        middle = design.baseline + effect / 2
        pooled = 2 * middle * (1 - middle)
    if not design.paired:
        return math.sqrt(pooled), math.sqrt(first + second)
    variance = first + second - 2 * design.correlation * math.sqrt(first * second)
    if design.variance is None:
        # A difference of this size needs so many cases that differ, however high the correlation.
        variance = max(variance, abs(effect) - effect * effect)
    # The test computes the variance as if the mean difference were 0.
    return math.sqrt(variance + effect * effect), math.sqrt(variance)


def _quantile(freedom: float, share: float) -> float:
    from statistics import NormalDist

    if share < 0.5:
        return -_quantile(freedom, 1 - share)
    return NormalDist().inv_cdf(share) if math.isinf(freedom) else t_quantile(freedom, share)
