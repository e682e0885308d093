from __future__ import annotations

from collections import Counter
from fractions import Fraction
from itertools import combinations, permutations
from math import comb

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.scoring.repeats import draw_sizes, maj_at_k, majority_curve, pass_at_k, pass_curve

answer_lists = st.lists(st.sampled_from("abcd"), min_size=1, max_size=6)


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
    with pytest.raises(ValueError, match="does not exist"):
        pass_at_k(repeats, right, k)


@given(answer_lists, st.data())
def test_maj_at_k_is_the_mean_over_every_order_of_every_draw(answers: list[str], data: st.DataObject) -> None:
    """Counted by hand: draw k in every order, vote, and let the first drawn win a tie."""
    k = data.draw(st.integers(1, len(answers)))
    worth = {"a": 1.0, "b": 0.0, "c": 0.5, "d": 0.0}
    winners = [Counter(order).most_common(1)[0][0] for order in permutations(answers, k)]
    expected = sum(worth[winner] for winner in winners) / len(winners)
    assert maj_at_k(answers, [worth[answer] for answer in answers], k) == pytest.approx(expected, abs=1e-12)


@given(st.lists(st.sampled_from("abcdefgh"), min_size=1, max_size=40))
def test_one_of_all_answers_wins(answers: list[str]) -> None:
    """If every answer is worth 1 so is every vote; one vote is worth what an answer is on average."""
    curve = majority_curve(answers, [1.0] * len(answers))
    assert list(curve) == draw_sizes(len(answers))
    assert list(curve.values()) == pytest.approx([1.0] * len(curve))
    right = [float(answer == "a") for answer in answers]
    assert maj_at_k(answers, right, 1) == pytest.approx(sum(right) / len(right))


def test_a_majority_grows_and_a_minority_fades() -> None:
    """With 64 repeats, six in ten right: more votes are surer. Four in ten: they are surely wrong."""
    answers = ["a"] * 39 + ["b"] * 25
    right = majority_curve(answers, [float(answer == "a") for answer in answers])
    wrong = majority_curve(answers, [float(answer == "b") for answer in answers])
    assert list(right) == [1, 2, 4, 8, 16, 32, 64]
    assert right[1] == 39 / 64 < right[8] < right[32] < right[64] == 1.0
    assert wrong[64] == 0.0
    assert right[16] + wrong[16] == pytest.approx(1.0)


def test_curves_tell_every_k_where_there_are_few() -> None:
    """Three repeats have three k."""
    assert pass_curve([0.0, 1.0, 0.0]) == {1: 1 / 3, 2: 2 / 3, 3: 1.0}
    assert draw_sizes(40) == [1, 2, 4, 8, 16, 32, 40]
    with pytest.raises(ValueError, match="k is at most n"):
        maj_at_k(["a"], [1.0], 2)
