"""Budgets in words."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from assay.memories.helpers.messages import count_words, first_words, join_newest, last_words


@pytest.mark.parametrize(
    ("text", "count"),
    [("", 0), (" a  b\nc ", 3), ("我喜欢", 3), ("我 like 北京!", 5), ("don't", 1), ("時々𠮟る", 4)],
)
def test_words_are_counted_in_any_script(text: str, count: int) -> None:
    """A sign after the last character of a word without spaces is one of its own."""
    assert count_words(text) == count


def test_ends_keep_the_white_space_between_words() -> None:
    text = " one  two\nthree "
    assert first_words(text, 2) == " one  two"
    assert last_words(text, 2) == "two\nthree "
    assert (first_words(text, 0), last_words(text, 0)) == ("", "")
    assert first_words(text, 3) == last_words(text, 3) == text
    assert join_newest(["a b", "c d"], 3) == "b\nc d"


@given(st.text(), st.integers(0, 20))
def test_a_cut_text_has_so_many_words(text: str, most: int) -> None:
    """The cut text has the given number of words and is the beginning or the end of the whole text."""
    head, tail = first_words(text, most), last_words(text, most)
    assert count_words(head) == count_words(tail) == min(most, count_words(text))
    assert text.startswith(head)
    assert text.endswith(tail)
