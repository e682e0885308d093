from __future__ import annotations

import math
import random
import statistics as standard

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.scoring import statistics
from assay.scoring.statistics import bootstrap_positions

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
    expected = []
    for seed in range(3):
        stream = random.Random(seed)
        expected += [stream.choices(range(23), k=23) for _ in range(1000)]
    assert np.concatenate(list(bootstrap_positions(23, 3999))).tolist() == expected


def test_fewer_draws_than_a_chunk_are_one_chunk(monkeypatch: pytest.MonkeyPatch) -> None:
    """However the draws are cut into blocks, the stream is one."""
    monkeypatch.setattr(statistics, "_MOST_CELLS", 40)
    stream = random.Random(0)
    assert np.concatenate(list(bootstrap_positions(7, 100))).tolist() == [
        stream.choices(range(7), k=7) for _ in range(100)
    ]


def test_one_value_has_no_standard_error() -> None:
    """One value has no standard error, so the result is None."""
    assert statistics.stderr("mean", [1.0]) is None
    assert statistics.stderr("f1", [[1, 1]]) is None
    assert statistics.stderr("brier_score", [[0, [0.5, 0.5]]] * 5) is None
    assert statistics.stderr("mean", [1.0, 0.0], draws=0) is None


@given(st.lists(st.floats(0, 1e6), min_size=1, max_size=40), st.floats(0, 1))
def test_percentiles_are_those_of_numpy(values: list[float], share: float) -> None:
    """Linear between ranks, so the median of two values is their mean."""
    assert statistics.percentile(sorted(values), share) == pytest.approx(np.quantile(values, share))
    assert statistics.percentiles([3.0, 1.0]) == {"n": 2, "p50": 2.0, "p95": 2.9}
    assert statistics.percentile([], share) is None
