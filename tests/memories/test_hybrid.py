"""Both searches together, and what stands around a message."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from assay.core.memory import Query
from assay.memories import bm25, dense, hybrid

from support.letters import around
from support.memories import messages, searched

ALONE = {"before": 0, "after": 0, "session": 0, "speaker": 0}
SAID = ("red ball", "blue sky", "the ball rolled", "redder", "green tree", "ballet")


def filled(*said: str, **options: Any) -> hybrid.HybridMemory:
    memory = hybrid.make(around(**options))
    asyncio.run(memory.add(messages(*said)))
    return memory


def test_scores_are_reciprocal_ranks_of_both_orders() -> None:
    """Without context the orders are those of the two memories alone."""
    words, near = bm25.make(around()), dense.make(around())
    words.add(messages(*SAID))
    asyncio.run(near.add(messages(*SAID)))
    wanted: dict[str, float] = {}
    for weight, found in (
        (1.0, words.search(Query("red ball"), 6)),
        (0.3, asyncio.run(near.search(Query("red ball"), 6))),
    ):
        for rank, one in enumerate(found, 1):
            wanted[one.item.id] = wanted.get(one.item.id, 0.0) + weight / (60 + rank)
    found_here = searched(filled(*SAID, **ALONE), "red ball", 6)
    assert dict(found_here) == pytest.approx(wanted)
    assert [score for _, score in found_here] == sorted(wanted.values(), reverse=True)


def test_an_answer_is_found_by_the_question_before_it() -> None:
    """The answer shares no word and no letter with the question."""
    said = ("uvw xy", "zebra ball", "uvw mm", "mm", "uvw xy")
    found = searched(filled(*said, weight=0, session=0), "zebra")[:2]
    assert [place for place, _ in found] == ["D1:2", "D1:3"]
    assert [score for _, score in found] == pytest.approx([1 / 61, 1 / 62])
    assert [place for place, _ in searched(filled(*said, weight=0, **ALONE), "zebra")] == ["D1:2"]


def test_context_ends_with_its_session() -> None:
    """By another name, or where the end was told."""
    for ended, second in ((True, "1"), (False, "2")):
        memory = hybrid.make(around(weight=0, session=0))
        asyncio.run(memory.add(messages("a zebra")))
        if ended:
            memory.end_session()
        asyncio.run(memory.add(messages("mmm", session=second)))
        assert [place for place, _ in searched(memory, "zebra")] == ["D1:1"]


def test_words_alone_and_vectors_alone() -> None:
    """A question without a known word is answered by vectors; one without a vector by words."""
    memory = filled("abc", "xyz", "猫がいる", **ALONE)
    assert searched(memory, "yx")[0][0] == "D1:2"
    assert [place for place, _ in searched(memory, "猫")] == ["D1:3"]


@pytest.mark.parametrize("question", ["", " \n", "🙂"])
def test_a_question_that_says_nothing_finds_nothing(question: str) -> None:
    assert searched(hybrid.make(around()), question) == []
    assert searched(filled(*SAID), question) == []


@pytest.mark.parametrize(("k", "count"), [(-1, 0), (0, 0), (1, 1), (100, 6)])
def test_at_most_k_items(k: int, count: int) -> None:
    """More than `depth` too, if so many are asked for."""
    assert len(searched(filled(*SAID, depth=1), "red ball", k)) == count


def test_equal_texts_stand_in_their_order() -> None:
    memory = filled(*["red ball"] * 5, **ALONE)
    assert [place for place, _ in searched(memory, "ball", 3)] == ["D1:1", "D1:2", "D1:3"]


def test_if_the_embedding_fails_nothing_is_stored() -> None:
    """If the embedding fails, the messages are not in the word index either."""

    async def failing(texts: Sequence[str]) -> Any:
        raise OSError(texts[0])

    memory = hybrid.make(around(failing))
    with pytest.raises(OSError, match="zebra"):
        asyncio.run(memory.add(messages("zebra")))
    assert memory.items() == []
    assert len(memory._index.scores(["zebra"])) == 0


def test_after_a_search_more_is_added_and_after_reset_nothing_is_left() -> None:
    memory, fresh = filled("zebra"), hybrid.make(around())
    searched(memory, "zebra")
    asyncio.run(memory.add(messages("zebra zebra", session="2")))
    assert {place for place, _ in searched(memory, "zebra")} == {"D1:1", "D2:1"}
    memory.reset()
    assert (memory.items(), searched(memory, "zebra")) == ([], [])
    for one in (memory, fresh):
        asyncio.run(one.add([]))
        asyncio.run(one.add(messages(*SAID)))
    assert searched(memory, "ball") == searched(fresh, "ball")
