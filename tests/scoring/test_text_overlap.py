"""Short answers, counted by hand."""

from __future__ import annotations

import math
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given, strategies as st

from assay.scoring.text_overlap import _stem, abstains, bleu1, exact_match, list_f1, recall, token_f1, tokens


def test_words_that_count() -> None:
    """Case, punctuation, articles and endings do not; each Chinese character is a word."""
    assert tokens("The dogs, and a CAT: running!") == ["dog", "cat", "run"]
    assert tokens("她在2023年5月") == ["她", "在", "2023", "年", "5", "月"]
    assert tokens("the") == []


@pytest.mark.parametrize(
    ("said", "reference", "f1"),
    [
        ("7 May 2023", "7 May 2023", 1.0),
        ("May 2023", "7 May 2023", 0.8),
        ("dog dog", "dog", 2 / 3),
        ("cat", "dog", 0.0),
        ("", "dog", 0.0),
        ("the", "", 1.0),
    ],
)
def test_f1(said: str, reference: str, f1: float) -> None:
    assert token_f1(said, reference) == pytest.approx(f1)


def test_lists_are_compared_part_by_part() -> None:
    """Each part of the reference finds its best partner: one of two, wholly."""
    assert list_f1("swimming, painting", "painting, pottery") == 0.5
    assert list_f1("painting and pottery", "painting, pottery") == pytest.approx(2 / 3)


def test_exact_match_is_in_order() -> None:
    assert exact_match("The Dog.", "dogs") == 1.0
    assert exact_match("dog cat", "cat dog") == 0.0


def test_abstention() -> None:
    assert abstains("That is NOT mentioned in the conversation.")
    assert abstains("No information available")
    assert not abstains("It was blue")


def test_recall_counts_places_once() -> None:
    assert recall(["D1:1", "D1:2"], ["D1:1", "D1:1", "D2:5"]) == 0.5
    assert recall(["D1:1"], []) is None


@pytest.mark.parametrize(
    ("said", "reference", "value"),
    [
        ("the red kite", "red kites", 1.0),
        ("red kite", "kite red", 1.0),
        ("red", "red kite", math.exp(-1)),
        ("red red red", "red kite", 1 / 3),
        ("a red kite flew over", "red kite", 2 / 4),
        ("blue boat", "red kite", 0.0),
        ("", "red kite", 0.0),
        ("red kite", "", 0.0),
        ("", "the", 1.0),
        ("红风", "红风筝", math.exp(1 - 3 / 2)),
    ],
)
def test_bleu1(said: str, reference: str, value: float) -> None:
    """Words count as often as in the reference, and saying less than it does costs."""
    assert bleu1(said, reference) == pytest.approx(value)


@given(st.text(), st.text())
def test_f1_is_symmetric_and_a_share(one: str, two: str) -> None:
    assert token_f1(one, two) == token_f1(two, one)
    assert 0 <= token_f1(one, two) <= 1
    assert token_f1(one, one) == 1


def test_threads_do_not_stem_each_others_words() -> None:
    """A stemmer keeps its word in itself; runs may score side by side."""
    words = [f"{start}{end}" for start in ("relat", "hop", "conflat", "oper") for end in ("ional", "ing", "ed", "ator")]
    texts = [f"{word}{n}x {word}" for n in range(60) for word in words]
    alone = [tokens(text) for text in texts]
    _stem.cache_clear()
    with ThreadPoolExecutor(8) as threads:
        assert list(threads.map(tokens, texts)) == alone
