"""SCMemory: flash memory, activation and summaries, as the model decides."""

from __future__ import annotations

import asyncio

import pytest

from assay.core.memory import SearchHit
from assay.memories import sc_memory

from support.memories import Placed, around, find, said

PLACED = {"a": (1, 0), "b": (3, 4), "c": (0, 1), "d": (0, 1), "?": (1, 0), "late": (0, 1)}
SAID = [said(f"D1:{number}", text) for number, text in enumerate("abcd", 1)]
SUMMARIES = ["sum a", "sum b", "sum c", "sum d"]


def searched(*replies: str, most: int = 9, **options: float) -> tuple[list[SearchHit], Placed]:
    model = Placed(PLACED, [*SUMMARIES, *replies])

    async def work() -> list[SearchHit]:
        memory = sc_memory.make(around(model, **{"flash": 1, "activate": 2, "decay": 0.5, **options}))
        await memory.add(SAID)
        return await find(memory, "?", most)

    return asyncio.run(work()), model


def shown(found: list[SearchHit]) -> list[tuple[str, str]]:
    return [(each.item.id, each.item.text) for each in found]


def test_the_last_messages_alone_where_they_suffice() -> None:
    """Newest first; the model is asked once for each message and once for the search."""
    found, model = searched("yes", flash=2)
    assert shown(found) == [("D1:4", "d"), ("D1:3", "c")]
    assert [each.score for each in found] == [1.0, 0.5]
    assert len(model.asked) == 5
    assert "<messages>\nd\nc\n</messages>\n<question>\n?\n</question>" in model.asked[4][0][1]["content"]


def test_the_best_of_the_older_ones_come_first_in_full() -> None:
    """1 + 1/8 for a, 0.6 + 1/4 for b, 0 + 1/2 for c."""
    found, model = searched("no", "no")
    assert shown(found) == [("D1:1", "a"), ("D1:2", "b"), ("D1:4", "d")]
    assert [each.score for each in found] == pytest.approx([1.125, 0.85, 1.0])
    assert "<summaries>\nsum a\nsum b\n</summaries>" in model.asked[5][0][1]["content"]


def test_older_messages_come_as_summaries_if_these_suffice() -> None:
    """With the ids and sources of the messages that they stand for."""
    found, _ = searched("no", "yes")
    assert shown(found) == [("D1:1", "sum a"), ("D1:2", "sum b"), ("D1:4", "d")]
    assert [each.item.kind for each in found] == ["sc_summary", "sc_summary", "linear"]
    assert found[0].item.sources == ("D1:1",)


def test_k_cuts_the_last_messages_first() -> None:
    assert shown(searched("no", "no", most=1)[0]) == [("D1:1", "a")]
    assert shown(searched("no", "no", k=2)[0]) == [("D1:1", "a"), ("D1:2", "b")]


def test_nothing_is_asked_where_there_is_nothing_older() -> None:
    """And nothing but the older ones where there is no flash memory: no message could suffice."""
    found, model = searched(flash=4)
    assert (len(found), len(model.asked)) == (4, 4)
    found, model = searched("no", flash=0, activate=1)
    assert shown(found) == [("D1:1", "a")]
    assert len(model.asked) == 5


def test_what_was_activated_is_recent_again() -> None:
    """It fades from then on: after one more message a has 0 + 1/2, and c, told before, 1 + 1/4."""
    model = Placed(PLACED, [*SUMMARIES, "no", "no", "sum late", "no", "no"])

    async def work() -> dict[str, float]:
        memory = sc_memory.make(around(model, flash=1, activate=1, decay=0.5))
        await memory.add(SAID)
        await find(memory, "?")
        await memory.add([said("D1:5", "late")])
        memory._options["activate"] = 4
        return {found.item.id: found.score for found in await find(memory, "late")}

    scores = asyncio.run(work())
    assert scores["D1:1"] == pytest.approx(0 + 0.5)
    assert scores["D1:2"] == pytest.approx(0.8 + 0.125)
    assert scores["D1:3"] == pytest.approx(1 + 0.25)
