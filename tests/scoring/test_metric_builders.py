"""Means of values that come in clusters."""

from __future__ import annotations

import pytest

import assay
from assay.core.report import Metric
from assay.scoring.metric_builders import ClusteredValues, proportion_metric, ratio_metric


def summed(*values: tuple[float, int]) -> Metric:
    """The metric of some values."""
    clustered = ClusteredValues()
    for value, cluster in values:
        clustered.add(value, cluster)
    return clustered.metric("m")


def test_nothing_is_null() -> None:
    found = summed()
    assert (found.value, found.denominator, found.clusters, found.stderr, found.interval) == (
        None,
        0,
        0,
        None,
        None,
    )


def test_one_cluster_says_nothing_of_others() -> None:
    found = summed((1.0, 7), (0.0, 7))
    assert (found.value, found.denominator, found.clusters) == (0.5, 2, 1)
    assert (found.stderr, found.interval) == (None, None)


def test_repeated_values_of_a_cluster_add_no_certainty() -> None:
    """Repeated values in a cluster do not narrow the interval."""
    alone = [(0.2, 0), (0.5, 1), (0.8, 2)]
    assert summed(*alone, *alone, *alone).stderr == pytest.approx(summed(*alone).stderr)


def test_an_interval_stays_within_what_is_possible() -> None:
    """Student's t interval of two clusters would be far wider than a share can be."""
    assert summed((0.9, 0), (0.1, 1)).interval == pytest.approx((0.0, 1.0), abs=1e-6)


def test_right_and_wrong_has_wilsons_interval() -> None:
    """One value a cluster: 7 of 10 is 0.397 to 0.892."""
    found = summed(*((float(at < 7), at) for at in range(10)))
    assert found.interval == pytest.approx((0.3968, 0.8922), abs=1e-4)


def test_an_interval_has_a_width_where_all_agree() -> None:
    """Six clusters of three, all right: as sure as six single cases are."""
    alike = summed(*((1.0, at // 3) for at in range(18)))
    assert alike.interval == pytest.approx((0.6097, 1.0), abs=1e-4)


def test_shares_that_agree_are_no_certainty() -> None:
    """Two clusters with a half each are two cases; so are thirds, which rounding keeps from agreeing."""
    halves = summed((0.5, 0), (0.5, 1))
    assert halves.interval == pytest.approx((0.0945, 0.9055), abs=1e-4)
    interval = summed(*((1 / 3, at // 3) for at in range(21))).interval
    assert interval is not None
    low, high = interval
    assert low < 0.2
    assert high > 0.5


def test_one_value_has_no_interval() -> None:
    """One value is one cluster, so there is no interval."""
    assert summed((1.0, 0)).interval is None


def test_a_proportion_has_wilsons_interval() -> None:
    metric = proportion_metric("passed", 7, 10, unit="test")
    assert (metric.value, metric.numerator, metric.denominator, metric.unit) == (0.7, 7, 10, "test")
    assert metric.interval == pytest.approx((0.3968, 0.8922), abs=1e-4)
    assert metric.interval_method == "wilson"


def test_a_proportion_of_nothing_was_not_measured() -> None:
    metric = proportion_metric("passed", 0, 0)
    assert (metric.value, metric.interval, metric.denominator) == (None, None, 0)
    assert ratio_metric("pooled", 0, 0).value is None


def test_a_mean_says_how_its_interval_was_made_and_what_was_left_out() -> None:
    values = ClusteredValues()
    for value, cluster in ((0.2, 0), (0.4, 0), (0.5, 1), (0.8, 2)):
        values.add(value, cluster)
    values.add("invalid", 2)
    metric = values.metric("recall", higher_is_better=True)
    assert (metric.denominator, metric.clusters, metric.interval_method) == (4, 3, "clustered logit t")
    assert metric.numerator == pytest.approx(1.9)
    assert metric.left_out == {"invalid": 1}


def test_a_mean_is_a_proportion_only_if_it_is_declared() -> None:
    """The builders are public: a suite of others declares what its values mean."""
    values = [1.0, 0.0, 0.0, 1.0]
    assert assay.mean_metric("m", values, right_wrong=True) == assay.proportion_metric("m", 2, 4)
    assert assay.mean_metric("m", values).interval_method == "t"
    assert assay.mean_metric("m", [0.0, 0.5, 1.0], right_wrong=True).interval_method == "logit t"
    assert assay.mean_metric("m", [0.0, 0.5, 1.0]).interval_method == "t"
    assert assay.mean_metric("m", [0.0] * 9).interval is None


def test_what_a_suite_of_others_needs_is_exported() -> None:
    case = assay.Case(0, "key", "set", "subject", "label", inputs="q", gold="a")
    assert case.head == (0, "key", "set", "subject")
    assert assay.ClusteredValues().metric("m").value is None
