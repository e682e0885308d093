"""Search terms of texts."""

from __future__ import annotations

import pytest
from hypothesis import given, strategies as st

from assay.memories.helpers.terms import STOP_WORDS, stem, terms


@pytest.mark.parametrize(
    "group",
    [
        "hike hikes hiked hiking",
        "plan plans planned planning",
        "study studies studied studying",
        "go goes went gone going",
        "child children",
        "quick quickly",
        "paint painted painting paintings",
        "party parties",
        "call calls called calling",
        "pass passes passed",
    ],
)
def test_forms_of_a_word_are_one_term(group: str) -> None:
    assert len(set(terms(group))) == 1


@pytest.mark.parametrize("pair", ["bus bug", "this thing", "sing sting", "red reed", "string strong", "gas gate"])
def test_other_words_stay_apart(pair: str) -> None:
    one, other = pair.split()
    assert stem(one) != stem(other)


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("", []),
        ("?! ... 🙂", []),
        ("What is the", []),
        ("Anna's café, ANNA’s cafe", ["anna", "caf", "anna", "caf"]),
        ("don't I'll we've", []),
        ("snake_case 3.5", ["snak", "cas", "3", "5"]),
        ("猫", ["猫"]),
        ("黒猫だ", ["黒", "猫", "だ", "黒猫", "猫だ"]),
        ("iPhone买了", ["iphon", "买", "了", "买了"]),
        ("ｱｲ", ["ア", "イ", "アイ"]),
        ("Straße STRASSE", ["strass", "strass"]),
        ("हिन्दी भाषा।", ["हिन्दी", "भाषा"]),
        ("Привет, мир", ["привет", "мир"]),
    ],
)
def test_terms_of_texts(text: str, wanted: list[str]) -> None:
    """Case, accents and ways to write a character are one; scripts without spaces give characters and pairs."""
    assert terms(text) == wanted


@given(st.text())
def test_any_text_has_terms_without_gaps(text: str) -> None:
    """No term is empty or a stop word, and upper case changes nothing that lower case keeps."""
    found = terms(text)
    assert all(found)
    assert not any(" " in term for term in found)
    if text.isascii():
        assert terms(text.upper()) == found


def test_one_character_of_an_unspaced_script_is_found_in_a_sentence() -> None:
    assert set(terms("猫")) <= set(terms("昨日黒い猫を見た"))


def test_stop_words_are_written_as_words_are_folded() -> None:
    """A stop word that `_normalize` changes would never match."""
    assert all(word.islower() and "'" not in word for word in STOP_WORDS)
