"""Paired statistics: numbers that scipy and statsmodels gave for the same data, and McNemar's sum by hand."""

from __future__ import annotations

from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.scoring.paired import bonett_price, mcnemar, paired, t_quantile

BASE = [-0.8, -1.32, -0.25, 0.42, 1.14, 0.11, -0.55, -0.78, 0.75, 1.63, 0.27, -1.23]
NEW = [-0.98, -0.22, 0.15, -0.15, 1.4, -0.17, -0.56, -0.72, 0.69, 2.21, 0.54, -1.22]
CONVERSATIONS = [0, 0, 0, 1, 1, 2, 2, 2, 2, 3, 4, 4]


def arrays(*columns: list[float] | list[int]) -> list[np.ndarray]:
    return [np.array(column) for column in columns]


def test_single_cases_have_the_paired_t_interval() -> None:
    """As scipy's ttest_rel."""
    found = paired(*arrays(BASE, NEW, list(range(12))))
    assert found.difference == pytest.approx(0.13166666666666668)
    assert found.interval == pytest.approx((-0.14475178803804226, 0.40808512137137565), abs=1e-9)
    assert (found.method, found.n, found.clusters, found.p) == ("paired t", 12, 12, None)
    assert (found.rose, found.fell, found.ties) == (7, 5, 0)


def test_pairs_of_one_case_are_clustered() -> None:
    """As statsmodels' OLS on a constant with cov_type="cluster" and use_t."""
    found = paired(*arrays(BASE, NEW, CONVERSATIONS))
    assert found.stderr == pytest.approx(0.13348172, abs=1e-8)
    assert found.interval == pytest.approx((-0.23893801, 0.50227135), abs=1e-8)
    assert (found.method, found.clusters) == ("clustered t", 5)


def test_equal_questions_of_a_conversation_add_nothing() -> None:
    """A pair that stands ten times in its cluster says as much as one."""
    few = paired(*arrays(BASE, NEW, list(range(12))))
    many = paired(*(np.repeat(column, 10) for column in arrays(BASE, NEW, list(range(12)))))
    assert many.stderr == pytest.approx(few.stderr)
    assert many.interval == pytest.approx(few.interval)


def test_one_conversation_alone_has_no_interval() -> None:
    """What differs between conversations cannot be seen in one."""
    found = paired(*arrays([0.0, 0.5, 1.0], [0.5, 0.5, 0.0], [7, 7, 7]))
    assert (found.stderr, found.interval) == (None, None)


def test_numbers_too_large_to_be_added_have_no_interval() -> None:
    """And raise no warning; the counts stand."""
    found = paired(*arrays([-1.7e308] * 3, [1.7e308, 1.7e308, -1.7e308], [0, 1, 2]))
    assert (found.interval, found.rose, found.ties) == (None, 2, 1)


def test_right_and_wrong_has_an_exact_p_and_an_interval_with_width() -> None:
    """By hand: 6 cases, 5 that fell: p = 2 / 32; (1 - 6) / 8 with variance (7 / 8 - 25 / 64) / 8."""
    found = paired(*arrays([1.0] * 6, [0.0] * 5 + [1.0], list(range(6))))
    assert found.p == pytest.approx(0.0625)
    reach = 1.959963984540054 * ((7 / 8 - 25 / 64) / 8) ** 0.5
    assert found.interval == pytest.approx((max(-1.0, -5 / 8 - reach), -5 / 8 + reach))
    assert found.right_wrong


def test_right_and_wrong_within_conversations_has_no_p() -> None:
    """McNemar's test wants independent pairs."""
    found = paired(*arrays([1.0, 1.0, 0.0, 1.0], [0.0, 1.0, 0.0, 1.0], [0, 0, 1, 1]))
    assert (found.right_wrong, found.p, found.method) == (True, None, "clustered t")


@given(st.integers(0, 300), st.integers(0, 300))
def test_mcnemar_is_the_binomial_tail(rose: int, fell: int) -> None:
    """Twice the sum of the smaller tail in whole numbers, at most 1; the same from both sides."""
    flips = rose + fell
    tail = sum(comb(flips, k) for k in range(min(rose, fell) + 1))
    assert mcnemar(rose, fell) == pytest.approx(min(1.0, 2 * tail / 2**flips), rel=1e-9)
    assert mcnemar(rose, fell) == mcnemar(fell, rose)


def test_mcnemar_of_very_many_flips() -> None:
    """As scipy's binomtest(50000, 100700)."""
    assert mcnemar(50_000, 50_700) == pytest.approx(0.02761286943193814, rel=1e-8)


@given(st.integers(0, 200), st.integers(0, 200), st.integers(1, 200))
def test_the_interval_of_proportions_holds_the_difference(rose: int, fell: int, ties: int) -> None:
    """And lies between -1 and 1, with some width."""
    count = rose + fell + ties
    low, high = bonett_price(rose, fell, count)
    assert -1 <= low < high <= 1
    assert low <= (rose - fell) / count <= high


@pytest.mark.parametrize(
    ("freedom", "value"),
    [(1, 12.706204736), (9, 2.2621571628), (21, 2.07961384473), (30, 2.0422724563), (1000, 1.9623390808)],
)
def test_t_quantiles(freedom: int, value: float) -> None:
    """As printed in tables."""
    assert t_quantile(freedom) == pytest.approx(value, abs=2e-7)
