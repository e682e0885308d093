"""What holds for every memory, whoever wrote it."""

from __future__ import annotations

import asyncio
import json
import math
from collections import Counter
from collections.abc import Sequence
from typing import Any

import pytest

from assay.core import registry
from assay.core.errors import CaseFailed, ModelError
from assay.core.memory import LINEAR, AboutMemory, Memory, MemoryItem, Message, SearchHit
from assay.core.types import Failure
from assay.usercode.plugins import find_memory

from support.memories import Model, around, conversation, find, held, tell

APART = {"mem0", "langmem", "graphiti", "http"}
"""Whole systems: they need packages or services. tests/with_system has their contract."""
NAMES = [name for name in registry.names("memory") if name not in APART]
ABOUT: dict[str, AboutMemory] = {name: find_memory(name).about for name in NAMES}
HOLDING = [name for name in NAMES if name != "none"]
ASKING = [name for name in NAMES if ABOUT[name].asks]
LIMITED = [name for name in NAMES if not (ABOUT[name].bundle or ABOUT[name].needs_evidence)]
QUESTIONS = ("Who likes boats?", "Lisbon", "What about the violin and chess?")
ODD = (
    "我喜欢在周末去北京看老地图",
    "👩‍👩‍👧‍👦 likes 🥖 and 🎻",
    "אני אוהב לחם \u202eטרם\u202c وأحب الشطرنج",
    "e\u0301 \u00e9 \u200b\u200d\ufeff\u2028 \x1b[31m \U0001d518",
    "{text} {number} <message></message> === user === %s \\1",
    "",
    "   ",
    "long " * 3_000,
)


def make(name: str, model: Model | None = None, **options: Any) -> Memory:
    return find_memory(name).make(around(model, **options))


def every(sessions: Sequence[Sequence[Message]]) -> tuple[str, ...]:
    return tuple(message.id for session in sessions for message in session)


@pytest.mark.parametrize("name", NAMES)
def test_it_says_what_it_is(name: str) -> None:
    """A summary, options that are JSON, and whether it asks or embeds: exactly what it then does."""

    async def work() -> Model:
        model = Model()
        memory = make(name, model)
        await tell(memory, conversation(2, 6))
        for question in QUESTIONS:
            await find(memory, question)
        return model

    about, model = ABOUT[name], asyncio.run(work())
    assert about.summary
    assert json.loads(json.dumps(about.options)) == about.options
    assert (bool(model.asked), bool(model.embedded)) == (about.asks, about.embeds)
    assert bool(about.prompts) == about.asks
    assert all(params["temperature"] == 0 for _, params in model.asked)


@pytest.mark.parametrize("name", NAMES)
def test_an_empty_memory_finds_nothing_and_asks_nothing(name: str) -> None:
    """Before anything was told, after a session without a message, and after an empty packet."""

    async def work() -> None:
        model = Model()
        memory = make(name, model)
        assert await find(memory, "anything?", 5, ("D1:1",)) == []
        await tell(memory, [[], []])
        for _ in range(2):
            await _told_nothing(memory)
        assert not model.asked
        assert not model.embedded

    asyncio.run(work())


async def _told_nothing(memory: Memory) -> None:
    await tell(memory, [[]], packet=1)
    assert await find(memory, "anything?") == []
    assert list(await held(memory)) == []


@pytest.mark.parametrize("name", HOLDING)
def test_ids_are_unique_and_stay(name: str) -> None:
    """What is held as it was said keeps its id and its text while more is told; nothing has no source."""

    async def work() -> None:
        memory, sessions = make(name), conversation(4, 6)
        await tell(memory, sessions[:2])
        before = list(await held(memory))
        await tell(memory, sessions[2:])
        after = {item.id: item for item in await held(memory)}
        assert len(after) == len(await held(memory))
        assert all(after[item.id] == item for item in before if item.kind == LINEAR and item.id in after)
        assert {source for item in after.values() for source in item.sources} == set(every(sessions))
        assert all(isinstance(item, MemoryItem) and item.id and item.session for item in after.values())

    asyncio.run(work())


