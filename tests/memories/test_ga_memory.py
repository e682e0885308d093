"""GAMemory on numbers by hand: cosine, recency, importance, reflection."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from assay.core.memory import MemoryItem
from assay.memories import ga_memory

from support.memories import Placed, around, find, held, said, tell

PLACED = {"a": (1, 0), "b": (0, 1), "c": (3, 4), "?": (1, 0), "q1": (1, 0), "q2": (0, 1)}
PLACED |= {"i1": (1, 1), "i2": (1, -1)}
SAID = [said("D1:1", "a"), said("D1:2", "b"), said("D1:3", "c")]


def test_the_score_is_the_sum_of_three() -> None:
    """Cosines 1, 0, 0.6; two, one and no messages ago; importance 1, 10, 5."""
    model = Placed(PLACED, ["1", "10", "5"])

    async def work() -> dict[str, float]:
        memory = ga_memory.make(around(model, decay=0.5))
        await memory.add(SAID)
        return {found.item.id: found.score for found in await find(memory, "?", 3)}

    expected = {"D1:3": 0.6 + 1 + 0.5, "D1:2": 0 + 0.5 + 1.0, "D1:1": 1 + 0.25 + 0.1}
    found = asyncio.run(work())
    assert found == pytest.approx(expected)
    assert list(found) == list(expected)


def test_what_was_found_is_recent_again() -> None:
    """Only items that were found become recent; the others keep fading."""
    model = Placed(PLACED, ["1", "1", "1"])

    async def work() -> list[tuple[str, float]]:
        memory = ga_memory.make(around(model, decay=0.5))
        await memory.add(SAID[:2])
        (first,) = await find(memory, "?", 1)
        assert first.item.id == "D1:1"
        assert first.score == pytest.approx(1 + 0.5 + 0.1)
        await memory.add(SAID[2:])
        return [(found.item.id, found.score) for found in await find(memory, "?", 3)]

    ranked = asyncio.run(work())
    assert dict(ranked) == pytest.approx({"D1:3": 0.6 + 1 + 0.1, "D1:1": 1 + 0.5 + 0.1, "D1:2": 0 + 0.5 + 0.1})


def reflected(*replies: str, **options: Any) -> tuple[list[MemoryItem], Placed]:
    model = Placed(PLACED, ["1", "1", "1", *replies])

    async def work() -> list[MemoryItem]:
        memory = ga_memory.make(around(model, **options))
        await tell(memory, [SAID])
        return list(await held(memory))

    return asyncio.run(work()), model


def test_a_session_that_matters_leads_to_insights() -> None:
    """The last two items raise questions; what is nearest to each leads to insights with these sources."""
    items, model = reflected("q1\nq2", "i1\ni2", "9", "9", recent=2, reflect_at=0.3)
    assert [(item.id, item.text) for item in items[3:]] == [("insight:1", "i1"), ("insight:2", "i2")]
    assert {item.sources for item in items[3:]} == {("D1:1", "D1:3", "D1:2")}
    assert {(item.kind, item.session, item.date) for item in items[3:]} == {("ga_insight", "D1", "2023-05-08")}
    asked = [messages[1]["content"] for messages, _ in model.asked]
    assert "<statements>\nb\nc\n</statements>" in asked[3]
    assert "<statements>\na\nc\nb\n</statements>" in asked[4]
    assert "<message>\ni1\n</message>" in asked[5]
    assert len(asked) == 7


@pytest.mark.parametrize("options", [{"reflect_at": 0.31}, {"questions": 0}, {"insights": 0}, {"recent": 0}])
def test_it_reflects_only_when_told_to(options: dict[str, Any]) -> None:
    """Importance 0.3 does not reach a `reflect_at` of 0.31, and `questions=0` switches reflection off."""
    items, model = reflected(**options)
    assert (len(items), len(model.asked)) == (3, 3)


def test_importance_is_gathered_anew_after_a_reflection() -> None:
    """What the insights themselves are worth counts for the next time."""
    model = Placed(PLACED, ["4", "q1", "i1", "1", "1", "q1", "i2", "1"])

    async def work() -> list[str]:
        memory = ga_memory.make(around(model, reflect_at=0.4, questions=1, insights=1))
        await tell(memory, [SAID[:1], []])
        await tell(memory, [SAID[1:2]])
        return [item.id for item in await held(memory)]

    assert asyncio.run(work()) == ["D1:1", "insight:1", "D1:2"]


def test_without_a_rating_it_is_four() -> None:
    """After two replies without a rating the importance is 4."""
    model = Placed(PLACED, ["none", "no idea"])

    async def work() -> float:
        memory = ga_memory.make(around(model))
        await memory.add(SAID[:1])
        return (await find(memory, "?", 1))[0].score

    assert asyncio.run(work()) == pytest.approx(1 + 1 + 0.4)
    assert len(model.asked) == 2
