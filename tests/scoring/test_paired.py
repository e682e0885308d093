"""Paired comparisons by hand and by their properties. `test_oracles.py` compares them with scipy and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.core.report import PairedMetric
from assay.scoring.intervals import t_quantile, tango
from assay.scoring.paired import adjust_metrics, fill_metric, mcnemar, paired, sign_flip

BASE = [-0.8, -1.32, -0.25, 0.42, 1.14, 0.11, -0.55, -0.78, 0.75, 1.63, 0.27, -1.23]
NEW = [-0.98, -0.22, 0.15, -0.15, 1.4, -0.17, -0.56, -0.72, 0.69, 2.21, 0.54, -1.22]

seeds = st.integers(0, 2**32 - 1)


def arrays(*columns: list[float] | list[int]) -> list[np.ndarray]:
    return [np.array(column) for column in columns]


# Intervals


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 60))
def test_tangos_interval_has_a_width_and_is_the_same_from_both_sides(rose: int, fell: int, ties: int) -> None:
    count = rose + fell + ties
    interval = tango(rose, fell, count)
    middle = (rose - fell) / count
    assert -1 <= interval.low < middle < interval.high <= 1
    mirrored = tango(fell, rose, count)
    assert interval == pytest.approx((-mirrored.high, -mirrored.low), abs=1e-9)


def test_two_runs_without_a_flip_still_have_an_interval() -> None:
    ones = np.ones(50)
    single = paired(ones, ones, np.arange(50))
    assert single.interval is not None
    assert single.interval.high == pytest.approx(0.0713, abs=1e-4)
    assert (single.p, single.method) == (1.0, "tango")
    graded = paired(ones * 0.3, ones * 0.3, np.arange(50))
    assert graded.interval == pytest.approx(single.interval)


@pytest.mark.parametrize(
    ("values", "pairs"),
    [
        ([0.0, 0.5, 1.0, 0.5] * 125, 500),
        ([0.3] * 500, 500),
        ([0.0] * 250 + [1.0] * 250, 10),
    ],
    ids=["clusters alike", "constant", "each cluster constant"],
)
def test_equal_pairs_of_clusters_say_as_much_as_the_clustering_of_their_values_lets_them(
    values: list[float], pairs: int
) -> None:
    """500 equal pairs in 10 conversations: as many independent pairs if the conversations are alike, 10 at worst."""
    result = paired(*arrays(values, values, [place // 50 for place in range(500)]))
    quantile = t_quantile(9)
    assert result.interval is not None
    assert result.interval.high == pytest.approx(quantile**2 / (pairs + quantile**2), rel=0.15)
    assert (result.difference, result.stderr, result.p) == (0.0, 0.0, 1.0)


def test_the_interval_of_shares_ends_where_differences_end() -> None:
    """Student's t of two conversations reaches beyond -1 and 1. Other numbers have no such bounds."""
    base, new, clusters = arrays([0.1, 0.2, 0.9, 0.3], [0.9, 0.8, 0.1, 0.4], [0, 0, 1, 1])
    shares, others = paired(base, new, clusters), paired(base * 100, new * 100, clusters)
    assert (shares.interval, shares.method) == ((-1.0, 1.0), "clustered t")
    assert others.interval is not None
    assert others.interval.low < -100


def test_equal_questions_of_a_conversation_add_nothing() -> None:
    """A pair that stands ten times in its cluster says as much as one."""
    few = paired(*arrays(BASE, NEW, list(range(12))))
    many = paired(*(np.repeat(column, 10) for column in arrays(BASE, NEW, list(range(12)))))
    assert many.stderr == pytest.approx(few.stderr)
    assert many.interval == pytest.approx(few.interval)
    assert many.p == few.p


def test_one_conversation_alone_has_no_interval() -> None:
    """What differs between conversations cannot be seen in one."""
    found = paired(*arrays([0.0, 0.5, 1.0], [0.5, 0.5, 0.0], [7, 7, 7]))
    assert (found.stderr, found.interval, found.detectable, found.p) == (None, None, None, 1.0)
    assert found.few_clusters.startswith("too few clusters: 1.")


