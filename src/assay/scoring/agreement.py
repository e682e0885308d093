"""How well a judge agrees with labels: counts first, then what follows from them.

A label is true where the answer is right, and a judge accepts or rejects it. A row without a verdict is
counted as invalid and is in no other number. Cohen's kappa is agreement beyond chance: with a base rate of
0.8, who accepts everything is right in 80 % and has a kappa of 0.
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


class Judged(NamedTuple):
    """One row. `said` is none where the verdict is invalid; `sure` says how good it is, from 0 to 1."""

    label: bool
    said: bool | None
    sure: float | None = None
    category: str = ""
    cluster: str | None = None


class Table(NamedTuple):
    """Labels against verdicts, as counts: right or wrong by the label, accepted or rejected by the judge."""

    right_accepted: int = 0
    right_rejected: int = 0
    wrong_accepted: int = 0
    wrong_rejected: int = 0

    @property
    def n(self) -> int:
        """All of them."""
        return sum(self)

    @property
    def right(self) -> int:
        """Those that the labels accept."""
        return self.right_accepted + self.right_rejected

    @property
    def wrong(self) -> int:
        """Those that the labels reject."""
        return self.wrong_accepted + self.wrong_rejected

    @property
    def agreed(self) -> int:
        """Those of which label and judge say the same."""
        return self.right_accepted + self.wrong_rejected

    @property
    def by_chance(self) -> int:
        """The agreement that chance would give, from how often each says what; times n squared."""
        accepted = self.right_accepted + self.wrong_accepted
        return self.right * accepted + self.wrong * (self.n - accepted)

    @property
    def kappa(self) -> float | None:
        """None where label and judge always say one and the same: chance explains all of it."""
        return self.beyond_chance(self.n * self.agreed)

    def beyond_chance(self, agreed: float) -> float | None:
        """Kappa of another agreement, times n squared, against the same chance. Whole numbers stay exact."""
        possible = self.n**2 - self.by_chance
        return (agreed - self.by_chance) / possible if possible else None

    def without(self, other: Table) -> Table:
        """What is left when these rows are taken away."""
        return Table(*(ours - theirs for ours, theirs in zip(self, other, strict=True)))


def agreement(rows: Iterable[Judged]) -> Agreement:
    """Every measure of these rows."""
    found = list(rows)
    valid = [row for row in found if row.said is not None]
    table = table_of(valid)
    kappa = table.kappa
    interval, method, clusters = kappa_interval(valid)
    return Agreement(
        n=table.n,
        invalid=len(found) - len(valid),
        positives=table.right,
        base_rate=_share(table.right, table.n),
        accuracy=_share(table.agreed, table.n),
        balanced_accuracy=_balanced(table),
        kappa=kappa,
        interval=interval,
        interval_method=method,
        clusters=clusters,
        auc=auc(valid),
        false_accepts=Share(table.wrong_accepted, table.wrong),
        false_rejects=Share(table.right_rejected, table.right),
    )


def by_category(rows: Iterable[Judged]) -> dict[str, Agreement]:
    """The same for each category, in the order of their names; rows without one are in none."""
    found: dict[str, list[Judged]] = defaultdict(list)
    for row in rows:
        if row.category:
            found[row.category].append(row)
    return {name: agreement(found[name]) for name in sorted(found, key=_natural)}


def among_votes(votes: Iterable[Sequence[bool]]) -> Votes | None:
    """Of rows with at least two votes; none where no row has them."""
    several = [set(row) for row in votes if len(row) > 1]
    return Votes(len(several), sum(len(row) == 1 for row in several)) if several else None


def table_of(rows: Iterable[Judged]) -> Table:
    """Counts of rows that have a verdict."""
    counts = Counter((row.label, bool(row.said)) for row in rows)
    return Table(*(counts[label, said] for label in (True, False) for said in (True, False)))


def auc(rows: Iterable[Judged]) -> float | None:
    """How often a right answer is surer than a wrong one, ties counted half; none without both kinds.

    Where the judge gives no measure, its verdict is one: accepted is 1, rejected 0.
    """
    counts: dict[float, list[int]] = defaultdict(lambda: [0, 0])
    for row in rows:
        counts[float(bool(row.said)) if row.sure is None else row.sure][row.label] += 1
    wrong_below = won = 0.0
    for _, (wrong, right) in sorted(counts.items()):
        won += right * (wrong_below + wrong / 2)
        wrong_below += wrong
    pairs = wrong_below * sum(right for _, right in counts.values())
    return won / pairs if pairs else None


def kappa_interval(rows: Sequence[Judged]) -> tuple[Interval | None, str, int]:
    """The interval of kappa, how it was made, and of how many clusters; rows without one stand alone.

    The jackknife leaves out one cluster at a time, and Student's t gives the reach. One cluster says nothing
    about others. Where nothing varies, the jackknife would claim to be sure: Wilson's interval of the
    agreement is taken instead, against the same chance, with each cluster as one case.
    """
    parts = _clusters(rows)
    method = CLUSTERED if any(row.cluster is not None for row in rows) else SINGLE
    whole = table_of(rows)
    kappa, count = whole.kappa, sum(parts.values())
    if kappa is None or count < 2:
        return None, "", count
    left = [(whole.without(part).kappa, times) for part, times in parts.items()]
    known = [(value, times) for value, times in left if value is not None]
    if len(known) < len(left):
        return None, "", count
    mean = math.fsum(value * times for value, times in known) / count
    squares = math.fsum((value - mean) ** 2 * times for value, times in known)
    error = math.sqrt((count - 1) / count * squares)
    if error < 1e-12:
        return _agreed_interval(whole, kappa, count), WILSON, count
    reach = t_quantile(count - 1) * error
    return Interval(max(-1.0, kappa - reach), min(1.0, kappa + reach)), method, count


def _clusters(rows: Iterable[Judged]) -> Counter[Table]:
    """Each cluster as a table; equal ones once, with how many there are."""
    found: dict[Hashable, list[Judged]] = defaultdict(list)
    for at, row in enumerate(rows):
        found[at if row.cluster is None else row.cluster].append(row)
    return Counter(table_of(part) for part in found.values())


def _agreed_interval(table: Table, kappa: float, clusters: int) -> Interval:
    agreed = wilson(table.agreed / table.n * clusters, clusters)
    reach = [table.beyond_chance(share * table.n**2) for share in agreed] if agreed else []
    values = [max(-1.0, min(1.0, value)) for value in (*reach, kappa) if value is not None]
    return Interval(min(values), max(values))


def _share(count: int, of: int) -> float | None:
    return count / of if of else None


def _balanced(table: Table) -> float | None:
    if not table.right or not table.wrong:
        return None
    return (table.right_accepted / table.right + table.wrong_rejected / table.wrong) / 2


def _natural(name: str) -> tuple[int, int | str]:
    """Numbers by their value, before words."""
    return (0, int(name)) if name.isdecimal() else (1, name)
