"""Words that are compared: folded, stemmed, families."""

from __future__ import annotations

from collections import Counter

import pytest

from assay.scoring.offline.numbers import in_digits
from assay.scoring.offline.words import WORD_LISTS, are_similar, fold, function_words, opposites, words_of
from assay.scoring.text_overlap import tokens


def words(text: str) -> tuple[str, ...]:
    return words_of(in_digits(fold(text)))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("Café Müller", "cafe muller"),
        ("e\u0301te\u0301", "été"),
        ("don't", "do not"),
        ("Ana's cat", "Ana cat"),
        ("U.S.", "US"),
        ("twenty-one", "21"),
        ("the 7th", "7"),
        ("PS5", "PS 5"),
        ("mother", "mom"),
        ("went", "gone"),
        ("painting, painted", "paints paint"),
        ("ＡＢＣ", "abc"),
    ],
)
def test_two_ways_to_write_the_same(one: str, two: str) -> None:
    assert words(one) == words(two)


def test_chinese_is_read_by_character() -> None:
    assert words("我有三只猫。") == ("我", "有", "3", "只", "猫")
    assert "的" in function_words()


def test_no_word_is_in_two_families() -> None:
    """A word in two families would equal two words that differ."""
    each = [
        {stem for word in family.split() for stem in tokens(word)}
        for family in (WORD_LISTS / "families.txt").read_text(encoding="utf-8").splitlines()
    ]
    assert all(len(family) > 1 for family in each)
    assert max(Counter(stem for family in each for stem in family).values()) == 1


def test_no_word_is_its_own_opposite() -> None:
    """Two words of one family would be."""
    assert all(word not in others for word, others in opposites().items())


@pytest.mark.parametrize(
    ("one", "two", "same"),
    [
        ("adventur", "adventure", True),
        ("harbor", "harbour", True),
        ("tea", "team", False),
        ("12345", "123456", False),
    ],
)
def test_words_with_the_same_beginning_are_are_similar(one: str, two: str, same: bool) -> None:
    assert are_similar(one, two) is same
