"""Measures how well a judge agrees with labels: accuracy, Cohen's kappa with its interval, AUC.

The label of a row is true or false (the answer is right), or one of the labels of `scoring/questions.py`. The verdict
of the judge has the same values. One value is the `positive` one: True, or the label of what a memory should do, such
as `covered`. The judge accepts a row if its verdict is the positive value. Rows without a valid verdict are counted as
invalid and are part of no other number.

Cohen's kappa is agreement beyond chance. With a base rate of 0.8, a judge that accepts everything agrees with 80 %
of the labels and has a kappa of 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from assay.core.judges import Agreement, Share, Votes
from assay.core.report import Interval
from assay.scoring.intervals import t_quantile, wilson

# Names of the methods by which the interval of kappa is computed.
CLUSTERED, SINGLE, WILSON = "clustered jackknife", "jackknife", "wilson"


Label = bool | str


class JudgedRow(NamedTuple):
    """A labelled row and the judge's verdict on it.

    `verdict` is None if it is invalid. `sure` is the judge's measure of how far the positive value holds, from 0 to 1.
    """

    label: Label
    verdict: Label | None
    sure: float | None = None
    category: str = ""
    cluster: str | None = None


def agreement(rows: Iterable[JudgedRow], positive: Label = True) -> Agreement:
    """Return all measures of these rows."""
    all_rows = list(rows)
    valid = [row for row in all_rows if row.verdict is not None]
    table = confusion_of(valid)
    interval, method, clusters = kappa_interval(valid)
    shares = [table.cell(label, label) / count for label, count in table.labelled.items()]
    right, accepted = table.labelled[positive], table.judged[positive]
    both = table.cell(positive, positive)
    return Agreement(
        n=table.n,
        invalid=len(all_rows) - len(valid),
        positives=right,
        base_rate=right / table.n if table.n else None,
        accuracy=table.agreed / table.n if table.n else None,
        balanced_accuracy=sum(shares) / len(shares) if len(shares) > 1 else None,
        kappa=table.kappa,
        interval=interval,
        interval_method=method,
        clusters=clusters,
        auc=auc(valid, positive),
        false_accepts=Share(accepted - both, table.n - right),
        false_rejects=Share(right - both, right),
    )


def by_category(rows: Iterable[JudgedRow], positive: Label = True) -> dict[str, Agreement]:
    """Return the measures of each category. Rows without a category are left out.

    Categories that are numbers come first, in numerical order.
    """
    categories: dict[str, list[JudgedRow]] = defaultdict(list)
    for row in rows:
        if row.category:
            categories[row.category].append(row)
    names = sorted(categories, key=lambda name: (0, int(name)) if name.isdecimal() else (1, name))
    return {name: agreement(categories[name], positive) for name in names}


def among_votes(votes: Iterable[Sequence[Label]]) -> Votes | None:
    """Return how often all votes on a row agree, over rows with at least two votes. None without such rows."""
    distinct_votes = [set(row) for row in votes if len(row) > 1]
    if not distinct_votes:
        return None
    return Votes(len(distinct_votes), sum(len(row) == 1 for row in distinct_votes))


class Confusion(NamedTuple):
    """Confusion matrix: the number of rows for each pair of label and verdict, in the order of the pairs.

    It is a tuple, so that equal matrices of clusters can be counted.
    """

    counts: tuple[tuple[tuple[Label, Label], int], ...] = ()

    @property
    def n(self) -> int:
        """Number of rows."""
        return sum(count for _, count in self.counts)

    @property
    def agreed(self) -> int:
        """Rows on which label and judge agree."""
        return sum(count for (label, verdict), count in self.counts if label == verdict)

    @property
    def labelled(self) -> Counter[Label]:
        """Rows with each label."""
        return _totals(self.counts, 0)

    @property
    def judged(self) -> Counter[Label]:
        """Rows with each verdict."""
        return _totals(self.counts, 1)

    def cell(self, label: Label, verdict: Label) -> int:
        """Return the number of rows with this label and this verdict."""
        return dict(self.counts).get((label, verdict), 0)

    @property
    def by_chance(self) -> int:
        """Agreement expected by chance, times n squared, so that it is a whole number."""
        judged = self.judged
        return sum(count * judged[label] for label, count in self.labelled.items())

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa. None if label and judge are the same in all rows: then chance explains everything."""
        return self.beyond_chance(self.n * self.agreed)

    def beyond_chance(self, agreed: float) -> float | None:
        """Return the kappa for another agreement, given times n squared, with the same agreement by chance."""
        possible = self.n**2 - self.by_chance
        return (agreed - self.by_chance) / possible if possible else None

    def without(self, other: Confusion) -> Confusion:
        """Return the counts without those of `other`."""
        removed = dict(other.counts)
        counts = ((pair, count - removed.get(pair, 0)) for pair, count in self.counts)
        return Confusion(tuple((pair, count) for pair, count in counts if count))


