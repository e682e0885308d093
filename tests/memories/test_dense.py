"""Search by vectors, against cosines computed one by one."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

from assay.memories import dense

from support.letters import around, embed, letters
from support.memories import messages, searched

texts = st.text("abcdef 猫", max_size=8)


def nearness(said: list[str], question: str, prior: int = 10) -> list[float]:
    rows = [letters(text).astype(float) for text in said]
    mean = sum(rows) / (len(rows) + prior)
    aim = letters(question) - mean
    return [
        float((row - mean) @ aim / (np.linalg.norm(row - mean) * np.linalg.norm(aim))) if row.any() else 0.0
        for row in rows
    ]


@given(st.lists(texts, min_size=1, max_size=12), texts.filter(lambda text: letters(text).any()), st.data())
def test_scores_are_cosines_after_the_mean_is_taken_away(said: list[str], question: str, data: st.DataObject) -> None:
    """However the messages were cut into packets, and whatever was asked between."""
    memory, whole = dense.make(around()), messages(*said)
    cut, k = data.draw(st.integers(0, len(said))), data.draw(st.integers(1, 14))
    asyncio.run(memory.add(whole[:cut]))
    searched(memory, question)
    asyncio.run(memory.add(whole[cut:]))
    wanted, found = nearness(said, question), searched(memory, question, k)
    assert len(found) == min(k, len(said))
    for place, score in found:
        assert score == pytest.approx(wanted[int(place[3:]) - 1], abs=2e-5)
    left_out = sorted(wanted, reverse=True)[len(found) :]
    assert all(score >= max(left_out, default=-1.0) - 2e-5 for _, score in found)


def test_without_centring_it_is_the_plain_cosine() -> None:
    memory = dense.make(around(centre=False))
    asyncio.run(memory.add(messages("ab", "b", "c")))
    assert searched(memory, "b") == [
        ("D1:2", 1.0),
        ("D1:1", pytest.approx(0.5**0.5, abs=1e-5)),
        ("D1:3", 0.0),
    ]


def test_equal_texts_stand_in_their_order() -> None:
    """Among so many rows that products are added up in different orders."""
    memory = dense.make(around())
    asyncio.run(memory.add(messages(*["anna likes tea", "ben likes coffee", "cats"] * 171)))
    found = searched(memory, "anna likes tea", 171)
    assert [place for place, _ in found] == [f"D1:{n}" for n in range(1, 514, 3)]
    assert len({score for _, score in found}) == 1


def test_a_single_message_is_found() -> None:
    """A single message must not equal the mean vector, which would leave no direction."""
    memory = dense.make(around())
    asyncio.run(memory.add(messages("abc")))
    ((place, score),) = searched(memory, "abc")
    assert place == "D1:1"
    assert score > 0.99


@pytest.mark.parametrize("question", ["", "  ", "猫"])
def test_a_question_that_says_nothing_finds_nothing(question: str) -> None:
    """Empty, or without a vector."""
    memory = dense.make(around())
    assert searched(memory, question) == []
    asyncio.run(memory.add(messages("a", "b")))
    assert searched(memory, question) == []


@pytest.mark.parametrize(("k", "count"), [(-1, 0), (0, 0), (2, 2), (100, 3)])
def test_at_most_k_items(k: int, count: int) -> None:
    memory = dense.make(around())
    asyncio.run(memory.add(messages("a", "b", "c")))
    assert len(searched(memory, "a", k)) == count


def test_the_date_is_embedded_unless_it_is_off() -> None:
    seen: list[str] = []

    async def listening(texts: Sequence[str]) -> Any:
        seen.extend(texts)
        return await embed(texts)

    for date in (True, False):
        memory = dense.make(around(listening, date=date))
        asyncio.run(memory.add(messages("hello", date="8 May")))
    assert seen == ["hello 8 May", "hello"]


def test_if_the_embedding_fails_nothing_is_stored() -> None:
    """If the embedding fails, no message is stored, so the same messages can be added again."""

    async def failing(texts: Sequence[str]) -> Any:
        raise OSError(texts[0])

    memory = dense.make(around(failing))
    with pytest.raises(OSError, match="hello"):
        asyncio.run(memory.add(messages("hello")))
    assert memory.items() == []


def test_after_reset_nothing_is_left() -> None:
    """Neither items, nor vectors, nor their mean."""
    memory, fresh = dense.make(around()), dense.make(around())
    asyncio.run(memory.add(messages("zzz", "zy")))
    memory.reset()
    assert (memory.items(), searched(memory, "zzz")) == ([], [])
    for one in (memory, fresh):
        asyncio.run(one.add([]))
        asyncio.run(one.add(messages("a", "ab")))
        one.end_session()
    assert searched(memory, "b") == searched(fresh, "b")