def test_numbers_too_large_to_be_added_have_no_interval() -> None:
    """And raise no warning; the counts stand."""
    found = paired(*arrays([-1.7e308] * 3, [1.7e308, 1.7e308, -1.7e308], [0, 1, 2]))
    assert (found.interval, found.p, found.rose, found.ties) == (None, None, 2, 1)


# Tests


@given(seeds, st.floats(-0.3, 0.3))
def test_sign_flips_of_many_clusters_are_drawn(seed: int, shift: float) -> None:
    """The draws agree with the exact test of signs, within four of their standard errors."""
    signs = np.random.default_rng(seed).choice([-1.0, 1.0], 60)
    signs[: int(abs(shift) * 60)] = math.copysign(1.0, shift)
    exact = mcnemar(int((signs > 0).sum()), int((signs < 0).sum()))
    found = sign_flip(signs)
    assert abs(found - exact) <= 4 * math.sqrt(exact * (1 - exact) / 9_999) + 2e-4
    assert found == sign_flip(signs), "the seed is fixed"


def test_a_clear_difference_has_a_p_far_below_one_draw() -> None:
    """So it stays clear in a table with a thousand rows."""
    assert sign_flip(np.random.default_rng(6).normal(1, 1, 200)) < 1e-12


def test_right_and_wrong_within_conversations_is_tested_by_sign_flips() -> None:
    """McNemar's test wants independent pairs. Four conversations that all fell: p is 2 / 16."""
    base = np.ones(12)
    new = np.array([0, 1, 1] * 4)
    found = paired(base, new, np.repeat(np.arange(4), 3))
    assert (found.right_wrong, found.p, found.p_method) == (True, 0.125, "permutation")
    assert found.method == "clustered tango"


# Rows


def row(p: float | None, difference: float = 0.1, **more: object) -> PairedMetric:
    fields = {"set": "", "metric": "acc", "part": "", "higher_is_better": True, "n": 10, **more}
    return PairedMetric(p=p, difference=difference, **fields)  # type: ignore[arg-type]


def test_rows_over_all_sets_and_rows_of_sets_are_adjusted_apart() -> None:
    """A headline does not pay for the table below it. A row without pairs counts nowhere."""
    whole, one, two, empty = row(0.04), row(0.03, set="a"), row(0.03, set="b"), row(None, set="c")
    adjust_metrics([whole, one, two, empty])
    assert (whole.p_adjusted, whole.verdict) == (0.04, "better")
    assert (one.p_adjusted, one.verdict, two.p_adjusted) == (0.06, "unclear", 0.06)
    assert (empty.p_adjusted, empty.verdict) == (None, "unclear")


@pytest.mark.parametrize(
    ("new", "verdict"),
    [([1, 0, 1, 0], "equal"), ([0, 1, 1, 0], "unclear")],  # the second: no difference of the means
)
def test_a_row_is_equal_only_if_no_pair_differs(new: list[int], verdict: str) -> None:
    filled = row(None)
    fill_metric(filled, paired(*arrays([1, 0, 1, 0], new, [0, 1, 2, 3])))
    assert (filled.difference, filled.verdict) == (0, verdict)


def test_a_row_says_who_won_how_sure_it_is_and_what_it_could_have_shown() -> None:
    """If lower is better, a fall is a win."""
    base = np.repeat([1.0, 0.0], [60, 40])
    new = np.repeat([0.0, 1.0, 0.0], [20, 40, 40])
    filled = row(None, higher_is_better=False)
    fill_metric(filled, paired(base, new, np.arange(100)))
    assert (filled.wins, filled.losses, filled.ties, filled.verdict) == (20, 0, 80, "better")
    assert filled.p_method == "mcnemar"
    assert filled.p == pytest.approx(2 / 2**20)
    assert filled.p_adjusted == filled.p
    assert filled.correlation == pytest.approx(np.corrcoef(base, new)[0, 1])
    # 1.96 and 0.842 standard errors, of which the interval reaches 1.96 to each side
    assert filled.detectable == pytest.approx(0.04 * (1.96 + 0.842), rel=0.05)