def confusion_of(rows: Iterable[JudgedRow]) -> Confusion:
    """Count rows that have a valid verdict."""
    counts = Counter((row.label, row.verdict) for row in rows if row.verdict is not None)
    return Confusion(tuple(sorted(counts.items())))


def _totals(counts: Iterable[tuple[tuple[Label, Label], int]], side: int) -> Counter[Label]:
    totals: Counter[Label] = Counter()
    for pair, count in counts:
        totals[pair[side]] += count
    return totals


def auc(rows: Iterable[JudgedRow], positive: Label = True) -> float | None:
    """Return how often a row with the positive label has a higher `sure` than another one. Ties count half.

    None if all labels are equal. For a judge without `sure`, an accepted row has 1 and a rejected one 0.
    """
    counts: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        sure = float(row.verdict == positive) if row.sure is None else row.sure
        counts[sure][row.label == positive] += 1
    wrong_below = right_above = 0.0
    for _, (wrong, right) in sorted(counts.items()):
        right_above += right * (wrong_below + wrong / 2)
        wrong_below += wrong
    pairs = wrong_below * sum(right for _, right in counts.values())
    return right_above / pairs if pairs else None


def kappa_interval(rows: Sequence[JudgedRow]) -> tuple[Interval | None, str, int]:
    """Return the 95 % interval of kappa, its method, and the number of clusters.

    A row without a cluster is a cluster of its own. The standard error is that of a jackknife over clusters,
    and Student's t gives the width. With one cluster there is no interval. If kappa is the same without any
    cluster, the jackknife interval has no width. Then Wilson's interval of the agreement is used, with each
    cluster as one case, and converted to kappa with the same agreement by chance.
    """
    members: dict[Hashable, list[JudgedRow]] = defaultdict(list)
    for number, row in enumerate(rows):
        members[number if row.cluster is None else row.cluster].append(row)
    # Equal clusters give equal kappas, so each is computed once and weighted by the number of equal clusters.
    clusters = Counter(confusion_of(cluster) for cluster in members.values())
    count = len(members)
    whole = confusion_of(rows)
    kappa = whole.kappa
    if kappa is None or count < 2:
        return None, "", count
    kappas = []
    for cluster, times in clusters.items():
        kappa_without = whole.without(cluster).kappa
        if kappa_without is None:
            return None, "", count
        kappas.append((kappa_without, times))
    mean = math.fsum(value * times for value, times in kappas) / count
    squares = math.fsum((value - mean) ** 2 * times for value, times in kappas)
    stderr = math.sqrt((count - 1) / count * squares)
    if stderr < 1e-12:  # 0 apart from rounding
        return _wilson_kappa_interval(whole, kappa, count), WILSON, count
    reach = t_quantile(count - 1) * stderr
    method = CLUSTERED if any(row.cluster is not None for row in rows) else SINGLE
    return Interval(max(-1.0, kappa - reach), min(1.0, kappa + reach)), method, count


def _wilson_kappa_interval(table: Confusion, kappa: float, clusters: int) -> Interval:
    agreement_interval = wilson(table.agreed / table.n * clusters, clusters)
    bounds = []
    if agreement_interval:
        bounds = [table.beyond_chance(share * table.n**2) for share in agreement_interval]
    values = [max(-1.0, min(1.0, value)) for value in (*bounds, kappa) if value is not None]
    return Interval(min(values), max(values))
