from __future__ import annotations

import math
import random
import statistics as standard

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from assay.scoring import statistics

floats = st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=40)


@given(floats)
def test_mean_and_deviation_agree_with_the_standard_library(values: list[float]) -> None:
    """Plain left-to-right sums are close to exact ones."""
    assert math.isclose(statistics.mean(values), standard.fmean(values), rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(statistics.sample_stddev(values), standard.stdev(values), rel_tol=1e-6, abs_tol=1e-6)


def test_sums_are_not_compensated() -> None:
    """The sum is what Python 3.11 gives, on every Python."""
    assert statistics.left_sum([0.1] * 10) == 0.9999999999999999


def test_the_median_is_the_upper_one() -> None:
    """Of an even number of values the harness takes the upper middle."""
    assert statistics.median([4.0, 1.0, 3.0, 2.0]) == 3.0


def test_the_bootstrap_draws_what_the_harness_draws() -> None:
    """Draw for draw, numpy gives what `random.Random(i).choices` gives."""
    values = [float(n * n % 17) for n in range(23)]
    expected = []
    for seed in range(3):
        stream = random.Random(seed)
        expected += [sorted(stream.choices(values, k=23))[11] for _ in range(1000)]
    found = []

    def keep(rows: NDArray[np.float64]) -> NDArray[np.float64]:
        medians = statistics._row_medians(rows)
        found.extend(medians.tolist())
        return medians

    statistics.bootstrap_stderr(values, keep)
    assert found[:3000] == expected


def test_one_value_has_no_standard_error() -> None:
    """Nothing is made up where nothing is known."""
    assert statistics.stderr("mean", [1.0]) is None
    assert statistics.stderr("f1", [["a", "a"]] * 5) is None


@pytest.mark.parametrize(
    ("right", "total", "low", "high"), [(0, 10, 0.0, 0.2775), (10, 10, 0.7225, 1.0), (12, 20, 0.3866, 0.7812)]
)
def test_wilson_stays_within_bounds(right: int, total: int, low: float, high: float) -> None:
    """The interval of a proportion is sound at 0 and 1 (figures: R's binom package)."""
    interval = statistics.wilson(right, total)
    assert interval is not None
    assert interval == pytest.approx((low, high), abs=5e-5)


def test_label_f1_is_of_label_one_or_the_mean_of_all() -> None:
    """0/1 labels give the F1 of 1; any others the mean over labels."""
    assert statistics.label_f1([["1", "1"], ["0", "1"], ["1", "0"]]) == 0.5
    assert statistics.label_f1([["a", "a"], ["b", "a"]]) == pytest.approx((2 / 3 + 0) / 2)
