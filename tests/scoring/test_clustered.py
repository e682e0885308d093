"""Means of values that come in clusters."""

from __future__ import annotations

import pytest

from assay.scoring.clustered import Values


def summed(*values: tuple[float, int]) -> dict[str, object]:
    """The summary of some values."""
    found = Values()
    for value, cluster in values:
        found.add(value, cluster)
    return found.summary()


def test_nothing_is_null() -> None:
    assert summed() == {"value": None, "n": 0, "clusters": 0, "stderr": None, "interval": None}


def test_one_cluster_says_nothing_of_others() -> None:
    found = summed((1.0, 7), (0.0, 7))
    assert (found["value"], found["n"], found["clusters"]) == (0.5, 2, 1)
    assert (found["stderr"], found["interval"]) == (None, None)


def test_repeated_values_of_a_cluster_add_no_certainty() -> None:
    """Where single values would."""
    alone = [(0.2, 0), (0.5, 1), (0.8, 2)]
    assert summed(*alone, *alone, *alone)["stderr"] == pytest.approx(summed(*alone)["stderr"])


def test_an_interval_stays_within_what_is_possible() -> None:
    """Of two clusters it would be far wider than a share can be."""
    assert summed((0.9, 0), (0.1, 1))["interval"] == (0.0, 1.0)