@pytest.mark.parametrize("name", HOLDING)
def test_what_it_gave_stays_as_it_was(name: str) -> None:
    """A list that was handed out does not change when more is told: deltas are made of two of them."""

    async def work() -> None:
        memory, sessions = make(name), conversation(2, 4)
        await tell(memory, sessions[:1])
        items, found = await held(memory), await find(memory, QUESTIONS[0], 9, every(sessions))
        counts = len(items), len(found)
        await tell(memory, sessions[1:])
        await find(memory, QUESTIONS[0], 9, every(sessions))
        assert (len(items), len(found)) == counts
        assert len(await held(memory)) > counts[0]

    asyncio.run(work())


@pytest.mark.parametrize("name", HOLDING)
def test_nothing_comes_from_another_one(name: str) -> None:
    """Two at work at the same time know nothing of each other."""

    async def work() -> None:
        first, second = make(name), make(name)
        one, other = conversation(2, 4, "Ann"), conversation(2, 4, "Zoe")
        for mine, theirs in zip(one, other, strict=True):
            await tell(first, [mine])
            await tell(second, [theirs])
        alone = make(name)
        await tell(alone, one)
        assert list(await held(first)) == list(await held(alone))
        texts = [item.text for item in await held(first)]
        texts += [found.item.text for found in await find(first, "Zoe", 9, every(one))]
        assert texts
        assert not [text for text in texts if "Zoe" in text]

    asyncio.run(work())


@pytest.mark.parametrize("name", HOLDING)
def test_any_text_is_taken_and_given_back(name: str) -> None:
    """Scripts without spaces or from right to left, signs, braces, nothing, and very much."""
    messages = [Message(f"D1:{number}", text, "Åsa 🎈", "S1", "8 May, 2023") for number, text in enumerate(ODD, 1)]

    async def work() -> None:
        memory = make(name)
        await tell(memory, [messages])
        texts = {item.id: item.text for item in await held(memory) if item.kind == LINEAR}
        assert all(texts[message.id] == message.line for message in messages if message.id in texts)
        for question in (*ODD, "?", "\n"):
            assert len(await find(memory, question, 3, ("D1:1", "D9:9"))) <= len(await held(memory))

    asyncio.run(work())


@pytest.mark.parametrize("name", NAMES)
def test_after_a_reset_it_is_as_new(name: str) -> None:
    """It holds and finds nothing, asks nothing, and takes the same conversation in the same way again."""

    async def work() -> None:
        model = Model()
        memory, sessions = make(name, model), conversation(2, 6)
        await tell(memory, sessions)
        first, asked = list(await held(memory)), list(model.asked)
        await find(memory, QUESTIONS[0])
        model.asked.clear()
        reset = memory.reset()
        if reset is not None:
            await reset
        await _told_nothing(memory)
        assert not model.asked
        await tell(memory, sessions)
        assert (list(await held(memory)), model.asked) == (first, asked)

    asyncio.run(work())


@pytest.mark.parametrize("name", LIMITED)
def test_at_most_k_are_found_each_once(name: str) -> None:
    """Found items are held ones; scores are numbers that JSON has."""

    async def work() -> None:
        memory = make(name)
        await tell(memory, conversation(3, 6))
        known = {item.id for item in await held(memory)}
        for k in (0, 1, 3, 1000):
            found = await find(memory, QUESTIONS[0], k)
            ids = [each.item.id for each in found]
            assert len(ids) == len(set(ids)) <= k
            assert set(ids) <= known
            assert all(type(each.score) is float and math.isfinite(each.score) for each in found)

    asyncio.run(work())


@pytest.mark.parametrize("name", [name for name in NAMES if name not in LIMITED])
def test_what_ignores_k_is_found_once_too(name: str) -> None:
    """Also if a question names a message twice as its evidence."""

    async def work() -> None:
        memory = make(name)
        await tell(memory, conversation(3, 6))
        first = every(conversation(3, 6))[0]
        ids = [each.item.id for each in await find(memory, QUESTIONS[0], 3, (first, first))]
        assert 0 < len(ids) == len(set(ids))

    asyncio.run(work())


@pytest.mark.parametrize("name", [name for name in NAMES if ABOUT[name].bundle])
def test_a_bundle_is_the_same_for_every_k_and_question(name: str) -> None:
    """It is one text, so there is nothing to choose from."""

    async def work() -> None:
        memory = make(name)
        await tell(memory, conversation(3, 6))
        one, other = await find(memory, QUESTIONS[0], 1), await find(memory, QUESTIONS[1], 50)
        assert [each.item for each in one] == [each.item for each in other]
        assert {each.item.id for each in one} == {item.id for item in await held(memory)}

    asyncio.run(work())


