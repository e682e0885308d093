"""How well a judge agrees with labels: counts first, then the numbers that follow from them.

A label is true where the answer is right, and a judge accepts or rejects the answer. A row without a verdict
counts as invalid and is in no other number. Cohen's kappa is agreement beyond chance: with a base rate of 0.8,
a judge that accepts everything is right in 80 % of the rows and has a kappa of 0.
"""

from __future__ import annotations

import math
from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Sequence
from typing import NamedTuple

from assay.core.judges import Agreement, Share, Votes
from assay.scoring.paired import t_quantile
from assay.scoring.statistics import Interval, wilson

CLUSTERED, SINGLE, WILSON = "clustered jackknife", "jackknife", "wilson"


class JudgedRow(NamedTuple):
    """A labelled row and the judge's verdict on it.

    `accepted` is None where the verdict is invalid. `sure` says how good the answer is, from 0 to 1.
    """

    label: bool
    accepted: bool | None
    sure: float | None = None
    category: str = ""
    cluster: str | None = None


def agreement(rows: Iterable[JudgedRow]) -> Agreement:
    """Every measure of these rows."""
    every_row = list(rows)
    valid = [row for row in every_row if row.accepted is not None]
    table = confusion_of(valid)
    interval, method, clusters = kappa_interval(valid)
    balanced = None
    if table.right and table.wrong:
        balanced = (table.right_accepted / table.right + table.wrong_rejected / table.wrong) / 2
    return Agreement(
        n=table.n,
        invalid=len(every_row) - len(valid),
        positives=table.right,
        base_rate=table.right / table.n if table.n else None,
        accuracy=table.agreed / table.n if table.n else None,
        balanced_accuracy=balanced,
        kappa=table.kappa,
        interval=interval,
        interval_method=method,
        clusters=clusters,
        auc=auc(valid),
        false_accepts=Share(table.wrong_accepted, table.wrong),
        false_rejects=Share(table.right_rejected, table.right),
    )


def by_category(rows: Iterable[JudgedRow]) -> dict[str, Agreement]:
    """The same for each category, numbers by value before names. Rows without a category are in none."""
    categories: dict[str, list[JudgedRow]] = defaultdict(list)
    for row in rows:
        if row.category:
            categories[row.category].append(row)
    names = sorted(categories, key=lambda name: (0, int(name)) if name.isdecimal() else (1, name))
    return {name: agreement(categories[name]) for name in names}


def among_votes(votes: Iterable[Sequence[bool]]) -> Votes | None:
    """How often votes agree among themselves, over rows with at least two; None where there are no such rows."""
    several = [set(row) for row in votes if len(row) > 1]
    if not several:
        return None
    return Votes(len(several), sum(len(row) == 1 for row in several))


class Confusion(NamedTuple):
    """Labels against verdicts as counts: right or wrong by the label, accepted or rejected by the judge."""

    right_accepted: int = 0
    right_rejected: int = 0
    wrong_accepted: int = 0
    wrong_rejected: int = 0

    @property
    def n(self) -> int:
        """All rows."""
        return sum(self)

    @property
    def right(self) -> int:
        """Rows that the labels accept."""
        return self.right_accepted + self.right_rejected

    @property
    def wrong(self) -> int:
        """Rows that the labels reject."""
        return self.wrong_accepted + self.wrong_rejected

    @property
    def agreed(self) -> int:
        """Rows on which label and judge agree."""
        return self.right_accepted + self.wrong_rejected

    @property
    def by_chance(self) -> int:
        """The agreement that chance would give, times n squared, from how often each side accepts."""
        accepted = self.right_accepted + self.wrong_accepted
        return self.right * accepted + self.wrong * (self.n - accepted)

    @property
    def kappa(self) -> float | None:
        """Cohen's kappa; None where label and judge never vary, since chance explains everything then."""
        return self.beyond_chance(self.n * self.agreed)

    def beyond_chance(self, agreed: float) -> float | None:
        """Kappa of another agreement, times n squared, against the same chance. Whole numbers stay exact."""
        possible = self.n**2 - self.by_chance
        return (agreed - self.by_chance) / possible if possible else None

    def without(self, other: Confusion) -> Confusion:
        """The counts without these rows."""
        return Confusion(*(ours - theirs for ours, theirs in zip(self, other, strict=True)))


def confusion_of(rows: Iterable[JudgedRow]) -> Confusion:
    """Counts of rows that have a verdict."""
    counts = Counter((row.label, bool(row.accepted)) for row in rows)
    return Confusion(counts[True, True], counts[True, False], counts[False, True], counts[False, False])


def auc(rows: Iterable[JudgedRow]) -> float | None:
    """How often a right answer is surer than a wrong one, ties counted half; None without both kinds.

    Where the judge gives no measure, its verdict is one: accepted is 1, rejected 0.
    """
    counts: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        sure = float(bool(row.accepted)) if row.sure is None else row.sure
        counts[sure][row.label] += 1
    wrong_below = won = 0.0
    for _, (wrong, right) in sorted(counts.items()):
        won += right * (wrong_below + wrong / 2)
        wrong_below += wrong
    pairs = wrong_below * sum(right for _, right in counts.values())
    return won / pairs if pairs else None


def kappa_interval(rows: Sequence[JudgedRow]) -> tuple[Interval | None, str, int]:
    """The interval of kappa, its method, and the number of clusters. A row without a cluster is one by itself.

    The jackknife leaves out one cluster at a time, and Student's t gives the reach. One cluster says nothing
    about others. Where nothing varies the jackknife would have no width: Wilson's interval of the agreement
    is taken instead, against the same chance, with each cluster as one case.
    """
    members: dict[Hashable, list[JudgedRow]] = defaultdict(list)
    for number, row in enumerate(rows):
        members[number if row.cluster is None else row.cluster].append(row)
    # Equal clusters give equal kappas: each is computed once, with how many there are.
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
    if stderr < 1e-12:  # What rounding leaves of 0.
        return _wilson_kappa_interval(whole, kappa, count), WILSON, count
    reach = t_quantile(count - 1) * stderr
    method = CLUSTERED if any(row.cluster is not None for row in rows) else SINGLE
    return Interval(max(-1.0, kappa - reach), min(1.0, kappa + reach)), method, count


def _wilson_kappa_interval(table: Confusion, kappa: float, clusters: int) -> Interval:
    agreed = wilson(table.agreed / table.n * clusters, clusters)
    bounds = [table.beyond_chance(share * table.n**2) for share in agreed] if agreed else []
    values = [max(-1.0, min(1.0, value)) for value in (*bounds, kappa) if value is not None]
    return Interval(min(values), max(values))
