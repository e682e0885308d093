"""FUMemory and STMemory: everything within a budget, and the last k."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assay.core.errors import UsageError
from assay.core.memory import Message
from assay.memories import fu_memory, st_memory

from support.memories import around, find, said, tell

SAID = [[said("D1:1", "one two three"), said("D1:2", "four five"), said("D1:3", "six")]]


def bundle(**options: Any) -> list[tuple[str, str]]:
    async def work() -> list[tuple[str, str]]:
        memory = fu_memory.make(around(**options))
        await tell(memory, SAID)
        return [(found.item.id, found.item.text) for found in await find(memory, "?", 1)]

    return asyncio.run(work())


def test_everything_is_given_in_order() -> None:
    assert bundle() == [("D1:1", "one two three"), ("D1:2", "four five"), ("D1:3", "six")]
    assert bundle(words=6) == bundle()


def test_the_newest_words_stay_within_the_budget() -> None:
    """The item at the edge is cut, and keeps its id; one that has nothing left is not there."""
    assert bundle(words=4) == [("D1:1", "three"), ("D1:2", "four five"), ("D1:3", "six")]
    assert bundle(words=3) == [("D1:2", "four five"), ("D1:3", "six")]
    assert bundle(words=0) == []


def test_the_original_keeps_the_oldest() -> None:
    assert bundle(words=4, keep="head") == [("D1:1", "one two three"), ("D1:2", "four")]


def test_what_is_kept_is_tail_or_head() -> None:
    with pytest.raises(UsageError, match="keep is 'tail' or 'head', not 'middle'"):
        bundle(keep="middle")


def test_the_speaker_counts_as_a_word() -> None:
    """The budget is that of the text as it is given."""

    async def work() -> list[str]:
        memory = fu_memory.make(around(words=2))
        await tell(memory, [[Message("D1:1", "hello there", "Ann")]])
        return [found.item.text for found in await find(memory, "?")]

    assert asyncio.run(work()) == ["hello there"]


@pytest.mark.parametrize(("k", "own", "ids"), [(2, 0, [3, 2]), (9, 0, [3, 2, 1]), (9, 1, [3]), (1, 2, [3])])
def test_the_last_k_newest_first(k: int, own: int, ids: list[int]) -> None:
    """The memory's own k only makes it fewer."""

    async def work() -> list[tuple[str, float]]:
        memory = st_memory.make(around(k=own))
        await tell(memory, SAID)
        return [(found.item.id, found.score) for found in await find(memory, "?", k)]

    expected = [(f"D1:{number}", 1 / rank) for rank, number in enumerate(ids, 1)]
    assert asyncio.run(work()) == expected