@pytest.mark.parametrize("name", HOLDING)
def test_what_is_told_after_a_search_is_held(name: str) -> None:
    """A search freezes nothing."""

    async def work() -> None:
        memory, sessions = make(name), conversation(3, 4)
        for count, session in enumerate(sessions, 1):
            await tell(memory, [session])
            assert {source for item in await held(memory) for source in item.sources} == set(every(sessions[:count]))
            assert await find(memory, QUESTIONS[0], 1000, every(sessions))

    asyncio.run(work())


@pytest.mark.parametrize("name", [name for name in NAMES if not ABOUT[name].needs_evidence])
def test_evidence_changes_nothing(name: str) -> None:
    """Only what declares to need it may look at it."""

    async def work(evidence: tuple[str, ...]) -> list[SearchHit]:
        memory = make(name)
        await tell(memory, conversation(2, 6))
        return await find(memory, "Who likes nothing?", 2, evidence)

    assert asyncio.run(work(())) == asyncio.run(work(("D1:1", "D1:2")))


async def _lived(name: str, model: Model) -> tuple[list[MemoryItem], list[list[SearchHit]]]:
    memory, found = make(name, model), []
    for session in conversation(3, 6):
        await tell(memory, [session])
        found += [await find(memory, question, 4, ("D1:2",)) for question in QUESTIONS]
    return list(await held(memory)), found


@pytest.mark.parametrize("name", NAMES)
def test_the_same_replies_lead_the_same_way(name: str) -> None:
    """Killed at any point and told again what it was told before, it asks, holds and finds the same."""
    first = Model()
    undisturbed = asyncio.run(_lived(name, first))
    for known in {0, 1, len(first.said) // 2, len(first.said)}:
        again = Model(first.said[:known])
        assert asyncio.run(_lived(name, again)) == undisturbed
        assert (again.asked, again.embedded) == (first.asked, first.embedded)


@pytest.mark.parametrize("name", HOLDING)
def test_it_holds_a_long_conversation(name: str) -> None:
    """10,000 messages, or 200 where a model is asked."""
    size = 2 if ABOUT[name].asks else 100

    async def work() -> None:
        model = Model()
        memory, sessions = make(name, model), conversation(100, size)
        await tell(memory, sessions, packet=size)
        assert len(await held(memory)) >= 100 * size
        found = await find(memory, sessions[41][1].text, 10, ("D42:2",))
        assert found
        assert len(model.asked) < 20 * 100 * size

    asyncio.run(work())


class Broken(Model):
    """Everything fails."""

    async def ask(self, messages: Any, params: Any) -> str:
        raise ModelError(Failure("server_error", "the endpoint is gone"))

    async def embed(self, texts: Sequence[str]) -> Any:
        return await self.ask([], {})


@pytest.mark.parametrize("name", [name for name in NAMES if ABOUT[name].asks or ABOUT[name].embeds])
def test_a_failed_call_is_not_swallowed(name: str) -> None:
    """Whoever runs it decides what a failure means."""
    with pytest.raises(ModelError, match="the endpoint is gone"):
        asyncio.run(tell(make(name, Broken()), conversation(1, 2)))


@pytest.mark.parametrize("name", ASKING)
@pytest.mark.parametrize("useless", ["", "\n \n"])
def test_a_useless_reply_is_asked_for_once_more(name: str, useless: str) -> None:
    """With a hint; then it is an error with the memory's name, or what the formula's authors do."""
    model = Model([useless] * 1_000)

    async def work() -> None:
        memory = make(name, model, **({"base": 0.0} if name == "MTMemory" else {}))
        await tell(memory, conversation(2, 2))
        await find(memory, QUESTIONS[0])

    with pytest.raises(CaseFailed, match=f"{name} asked for .* twice"):
        asyncio.run(work())
    asked = Counter(json.dumps(messages) for messages, _ in model.asked)
    assert max(asked.values()) == 1
    assert len(model.asked) % 2 == 0


def test_the_lists_of_names_are_not_empty() -> None:
    """The tests above ran over something."""
    assert {"FUMemory", "STMemory", "LTMemory", "none", "oracle"} <= set(NAMES)
    assert set(ASKING) >= {"GAMemory", "MBMemory", "RFMemory", "SCMemory", "MTMemory", "MGMemory"}
    assert not APART & set(NAMES)
