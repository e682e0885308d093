"""Rankings, compared with sorting everything."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from assay.memories.helpers.scores import fuse_ranks, top_places

scores = st.lists(st.sampled_from([-1.0, 0.0, 0.5, 1.0, 2.0]), max_size=30)


@given(scores, st.integers(-2, 35))
def test_the_best_are_those_of_a_stable_sort(values: list[float], k: int) -> None:
    """Equal scores stand in the order of their places, also where only some of them fit."""
    order = sorted(range(len(values)), key=lambda place: -values[place])
    assert top_places(np.array(values), k) == order[: max(k, 0)]


@given(scores, st.integers(0, 35))
def test_nothing_at_or_below_the_bound_is_among_the_best(values: list[float], k: int) -> None:
    order = sorted(range(len(values)), key=lambda place: -values[place])
    assert top_places(np.array(values), k, above=0.5) == [place for place in order if values[place] > 0.5][:k]


def test_fused_orders_add_up_and_ties_stand_in_order() -> None:
    """An item in both rankings scores higher than the first item of one ranking."""
    assert fuse_ranks([(1.0, [3, 1]), (0.5, [1, 2])], 1) == [
        (1, 1 / 3 + 0.25),
        (3, 0.5),
        (2, 0.5 / 3),
    ]
    assert [place for place, _ in fuse_ranks([(1.0, [9, 4]), (1.0, [4, 9])], 60)] == [4, 9]
    assert fuse_ranks([(0.0, [1]), (1.0, [])], 60) == []
