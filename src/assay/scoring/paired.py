"""Compares two systems on the same cases: the difference, its interval, and a test of no difference.

    result = paired(base, new, clusters)
    result.difference, result.interval, result.p

| pairs | interval | p |
|---|---|---|
| independent, each value 0 or 1 | Tango | McNemar, exact |
| clustered, each value 0 or 1 | Tango with the counts divided by the design effect | sign flips of cluster sums |
| clustered shares, all pairs equal | the same with the design effect of the values | 1 |
| all others | Student's t, with the clustered variance | sign flips of cluster sums |

Pairs of one cluster, such as questions about one conversation, are not independent: `intervals.py`. The test asks how
often a difference of this size arises if base and new are exchanged at random, for whole clusters. It is exact for few
clusters, so with 5 clusters p cannot be below 0.0625, whatever the interval says.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.report import Interval, PairedMetric
from assay.scoring.intervals import (
    ROUNDING,
    Bounds,
    ClusterSample,
    cluster_sample,
    few_clusters,
    t_interval,
    t_quantile,
    tango,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A row with a lower p, adjusted for the rows of its table, is called better or worse. It matches 95 % intervals.
SIGNIFICANT = 0.05
# The power with which a comparison shows its smallest detectable difference.
POWER = 0.8
# Up to this many clusters, all combinations of signs are tried. There are half a million.
_EXACT_CLUSTERS = 20
# Random combinations of signs for more clusters. The standard error of a p of 0.05 is 0.002.
_DRAWS = 9_999
# The largest clusters get a sign each. The sum of all smaller ones is very nearly normal, and drawn as one number:
# a million pairs take as long as two hundred.
_SIGNED_CLUSTERS = 200


class Paired(NamedTuple):
    """The result of a comparison. `rose` and `fell` count cases whose value is higher or lower in `new`.

    `p` is None if the values are so large that their sum is infinite. `detectable` is the smallest difference that a
    comparison with this variance shows with 80 % power. `correlation` is that of base and new; None if one is
    constant. `few_clusters` says why the interval rests on too few clusters, or is "".
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
    p_method: str
    detectable: float | None
    correlation: float | None
    few_clusters: str


def paired(base: NDArray[Any], new: NDArray[Any], clusters: NDArray[Any], *, has_own_scale: bool = False) -> Paired:
    """Compare paired values, at least one pair. `clusters` has the number of each pair's cluster.

    `has_own_scale` says that a value is neither right or wrong nor a share, also if it happens to be 0 or 1. The result
    has no interval and no p if the values are so large that their sum is infinite.
    """
    import numpy as np

    with np.errstate(over="ignore", invalid="ignore"):
        differences = new - base
        names, members = np.unique(clusters, return_inverse=True)
        members = members.ravel()
        groups = members if len(names) < len(base) else None
        sample = cluster_sample(differences, groups)
        rose, fell = int((differences > 0).sum()), int((differences < 0).sum())
        sides = (base, new)
        right_wrong = not has_own_scale and all(bool(((side == 0) | (side == 1)).all()) for side in sides)
        is_share = not has_own_scale and all(bool(((side >= 0) & (side <= 1)).all()) for side in sides)
        base_mean, new_mean = float(base.mean()), float(new.mean())
        correlation = _correlation(base, new)
        p: float | None = None
        if right_wrong and not sample.is_clustered:
            p, p_method = mcnemar(rose, fell), "mcnemar"
        elif math.isfinite(sample.mean):
            p, p_method = sign_flip(np.bincount(members, weights=differences)), "permutation"
        else:
            p_method = ""
    # Graded values without any difference have no variance either, as 0 and 1 without a flip.
    counts_flips = right_wrong or (is_share and not rose and not fell)
    # The variance of independent flips follows from their number. Only an estimated variance needs Student's t.
    freedom = math.inf if counts_flips and not sample.is_clustered else sample.freedom
    # Pairs that are all equal do not tell how flips would cluster. The best guess is: as the values do.
    spread = sample if rose or fell else cluster_sample(base, groups)
    effect = spread.variance / spread.naive if spread.naive > ROUNDING else 1.0
    interval, method = _difference_bounds(sample, rose, fell, freedom, effect if counts_flips else None)
    detectable = None
    if interval is not None:
        quantiles = [t_quantile(freedom, share) for share in (0.975, POWER)]
        detectable = (interval.high - interval.low) / 2 * sum(quantiles) / quantiles[0]
        # The permutation test of few clusters shows no difference, however large, and no share changes by more than 1.
        is_out_of_reach = sample.is_clustered and 2.0 ** (1 - sample.clusters) >= SIGNIFICANT
        if is_out_of_reach or (is_share and detectable > 1):
            detectable = None
        if is_share:
            # Student's t knows no bounds. With few clusters it reaches beyond differences that can exist.
            interval = Interval(max(-1.0, interval.low), min(1.0, interval.high))
    return Paired(
        n=sample.n,
        clusters=sample.clusters,
        base=base_mean,
        new=new_mean,
        difference=sample.mean,
        stderr=sample.stderr,
        interval=interval,
        method=method,
        rose=rose,
        fell=fell,
        ties=sample.n - rose - fell,
        right_wrong=right_wrong,
        p=p,
        p_method=p_method,
        detectable=detectable,
        correlation=correlation,
        few_clusters=few_clusters(sample, is_share=is_share, share=(base_mean + new_mean) / 2),
    )


