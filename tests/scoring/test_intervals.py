"""Intervals of one number by their properties. `test_oracles.py` compares them with scipy and statsmodels."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.scoring.intervals import (
    cluster_sample,
    few_clusters,
    mean_bounds,
    statistic_interval,
    wilson,
)

seeds = st.integers(0, 2**32 - 1)


def table(seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Return values and their clusters: 2 to 30 clusters of 1 to 12 values, with a random share of its own each."""
    stream = np.random.default_rng(seed)
    groups = int(stream.integers(2, 31))
    sizes = stream.integers(1, 13, groups)
    clusters = np.repeat(np.arange(groups), sizes)
    shares = stream.beta(2, 2, groups)[clusters]
    values = stream.random(len(clusters)) < shares
    return values.astype(float), clusters


@given(seeds)
def test_unequal_clusters_have_the_variance_and_freedom_of_bell_and_mccaffrey(seed: int) -> None:
    """By the matrices of their paper: the hat matrix of a constant, and its inverse root in every cluster."""
    values, clusters = table(seed)
    sample = cluster_sample(values, clusters)
    count, groups = len(values), sample.clusters
    if groups == count:
        return
    hat = np.full((count, count), 1 / count)
    vectors = []
    for cluster in range(groups):
        members = clusters == cluster
        own = np.eye(members.sum()) - hat[np.ix_(members, members)]
        eigenvalues, directions = np.linalg.eigh(own)
        root = directions @ np.diag(eigenvalues**-0.5) @ directions.T
        # The weights of all residuals in this cluster's part of the mean's variance.
        vectors.append((np.eye(count) - hat)[:, members] @ root @ np.ones(members.sum()) / count)
    residuals = values - values.mean()
    variance = sum(float(vector @ residuals) ** 2 for vector in vectors)
    gram = np.array(vectors) @ np.array(vectors).T
    assert sample.variance == pytest.approx(max(variance, sample.naive), rel=1e-9, abs=1e-15)
    assert sample.freedom == pytest.approx(np.trace(gram) ** 2 / (gram**2).sum(), rel=1e-9)


@given(seeds)
def test_a_clustered_interval_is_never_narrower_than_that_of_independent_values(seed: int) -> None:
    """Also if three conversations agree by chance more than single questions would."""
    values, clusters = table(seed)
    clustered = mean_bounds(cluster_sample(values, clusters), right_wrong=True, is_share=True).interval
    independent = mean_bounds(cluster_sample(values), right_wrong=True, is_share=True).interval
    assert clustered is not None
    assert independent is not None
    assert clustered.high - clustered.low >= independent.high - independent.low - 1e-12
    assert 0 <= clustered.low <= values.mean() <= clustered.high <= 1


def test_conversations_that_agree_by_chance_get_a_wide_interval_and_a_warning() -> None:
    """495 questions of 3 conversations with shares of 0.68 to 0.69: three conversations do not say 0.68 to 0.69."""
    values = np.concatenate([np.arange(165) < right for right in (112, 113, 114)]).astype(float)
    sample = cluster_sample(values, np.repeat([0, 1, 2], 165))
    bounds = mean_bounds(sample, right_wrong=True, is_share=True)
    assert bounds.method == "clustered logit t"
    assert bounds.interval is not None
    assert bounds.interval.low < 0.6
    assert bounds.interval.high > 0.76
    assert few_clusters(sample, is_share=True) == ("too few clusters: 3. An interval is reliable from 5 clusters on")


@pytest.mark.parametrize(
    ("groups", "size", "right", "warning"),
    [
        (4, 10, 5, "too few clusters: 4. An interval is reliable from 5 clusters on"),
        (5, 10, 5, ""),
        (5, 10, 2, ""),
        (5, 10, 1, "too few clusters: with 5, an interval is reliable for values between 0.2 and 0.8"),
        (10, 10, 1, ""),
        (10, 100, 95, "too few clusters: with 10, an interval is reliable for values between 0.1 and 0.9"),
        (50, 100, 97, ""),
        (5, 1, 1, ""),
    ],
)
def test_intervals_from_too_few_clusters_are_marked(groups: int, size: int, right: int, warning: str) -> None:
    """Five clusters, and one cluster's worth of each outcome. Independent values are no clusters."""
    values = np.tile(np.arange(size) < right, groups).astype(float)
    sample = cluster_sample(values, np.repeat(np.arange(groups), size))
    assert few_clusters(sample, is_share=True) == warning


def test_a_share_has_an_interval_with_a_width_whatever_its_error() -> None:
    """A group of two tasks, 0 of 6 right, has a standard error of 0."""
    assert statistic_interval(0.0, 0.0, 6, is_share=True) == (wilson(0, 6), "wilson")
    assert statistic_interval(1.0, 0.0, 6, is_share=True) == (wilson(6, 6), "wilson")


def test_other_numbers_without_an_error_have_no_interval() -> None:
    """Nothing tells how far other cases may be off."""
    for value, error in ((12.5, 0.0), (12.5, None), (math.nan, 1.0), (12.5, math.inf)):
        assert statistic_interval(value, error, 6, is_share=False) == (None, "")
    bounds = statistic_interval(10.0, 1.0, 6, is_share=False)
    assert bounds.interval == pytest.approx((8.04, 11.96), abs=1e-3)
    assert bounds.method == "normal"
