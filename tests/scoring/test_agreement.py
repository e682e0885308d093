"""Agreement of a judge with labels, against tables worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Sequence

import pytest
from hypothesis import given, strategies as st

from assay.core.judges import Agreement, Share, Votes
from assay.scoring.agreement import (
    CLUSTERED,
    SINGLE,
    WILSON,
    Confusion,
    JudgedRow,
    agreement,
    among_votes,
    auc,
    by_category,
    kappa_interval,
)
from assay.scoring.intervals import t_quantile


def rows(table: Sequence[int], category: str = "", cluster: str | None = None) -> list[JudgedRow]:
    """Rows of a table: right accepted, right rejected, wrong accepted, wrong rejected."""
    cells = [(True, True), (True, False), (False, True), (False, False)]
    return [
        JudgedRow(label, said, None, category, cluster)
        for (label, said), n in zip(cells, table, strict=True)
        for _ in range(n)
    ]


def test_a_known_table() -> None:
    """50 rows, 20 and 15 agreed: 0.7 of them, chance gives 0.5, so kappa is 0.4."""
    found = agreement(rows((20, 5, 10, 15)))
    assert (found.n, found.positives, found.base_rate, found.accuracy) == (50, 25, 0.5, 0.7)
    assert found.kappa == pytest.approx(0.4)
    assert found.balanced_accuracy == pytest.approx((20 / 25 + 15 / 25) / 2)
    assert (found.false_accepts, found.false_rejects) == (Share(10, 25), Share(5, 25))


def test_a_judge_that_accepts_everything_has_kappa_zero() -> None:
    """At a base rate of 0.8 such a judge agrees with 80 % of the labels, which is no better than chance."""
    found = agreement(rows((8, 0, 2, 0)))
    assert (found.accuracy, found.balanced_accuracy, found.kappa, found.auc) == (0.8, 0.5, 0.0, 0.5)


def test_kappa_may_be_below_chance() -> None:
    """A judge that always says the opposite has a kappa of -1 at a base rate of one half."""
    assert agreement(rows((0, 5, 5, 0))).kappa == pytest.approx(-1)


@pytest.mark.parametrize("table", [(5, 0, 0, 0), (0, 0, 0, 5), (0, 0, 0, 0)])
def test_numbers_that_rows_cannot_give_are_none(table: tuple[int, ...]) -> None:
    """Kappa and AUC are None if all labels and verdicts are equal, and without rows."""
    found = agreement(rows(table))
    assert (found.kappa, found.interval, found.balanced_accuracy, found.auc) == (None, None, None, None)
    assert found.accuracy == (1.0 if sum(table) else None)


def test_invalid_verdicts_are_in_no_other_number() -> None:
    """Invalid verdicts are counted; all other numbers are those of the remaining rows."""
    table = rows((20, 5, 10, 15))
    found = agreement([*table, JudgedRow(label=True, verdict=None), JudgedRow(label=False, verdict=None, sure=0.9)])
    assert found.invalid == 2
    assert found == _with(agreement(table), invalid=2)


def _with(found: Agreement, **changes: int) -> Agreement:
    import msgspec

    return msgspec.structs.replace(found, **changes)


def test_auc_counts_ties_half() -> None:
    """Three right, two wrong: of six pairs four are won and two are even."""
    right = [JudgedRow(label=True, verdict=True, sure=sure) for sure in (0.9, 0.5, 0.5)]
    wrong = [JudgedRow(label=False, verdict=False, sure=sure) for sure in (0.5, 0.1)]
    assert auc([*wrong, *right]) == pytest.approx((2 + 1.5 + 1.5) / 6)


def test_auc_without_a_measure_is_that_of_the_verdicts() -> None:
    """Then it is the balanced accuracy."""
    found = agreement(rows((20, 5, 10, 15)))
    assert found.auc == pytest.approx(found.balanced_accuracy)


judged = st.builds(
    JudgedRow,
    label=st.booleans(),
    verdict=st.booleans(),
    sure=st.sampled_from([None, 0.0, 0.25, 0.5, 1.0]),
    cluster=st.sampled_from([None, "a", "b", "c", "d"]),
)


@given(st.lists(judged, max_size=30))
def test_auc_is_the_share_of_pairs(found: list[JudgedRow]) -> None:
    """Every right row against every wrong one, one pair at a time."""
    sure = [(row.label, float(bool(row.verdict)) if row.sure is None else row.sure) for row in found]
    pairs = [(one, other) for right, one in sure if right for wrong, other in sure if not wrong]
    expected = sum(1.0 if a > b else 0.5 if a == b else 0.0 for a, b in pairs) / len(pairs) if pairs else None
    assert auc(found) == (None if expected is None else pytest.approx(expected))


def naive(found: list[JudgedRow]) -> float | None:
    """Cohen's kappa by its definition."""
    count = len(found)
    if len({label for row in found for label in (row.label, row.verdict)}) < 2:
        return None
    agreed = sum(row.label == row.verdict for row in found) / count
    chance = sum(
        sum(row.label == label for row in found) * sum(row.verdict == label for row in found)
        for label in {row.label for row in found}
    )
    return (agreed - chance / count**2) / (1 - chance / count**2)