def _difference_bounds(sample: ClusterSample, rose: int, fell: int, freedom: float, effect: float | None) -> Bounds:
    """Return the interval of a mean difference. There is none with one cluster.

    `effect` is the design effect of flips: how many of them say as much as one independent flip. None for values that
    are not counted in flips.
    """
    kind = "clustered" if sample.is_clustered else "paired"
    if sample.clusters < 2:
        return Bounds(None, "")
    if effect is None:
        interval = t_interval(sample.mean, sample.variance, freedom).interval
        return Bounds(interval, f"{kind} t" if interval is not None else "")
    interval = tango(rose / effect, fell / effect, sample.n / effect, t_quantile(freedom))
    return Bounds(interval, "clustered tango" if sample.is_clustered else "tango")


def _correlation(base: NDArray[Any], new: NDArray[Any]) -> float | None:
    """Return Pearson's correlation. None if one side is constant or too large to multiply."""
    base, new = base - base.mean(), new - new.mean()
    scale = float((base * base).sum()) * float((new * new).sum())
    if not 0 < scale < math.inf:
        return None
    return max(-1.0, min(1.0, float((base * new).sum()) / math.sqrt(scale)))


def fill_metric(row: PairedMetric, result: Paired) -> None:
    """Write the numbers of a result into a row of a comparison table, and its verdict.

    The verdict is that of a row on its own. `adjust_metrics` decides again for several rows.
    """
    row.n, row.clusters, row.base, row.new = result.n, result.clusters, result.base, result.new
    row.difference, row.stderr = result.difference, result.stderr
    row.interval, row.interval_method = result.interval, result.method
    row.ties, row.right_wrong, row.p, row.p_method = (
        result.ties,
        result.right_wrong,
        result.p,
        result.p_method,
    )
    row.detectable, row.correlation = result.detectable, result.correlation
    row.few_clusters = result.few_clusters
    if row.higher_is_better:
        row.wins, row.losses = result.rose, result.fell
    else:
        row.wins, row.losses = result.fell, result.rose
    adjust_metrics([row])


def adjust_metrics(rows: Iterable[PairedMetric], apart: Collection[str] = ()) -> None:
    """Adjust the p of rows that are read together by Holm's method, and give them their verdicts.

    In a table of fourteen rows without a true difference, some p is below 0.05 in every second comparison. With the
    adjusted p it is one in twenty. Rows over all sets are adjusted together, and so are the rows of single sets. The
    metrics in `apart` are further groups of their own. The verdict is "better" or "worse" if the adjusted p is below
    0.05, "equal" if no pair differs, else "unclear".
    """
    families: dict[tuple[bool, bool], list[PairedMetric]] = {}
    for row in rows:
        row.verdict = "equal" if row.n and row.ties == row.n else "unclear"
        if row.p is not None:
            families.setdefault((bool(row.set), row.metric in apart), []).append(row)
    for family in families.values():
        family.sort(key=lambda row: row.p or 0.0)
        largest = 0.0
        for position, row in enumerate(family):
            assert row.p is not None
            # The smallest p counts for all rows, the next for all but one; a smaller p never gets a larger result.
            largest = max(largest, min(1.0, row.p * (len(family) - position)))
            row.p_adjusted = largest
            if largest < SIGNIFICANT and row.difference:
                row.verdict = "better" if (row.difference > 0) == row.higher_is_better else "worse"


# Tests of no difference


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


def sign_flip(sums: NDArray[Any]) -> float:
    """Return the two-sided p of a permutation test: how often random signs give a total at least as far from 0.

    `sums` are the differences of independent clusters, added up in each. Clusters without a difference do not matter.
    Exact up to 20 clusters; then 9,999 draws with a fixed seed, so the same data always has the same p.
    """
    import numpy as np

    sums = sums[sums != 0]
    if not len(sums):
        return 1.0
    sums = sums / np.abs(sums).max()
    observed = abs(float(sums.sum()))
    sizes = np.sort(np.abs(sums))[::-1]
    # Equal totals can differ in their last bits, depending on the order of addition.
    reached = observed - 1e-9 * float(sizes.sum())
    if len(sizes) <= _EXACT_CLUSTERS:
        totals = sizes[:1]  # all signs turned give the same distance from 0, so the first sign is fixed
        for size in sizes[1:]:
            totals = np.concatenate([totals + size, totals - size])
        return float((np.abs(totals) >= reached).mean())
    stream = np.random.default_rng(20)
    largest, rest = sizes[:_SIGNED_CLUSTERS], sizes[_SIGNED_CLUSTERS:]
    bits = np.unpackbits(stream.integers(0, 256, size=(_DRAWS, -(-len(largest) // 8)), dtype=np.uint8), axis=1)[
        :, : len(largest)
    ]
    totals = bits @ (2 * largest) - largest.sum()
    if len(rest):
        totals = totals + stream.normal(0.0, math.sqrt(float((rest * rest).sum())), size=_DRAWS)
    drawn = (1 + int((np.abs(totals) >= reached).sum())) / (1 + _DRAWS)
    # Hoeffding's inequality bounds p from above. It counts where the draws end: they cannot show a p below 0.0001.
    return min(drawn, 2 * math.exp(-observed * observed / (2 * float((sizes * sizes).sum()))))
