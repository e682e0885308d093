"""MBMemory: days, summaries, and the curve of forgetting on numbers by hand."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import msgspec
import pytest

from assay.core.errors import UsageError
from assay.core.memory import MemoryContext, MemoryItem, SearchHit
from assay.memories import mb_memory
from assay.memories.mb_memory import retention

from support.memories import Model, Placed, around, find, held, said, tell


class Chances(random.Random):
    """A random generator that returns given numbers in order and raises when none are left."""

    def __init__(self, *chances: float) -> None:
        super().__init__()
        self.chances = list(chances)

    def random(self) -> float:
        return self.chances.pop(0)


def with_chances(model: Model, *chances: float, **options: Any) -> MemoryContext:
    return msgspec.structs.replace(around(model, **options), rng=Chances(*chances))


def test_retention_falls_with_time_and_more_slowly_for_what_is_strong() -> None:
    """exp(-10 / (5 * 2)) is 1/e; MemEngine's formula is exp(-10 / 5 * 2)."""
    assert retention(0, 1, 5) == 1
    assert retention(5, 1, 5) == pytest.approx(1 / math.e)
    assert retention(10, 2, 5) == pytest.approx(1 / math.e)
    assert retention(10, 2, 5, original=True) == pytest.approx(math.exp(-4))
    assert retention(5, 1, 5, original=True) == retention(5, 1, 5)


PLACED = {"a": (1, 0), "b": (3, 4), "c": (0, 1), "?": (1, 0)}
PLACED |= {f"day {n}": (-1, n) for n in range(1, 5)} | {"day 1 again": (-1, 9)}
DAYS = [
    [said("D1:1", "a", "2023-05-08")],
    [said("D2:1", "b", "2023-05-09")],
    [said("D3:1", "c", "2023-05-10")],
]


def days(number: int) -> list[str]:
    return [text for day in range(1, number + 1) for text in (f"day {day}", f"all {day}")]


def test_each_day_is_summarised_and_all_days_are() -> None:
    """The overview is rewritten in its place and names no message; a day's summary names its own."""
    model = Placed(PLACED, days(2))

    async def work() -> list[MemoryItem]:
        memory = mb_memory.make(around(model))
        await tell(memory, DAYS[:2])
        return list(await held(memory))

    items = asyncio.run(work())
    ids = ["summary:all", "D1:1", "summary:2023-05-08", "D2:1", "summary:2023-05-09"]
    assert [item.id for item in items] == ids
    assert (items[0].text, items[0].sources, items[0].session) == ("all 2", (), "D2")
    assert (items[2].text, items[2].sources, items[2].kind) == ("day 1", ("D1:1",), "mb_summary")
    asked = [messages[1]["content"] for messages, _ in model.asked]
    assert '<conversation date="2023-05-09">\nb\n</conversation>' in asked[2]
    assert "<summaries>\n2023-05-08: day 1\n2023-05-09: day 2\n</summaries>" in asked[3]


def test_a_second_session_of_a_day_rewrites_its_summary() -> None:
    """The same id and another text; both sessions are its sources."""
    model = Placed(PLACED, ["day 1", "all 1", "day 1 again", "all 1 again"])

    async def work() -> dict[str, MemoryItem]:
        memory = mb_memory.make(around(model))
        await tell(memory, [DAYS[0], [said("D2:1", "b", "2023-05-08")]])
        scores = {found.item.id: found.score for found in await find(memory, "?", 9)}
        assert scores["summary:2023-05-08"] == pytest.approx(-1 / math.hypot(1, 9), abs=1e-6)
        return {item.id: item for item in await held(memory)}

    items = asyncio.run(work())
    assert set(items) == {"summary:all", "summary:2023-05-08", "D1:1", "D2:1"}
    assert items["summary:2023-05-08"].text == "day 1 again"
    assert items["summary:2023-05-08"].sources == ("D1:1", "D2:1")


def test_a_new_day_closes_the_last_one_without_being_told() -> None:
    """Where no session's end was told, in the middle of a packet too."""
    model = Placed(PLACED, days(2))

    async def work() -> list[str]:
        memory = mb_memory.make(around(model))
        await memory.add([*DAYS[0], *DAYS[1]])
        return [item.id for item in await held(memory)]

    assert asyncio.run(work()) == ["summary:all", "D1:1", "summary:2023-05-08", "D2:1"]


async def searched(memory: mb_memory.MemoryBank, k: int = 9) -> list[str]:
    return [found.item.id for found in await find(memory, "?", k)]


def test_what_is_nearest_is_kept_by_chance() -> None:
    """After a day more, e^(-1/5) = 0.8187 is the chance of the older ones; of today's it is 1."""

    async def work(*chances: float, k: int = 9) -> list[str]:
        memory = mb_memory.make(with_chances(Placed(PLACED, days(2)), *chances))
        await tell(memory, DAYS[:2])
        return await searched(memory, k)

    every = ["summary:all", "D1:1", "D2:1", "summary:2023-05-09", "summary:2023-05-08"]
    assert asyncio.run(work(0.81, 0.99, 0.99, 0.81)) == every
    assert asyncio.run(work(0.82, 0.99, 0.99, 0.82)) == ["summary:all", "D2:1", "summary:2023-05-09"]
    assert asyncio.run(work(0.82, 0.99, k=2)) == ["summary:all", "D2:1"]
    assert asyncio.run(work(k=1)) == ["summary:all"]
    assert asyncio.run(work(k=0)) == []


@pytest.mark.parametrize(("original", "edge"), [(False, math.exp(-1 / 10)), (True, math.exp(-2 / 5))])
def test_what_was_found_is_stronger(original: bool, edge: float) -> None:
    """Found on the second day, on the third it is a day old with strength 2; in the original neither."""

    async def work(chance: float) -> list[str]:
        rest = [0.0] * 100
        memory = mb_memory.make(with_chances(Placed(PLACED, days(3)), *[0.0] * 4, original=original))
        await tell(memory, DAYS[:2])
        await searched(memory)
        memory._rng = Chances(chance, *rest)
        await tell(memory, DAYS[2:])
        return await searched(memory)

    assert "D1:1" in asyncio.run(work(edge - 0.001))
    assert "D1:1" not in asyncio.run(work(edge + 0.001))


def test_days_without_a_date_are_sessions() -> None:
    """And with neither, all is one day."""

    async def work(session: str) -> list[str]:
        memory = mb_memory.make(around())
        await tell(memory, [[msgspec.structs.replace(DAYS[0][0], date="", session=session)]])
        return [item.id for item in await held(memory)]

    assert "summary:S1" in asyncio.run(work("S1"))
    assert "summary:undated" in asyncio.run(work(""))


def test_no_coefficient_is_refused() -> None:
    with pytest.raises(UsageError, match="coef must be above 0"):
        mb_memory.make(around(coef=0))


def test_a_day_longer_than_its_budget_is_summarised_from_its_end() -> None:
    model = Model()

    async def work() -> list[SearchHit]:
        memory = mb_memory.make(around(model, day_words=2))
        await tell(memory, [[said("D1:1", "one two three four")]])
        return await find(memory, "?")

    assert asyncio.run(work())
    assert ">\nthree four\n<" in model.asked[0][0][1]["content"]
