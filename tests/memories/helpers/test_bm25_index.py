"""BM25 by its formula, and the same numbers whichever way they are added up."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, strategies as st

from assay.memories.helpers import bm25_index
from assay.memories.helpers.bm25_index import Bm25Index

WORDS = st.sampled_from(["ann", "bob", "tea", "rain", "oslo", "cat"])
TEXTS = st.lists(st.lists(WORDS, max_size=12), max_size=40)


def filled(texts: list[list[str]]) -> Bm25Index:
    found = Bm25Index(1.2, 0.4)
    for text in texts:
        found.add([text])
    return found


def test_the_formula() -> None:
    """Two texts, one of which has the word, twice among four."""
    found = filled([["tea", "tea", "rain", "ann"], ["bob", "bob"]])
    idf = math.log(1 + (2 - 1 + 0.5) / (1 + 0.5))
    ((place, score),) = found.search(["tea"], 5)
    assert place == 0
    assert score == pytest.approx(idf * 2 * 2.2 / (2 + 1.2 * (0.6 + 0.4 * 4 / 3)))


def test_empty_searches_return_nothing() -> None:
    """No texts, no terms, unknown terms, or k = 0: nothing is returned."""
    assert filled([]).search(["tea"], 5) == []
    assert filled([["tea"]]).search([], 5) == filled([["tea"]]).search(["rain"], 5) == []
    assert filled([["tea"]]).search(["tea"], 0) == []


@given(TEXTS, st.lists(WORDS, max_size=6), st.integers(0, 12))
def test_both_ways_give_the_same_to_the_bit(texts: list[list[str]], asked: list[str], k: int) -> None:
    """One by one for few postings, by numpy for many: scores and order."""
    found = filled(texts)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(bm25_index, "_FEW_POSTINGS", -1)
        by_numpy = found.search(asked, k)
        patch.setattr(bm25_index, "_FEW_POSTINGS", 1 << 30)
        assert found.search(asked, k) == by_numpy
