"""Vectors by hand: cosines, ties, growth, replacement. LTMemory is little more than that."""

from __future__ import annotations

import asyncio

import pytest

from assay.core.memory import MemoryItem
from assay.memories import lt_memory
from assay.memories.helpers.scores import recency
from assay.memories.helpers.vectors import EmbeddedItems

from support.memories import Model, Placed, around, said, searched, tell

PLACED = {"east": (1, 0), "north": (0, 1), "between": (3, 4), "west": (-1, 0), "?": (1, 0)}


def test_the_nearest_are_found_by_cosine() -> None:
    """1, 0.6, 0 and -1, of which k; equal ones in their order."""
    texts = ["west", "north", "east", "between", "east"]
    messages = [said(f"D1:{number}", text) for number, text in enumerate(texts, 1)]

    def found(k: int, own: int) -> list[tuple[str, float]]:
        memory = lt_memory.make(around(Placed(PLACED), k=own))
        asyncio.run(tell(memory, [messages]))
        return searched(memory, "?", k)

    ranked = [("D1:3", 1.0), ("D1:5", 1.0), ("D1:4", 0.6), ("D1:2", 0.0), ("D1:1", -1.0)]
    assert found(9, 0) == ranked
    assert found(3, 0) == found(9, 3) == ranked[:3]


def test_it_grows_and_replaces_in_place() -> None:
    """Each row stays with its item, over several doublings."""

    async def work() -> None:
        embedded = EmbeddedItems(around(Model()))
        for number in range(0, 500, 5):
            await embedded.add([MemoryItem(str(each), f"word{each} of {each}") for each in range(number, number + 5)])
        await embedded.replace(17, MemoryItem("17", "quite another thing"))
        for text, place in (("quite another thing", 17), ("word3 of 3", 3), ("word499 of 499", 499)):
            scores = await embedded.similarity(text)
            assert scores[place] == 1.0
            assert len(scores) == len(embedded.items) == 500
            assert embedded.cosines(embedded.vector(place), [0, place]).tolist() == [scores[0], 1.0]
        assert embedded.items[17].text == "quite another thing"

    asyncio.run(work())


def test_where_embedding_fails_nothing_is_added() -> None:
    """The items and their rows never differ in number."""

    async def work() -> None:
        embedded = EmbeddedItems(around(Placed({"east": (1, 0)})))
        await embedded.add([MemoryItem("1", "east")])
        with pytest.raises(KeyError):
            await embedded.add([MemoryItem("2", "unknown")])
        assert [item.id for item in embedded.items] == ["1"]

    asyncio.run(work())


def test_recency_halves_with_each_step_where_decay_is_a_half() -> None:
    assert recency(0.5, 4, [4, 3, 1]).tolist() == [1.0, 0.5, 0.125]
