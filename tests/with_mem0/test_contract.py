"""What holds for every memory holds for the real mem0 too."""

from __future__ import annotations

import asyncio
import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from assay.core.memory import Memory, Message, find_memory, resolve

from contracts.test_memories import ODD, QUESTIONS, every
from servers.loopback import LoopbackServer
from support.memories import Model, conversation, find, held, tell
from with_mem0.extracting import around

Make = Callable[..., Memory]


@pytest.fixture
def make(tmp_path: Path, server: LoopbackServer) -> Make:
    """A mem0 of one's own each time."""
    numbers = itertools.count()

    def made(model: Model | None = None, **options: Any) -> Memory:
        return find_memory("mem0").make(around(tmp_path / f"case{next(numbers)}", server, model, **options))

    return made


async def _sources(memory: Memory) -> set[str]:
    return {source for item in await held(memory) for source in item.sources}


def test_an_empty_memory_finds_nothing_and_asks_nothing(make: Make, server: LoopbackServer) -> None:
    """Before anything was told, and after sessions and packets without a message."""

    async def work() -> None:
        memory = make()
        await tell(memory, [[], []])
        await resolve(memory.add([]))
        assert await find(memory, "anything?") == []
        assert list(await held(memory)) == []

    asyncio.run(work())
    assert server.bodies == []


def test_ids_count_and_stay(make: Make) -> None:
    """mem0 has ids by chance; ours are places in the order of making, with the packet as sources."""

    async def work() -> None:
        memory, sessions = make(), conversation(4, 6)
        await tell(memory, sessions[:2])
        before = list(await held(memory))
        await tell(memory, sessions[2:])
        after = list(await held(memory))
        assert [item.id for item in after] == [f"mem0:{number}" for number in range(1, 25)]
        assert after[: len(before)] == before
        assert len(before) == 12
        assert after[2].sources == ("D1:3", "D1:4")
        assert {(item.session, item.date) for item in after[-6:]} == {("S04", "2023-05-04")}
        assert await _sources(memory) == set(every(sessions))

    asyncio.run(work())


def test_two_at_work_know_nothing_of_each_other(make: Make) -> None:
    """Each has its own store, also while both work."""

    async def work() -> None:
        first, second, alone = make(), make(), make()
        one, other = conversation(2, 4, "Ann"), conversation(2, 4, "Zoe")
        await asyncio.gather(tell(first, one), tell(second, other))
        await tell(alone, one)
        assert list(await held(first)) == list(await held(alone))
        found = await find(first, "Zoe likes boats", 9)
        assert found
        assert not [each for each in found if "Zoe" in each.item.text]

    asyncio.run(work())


def test_any_text_is_taken_and_asked(make: Make) -> None:
    """Scripts, signs, braces, nothing, and very much, as message and as question."""
    messages = [Message(f"D1:{n}", text, "Åsa 🎈", "S1", "8 May, 2023") for n, text in enumerate(ODD, 1)]

    async def work() -> None:
        memory = make()
        await tell(memory, [messages])
        texts = " ".join(item.text for item in await held(memory))
        assert all(text in texts for text in ODD[:3])
        for question in (*ODD, "?", "\n"):
            assert len(await find(memory, question, 3)) <= 3

    asyncio.run(work())


def test_after_a_reset_it_is_as_new(make: Make, server: LoopbackServer) -> None:
    """It holds nothing, asks nothing, and takes the same conversation in the same way again."""

    async def work() -> None:
        memory, sessions = make(), conversation(2, 6)
        await tell(memory, sessions)
        first, asked = list(await held(memory)), list(server.bodies)
        await resolve(memory.reset())
        server.bodies.clear()
        assert await find(memory, QUESTIONS[0]) == []
        assert list(await held(memory)) == []
        assert server.bodies == []
        await tell(memory, sessions)
        assert (list(await held(memory)), server.bodies) == (first, asked)

    asyncio.run(work())


def test_at_most_k_are_found_each_once(make: Make) -> None:
    """Best first, and with the numbers that mem0 gives; its own k makes it less."""

    async def work() -> None:
        memory, few = make(), make(k=2)
        for each in (memory, few):
            await tell(each, conversation(3, 6))
        known = {item.id for item in await held(memory)}
        for k in (0, 1, 3, 1000):
            found = await find(memory, QUESTIONS[0], k)
            ids = [each.item.id for each in found]
            assert len(ids) == len(set(ids)) == min(k, len(ids))
            assert set(ids) <= known
            scores = [each.score for each in found]
            assert scores == sorted(scores, reverse=True)
            assert all(type(score) is float and math.isfinite(score) for score in scores)
        assert len(await find(memory, QUESTIONS[0], 3)) == 3
        assert len(await find(few, QUESTIONS[0], 9)) == 2

    asyncio.run(work())


def test_what_is_told_after_a_search_is_held(make: Make) -> None:
    """A search freezes nothing, and what was handed out does not change."""

    async def work() -> None:
        memory, sessions = make(), conversation(3, 4)
        for count, session in enumerate(sessions, 1):
            before = await held(memory)
            size = len(before)
            await tell(memory, [session])
            assert len(before) == size
            assert await _sources(memory) == set(every(sessions[:count]))
            assert (await find(memory, session[0].line, 1))[0].item.session == session[0].session

    asyncio.run(work())


def test_the_same_replies_lead_the_same_way(make: Make, server: LoopbackServer) -> None:
    """It asks, holds and finds the same: neither chance nor the clock is in what it asks."""

    async def lived() -> tuple[Any, ...]:
        memory, found = make(), []
        for session in conversation(3, 6):
            await tell(memory, [session])
            found += [await find(memory, question, 4, ("D1:2",)) for question in QUESTIONS]
        return list(await held(memory)), found, _taken(server)

    assert asyncio.run(lived()) == asyncio.run(lived())


def _taken(server: LoopbackServer) -> Sequence[dict[str, Any]]:
    bodies = list(server.bodies)
    server.bodies.clear()
    return bodies


def test_it_holds_a_long_conversation(make: Make, server: LoopbackServer) -> None:
    """200 messages: one extraction and two requests for vectors a packet."""

    async def work() -> None:
        memory, sessions = make(), conversation(100, 2)
        await tell(memory, sessions)
        assert len(await held(memory)) == 200
        asked = len(server.bodies)
        assert asked == 1 + 3 * 100
        found = await find(memory, sessions[41][1].text, 10)
        assert found[0].item.sources == ("D42:1", "D42:2")
        assert len(server.bodies) == asked + 1

    asyncio.run(work())
