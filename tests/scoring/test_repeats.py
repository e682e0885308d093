from __future__ import annotations

from collections.abc import Hashable
from fractions import Fraction
from itertools import combinations
from math import comb

import pytest
from hypothesis import given, strategies as st

from assay.scoring.filters import build_majority_vote, build_take_first_k
from assay.scoring.statistics import first_votes, pass_at_k

answer_lists = st.lists(st.sampled_from("abcd"), min_size=1, max_size=20)


@given(st.lists(st.booleans(), min_size=1, max_size=8), st.data())
def test_pass_at_k_is_the_share_of_draws_with_a_right_one(scores: list[bool], data: st.DataObject) -> None:
    """Counted over every way to draw k repeats."""
    k = data.draw(st.integers(1, len(scores)))
    draws = list(combinations(scores, k))
    assert pass_at_k(len(scores), sum(scores), k) == sum(map(any, draws)) / len(draws)


def test_pass_at_k_is_exact_for_many_repeats() -> None:
    """One right of a hundred thousand is neither lost nor rounded."""
    assert pass_at_k(100_000, 1, 1000) == 0.01
    assert pass_at_k(10**18, 1, 1) == 1e-18
    exact = 1 - Fraction(comb(9_000, 4_000), comb(10_000, 4_000))
    assert pass_at_k(10_000, 1_000, 4_000) == float(exact)


@pytest.mark.parametrize(("repeats", "right", "k"), [(4, 5, 1), (4, 1, 5), (4, 1, 0), (4, -1, 1)])
def test_what_cannot_be_drawn_has_no_pass_at_k(repeats: int, right: int, k: int) -> None:
    """More than there is, or nothing, is refused."""
    with pytest.raises(ValueError, match="is not defined"):
        pass_at_k(repeats, right, k)


@given(answer_lists)
def test_votes_are_those_of_the_filters(answers: list[str]) -> None:
    """For every k: what `take_first_k` and then `majority_vote` choose."""
    right: dict[Hashable, bool] = {"a": True, "b": False, "c": True, "d": False}
    chosen = [build_majority_vote()(build_take_first_k(k=k)(answers))[0] for k in range(1, len(answers) + 1)]
    assert first_votes(answers, right) == [right[answer] for answer in chosen]
