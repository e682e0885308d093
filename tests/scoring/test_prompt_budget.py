"""Texts that do not fit a prompt."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from assay.files.redact import Redactor
from assay.scoring.prompt_budget import CHARACTERS, ITEMS, PASSAGE, batches, nearest, shortened


@given(st.lists(st.integers(0, CHARACTERS + 9), max_size=200))
def test_batches_are_neighbours_that_fit(lengths: list[int]) -> None:
    """Together they are all texts in order; a text that alone is too long has a batch of its own."""
    texts = ["x" * length for length in lengths]
    found = [texts[some] for some in batches(texts)]
    assert [text for some in found for text in some] == texts
    assert all(len(some) <= ITEMS for some in found)
    assert all(sum(map(len, some)) <= CHARACTERS or len(some) == 1 for some in found)


def test_batches_are_full() -> None:
    """No request is made that is not needed."""
    assert len(batches(["x"] * 500)) == 13
    assert len(batches(["x" * (CHARACTERS // 4)] * 9)) == 3


def test_texts_that_fit_are_all_there() -> None:
    """If all texts fit, `nearest` returns the same object, so the prompt needs no note about omitted texts."""
    texts = ("a b c",) * 1_800
    assert nearest(texts, ("q",)) is texts


def test_the_most_alike_are_chosen_in_their_order() -> None:
    """One needle in a snapshot of 5,000 texts is found for each thing that is wanted."""
    texts = [f"Memory {number} speaks of rain and of bread and of little else." for number in range(5_000)]
    texts[4_321] = "Ada moved to Oslo in spring."
    texts[17] = "Bob's dog is called Rex."
    found = nearest(texts, ("Ada lives in Oslo", "The dog of Bob"))
    assert sum(map(len, found)) <= CHARACTERS
    assert found.index(texts[17]) < found.index(texts[4_321])
    assert list(found) == sorted(found, key=texts.index)
    assert nearest(texts, ("Ada lives in Oslo", "The dog of Bob")) == found


def test_chinese_texts_are_compared_by_character() -> None:
    """There are no spaces between words."""
    texts = [f"第{number}条记忆:今天下雨,我们在家里吃面包。" for number in range(3_000)]
    texts[2_999] = "小明搬到了奥斯陆。"
    assert texts[2_999] in nearest(texts, ("小明住在奥斯陆",))


@pytest.mark.parametrize("filler", ["word " * 40 + "\n", "字" * 200])
def test_one_endless_text_is_cut_into_passages(filler: str) -> None:
    """A memory that is one long text is looked at where it matters, not at its beginning."""
    text = filler * 500 + " The needle is Oslo. " + filler * 500
    found = nearest((text,), ("Where is the needle? Oslo",))
    assert any("needle is Oslo" in passage for passage in found)
    assert all(len(passage) <= PASSAGE for passage in found)
    assert sum(map(len, found)) <= CHARACTERS
    assert all(passage.strip("…") in text for passage in found)
    # Words have marks where they were cut, so that a part of a secret is recognised.
    assert any("…" in passage for passage in found) == (" " not in filler)


def test_every_wanted_thing_gets_its_best_text_first() -> None:
    """Many texts that are alike to one thing do not crowd out the only one that is alike to another."""
    texts = ["Ada lives in Oslo with her dog. " * 20] * 100 + ["Rex is a dog. " * 40]
    wanted = ("Ada lives in Oslo with a dog", "a dog called Rex")
    assert texts[-1] in nearest(texts, wanted)
    assert texts[-1] in nearest(texts, wanted[::-1])


def test_a_text_that_is_too_long_says_so() -> None:
    """Its beginning stays."""
    assert shortened("x" * CHARACTERS) == "x" * CHARACTERS
    assert shortened("x" * (CHARACTERS + 7)) == "x" * CHARACTERS + "… [7 more characters]"


@pytest.mark.parametrize("secret", ["sk-0f8fad5b9cb", "correct horse battery"])
def test_no_passage_has_a_part_of_a_secret(secret: str) -> None:
    """The log keeps the prompts of judges, and knows whole secrets only."""
    redactor = Redactor([secret])
    for length in range(PASSAGE - len(secret) - 2, PASSAGE + 2):
        text = "x" * length + secret + " y" * PASSAGE
        passages = redactor.clean(nearest([text], ["y"], budget=len(text)))
        assert len(passages) > 1
        assert not any(secret[at : at + 4] in each for each in passages for at in range(len(secret) - 3))