@given(st.lists(judged, max_size=30))
def test_the_interval_is_the_jackknife_over_clusters(found: list[JudgedRow]) -> None:
    """Leave one cluster out, one after another; rows without a cluster are one each."""
    names = [row.cluster or str(at) for at, row in enumerate(found)]
    parts = list(dict.fromkeys(names))
    left = [naive([row for row, name in zip(found, names, strict=True) if name != out]) for out in parts]
    known = [value for value in left if value is not None]
    kappa, count = naive(found), len(parts)
    interval, method, clusters = kappa_interval(found)
    assert clusters == count
    if kappa is None or count < 2 or len(known) < count:
        assert interval is None
        return
    mean = sum(known) / count
    error = math.sqrt((count - 1) / count * sum((value - mean) ** 2 for value in known))
    assert interval is not None
    if error < 1e-12:
        assert method == WILSON
        return
    reach = t_quantile(count - 1) * error
    assert interval == pytest.approx((max(-1, kappa - reach), min(1, kappa + reach)))
    assert method == (CLUSTERED if any(row.cluster for row in found) else SINGLE)


def test_perfect_agreement_is_not_certainty() -> None:
    """The jackknife sees no difference among ten rows; the interval still has a width, and holds 1."""
    interval, method, _ = kappa_interval(rows((5, 0, 0, 5)))
    assert interval is not None
    assert (method, interval.high) == (WILSON, 1.0)
    assert 0.3 < interval.low < 0.6


def test_rows_of_a_few_clusters_are_not_so_many_cases() -> None:
    """A thousand rows of two conversations that all agree are two cases, not a thousand."""
    two = [*rows((250, 0, 0, 250), cluster="a"), *rows((250, 0, 0, 250), cluster="b")]
    interval, method, clusters = kappa_interval(two)
    assert interval is not None
    assert (method, clusters, interval.high) == (WILSON, 2, 1.0)
    agreed = 1 / (1 + 1.959964**2 / 2)
    assert interval.low == pytest.approx((agreed - 0.5) / 0.5)


def test_one_cluster_says_nothing_about_others() -> None:
    """There is a kappa, and no interval."""
    found = agreement(rows((20, 5, 10, 15), cluster="conv-1"))
    assert (found.clusters, found.interval) == (1, None)
    assert found.kappa == pytest.approx(0.4)


def test_clusters_widen_the_interval() -> None:
    """Fifty equal rows of ten conversations are not five hundred."""
    ten = [row for at in range(10) for row in rows((2 + at % 3, 1, at % 2, 3), cluster=str(at))]
    alone = [row._replace(cluster=None) for row in ten]
    clustered, single = agreement(ten * 5).interval, agreement(alone * 5).interval
    assert clustered is not None
    assert single is not None
    assert clustered[1] - clustered[0] > single[1] - single[0]


def test_categories_stand_in_the_order_of_their_names() -> None:
    """Numbers by value; a row without a category is in none."""
    found = by_category([*rows((1, 0, 0, 1), category="10"), *rows((1, 1, 0, 0), category="2"), *rows((1, 0, 0, 0))])
    assert {name: one.n for name, one in found.items()} == {"2": 2, "10": 2}
    assert list(found) == ["2", "10"]
    assert found["2"].false_rejects == Share(1, 2)


def test_votes_agree_among_themselves() -> None:
    """Of rows with two votes at least, those in which all are equal."""
    assert among_votes([(True, True, True), (True, False, True), (True,), (False, False)]) == Votes(3, 2)
    assert among_votes([(True,), ()]) is None


def test_a_table_without_some_rows() -> None:
    """Counts are taken away cell by cell."""
    table = Confusion((((True, False), 4), ((True, True), 3)))
    assert table.without(Confusion((((True, False), 1), ((True, True), 3)))) == Confusion((((True, False), 3),))


three_labels = st.builds(
    JudgedRow, label=st.sampled_from("abc"), verdict=st.sampled_from("abc"), cluster=st.sampled_from("xyz")
)


@given(st.lists(three_labels, max_size=30))
def test_three_labels_have_cohens_kappa_too(found: list[JudgedRow]) -> None:
    """The first label is the one that counts as accepted; balanced accuracy is the mean over labels."""
    result = agreement(found, "a")
    expected = naive(found)
    assert result.kappa == (None if expected is None else pytest.approx(expected))
    labels = {row.label for row in found}
    assert result.positives == sum(row.label == "a" for row in found)
    assert result.false_accepts.count == sum(row.verdict == "a" != row.label for row in found)
    assert result.false_rejects.count == sum(row.label == "a" != row.verdict for row in found)
    if len(labels) > 1:
        shares = [
            sum(row.label == row.verdict == label for row in found) / sum(row.label == label for row in found)
            for label in labels
        ]
        assert result.balanced_accuracy == pytest.approx(sum(shares) / len(shares))
