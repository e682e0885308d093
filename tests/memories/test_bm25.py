"""BM25 against its formula, written once more without any index."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.core.memory import Query
from assay.memories import bm25
from assay.memories.helpers.terms import terms

from support.memories import around, messages, searched

WORDS = ["cat", "cats", "dog", "the", "went", "go", "Anna", "猫", "黒猫", "кот", "café", "🙂", "2023"]
texts = st.lists(st.sampled_from(WORDS), max_size=6).map(" ".join)


def made(**options: Any) -> bm25.Bm25Memory:
    return bm25.make(around(**options))


def places(memory: bm25.Bm25Memory, question: str, k: int = 10) -> list[str]:
    return [place for place, _ in searched(memory, question, k)]


def by_formula(docs: Sequence[Sequence[str]], question: set[str], k1: float, b: float) -> list[float]:
    mean = sum(map(len, docs)) / len(docs)
    scores = []
    for doc in docs:
        total = 0.0
        for term, count in Counter(doc).items():
            df = sum(term in other for other in docs)
            idf = math.log(1 + (len(docs) - df + 0.5) / (df + 0.5))
            slack = k1 * (1 - b + b * len(doc) / (mean or 1))
            total += idf * count * (k1 + 1) / (count + slack) if term in question else 0.0
        scores.append(total)
    return scores


@given(st.lists(texts, min_size=1, max_size=12), texts, st.integers(1, 14), st.data())
def test_scores_are_those_of_the_formula(said: list[str], question: str, k: int, data: st.DataObject) -> None:
    """However the messages were cut into packets, and whatever was asked between."""
    k1 = data.draw(st.sampled_from([0.0, 0.5, 1.2, 2.0]))
    b = data.draw(st.sampled_from([0.0, 0.4, 1.0]))
    memory = made(k1=k1, b=b)
    cut = data.draw(st.integers(0, len(said)))
    whole = messages(*said)
    memory.add(whole[:cut])
    memory.search(Query(question), k)
    memory.add(whole[cut:])
    wanted = by_formula([terms(text) for text in said], set(terms(question)), k1, b)
    found = memory.search(Query(question), k)
    assert len(found) == min(k, sum(score > 0 for score in wanted))
    for one in found:
        assert one.score == pytest.approx(wanted[int(one.item.id[3:]) - 1])
    left_out = sorted(wanted, reverse=True)[len(found) :]
    assert all(one.score >= max(left_out, default=0.0) - 1e-9 for one in found)


def test_an_item_is_its_message() -> None:
    """Ids are places, texts have the speaker, and the date stands apart."""
    memory = made()
    memory.add(messages("I went hiking", speaker="Anna", date="8 May, 2023"))
    (found,) = memory.search(Query("hike"), 5)
    assert found.item == memory.items()[0]
    assert (found.item.id, found.item.text, found.item.date) == ("D1:1", "Anna: I went hiking", "8 May, 2023")
    assert found.item.sources == ("D1:1",)


def test_rare_words_count_more_and_equal_texts_stand_in_their_order() -> None:
    memory = made()
    memory.add(messages("red ball", "red car", "red ball", "blue sky", "red ball"))
    assert places(memory, "red ball") == ["D1:1", "D1:3", "D1:5", "D1:2"]
    assert places(memory, "red ball", 2) == ["D1:1", "D1:3"]


def test_speakers_and_dates_are_found_unless_dates_are_off() -> None:
    said = messages("hello", speaker="Anna", date="8 May, 2023")
    with_dates, without = made(), made(date=False)
    with_dates.add(said)
    without.add(said)
    assert places(with_dates, "in May") == ["D1:1"]
    assert places(without, "in May") == []
    assert places(without, "Anna?") == ["D1:1"]


@pytest.mark.parametrize("question", ["", "   ", "?!", "who is it", "🙂", "zebra"])
def test_a_question_that_shares_no_word_finds_nothing(question: str) -> None:
    memory = made()
    assert memory.search(Query(question), 10) == []
    memory.add(messages("a cat", "🙂", ""))
    assert memory.search(Query(question), 10) == []


@pytest.mark.parametrize(("k", "count"), [(-1, 0), (0, 0), (1, 1), (3, 3), (100, 3)])
def test_at_most_k_items(k: int, count: int) -> None:
    memory = made()
    memory.add(messages("cat one", "cat two", "cat three"))
    assert len(memory.search(Query("cats"), k)) == count


def test_after_reset_nothing_is_left() -> None:
    """Neither items nor what their words weighed."""
    memory, fresh = made(), made()
    memory.add(messages("cat cat", "dog", "bird"))
    memory.reset()
    assert (memory.items(), places(memory, "cat dog bird")) == ([], [])
    for one in (memory, fresh):
        one.add(messages("a bird", "a dog and a bird"))
        one.end_session()
    assert memory.search(Query("bird"), 5) == fresh.search(Query("bird"), 5)


def test_messages_without_a_word_are_held_and_break_nothing() -> None:
    """The mean length may be 0."""
    memory = made()
    memory.add(messages("", "🙂"))
    memory.add([])
    assert places(memory, "cat") == []
    memory.add(messages("cat", session="2"))
    assert [item.id for item in memory.items()] == ["D1:1", "D1:2", "D2:1"]
    assert places(memory, "cat") == ["D2:1"]
