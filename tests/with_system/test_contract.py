"""What holds for every memory holds for whole systems too."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError
from assay.core.memory import Memory, Message, Turn, resolve
from assay.usercode.plugins import find_memory

from contracts.test_memories import ODD, QUESTIONS, every
from servers.loopback import LoopbackServer
from servers.memory_model import MemoryModel, reply
from support.memories import Model, conversation, find, held, tell
from with_system.systems import SYSTEM, MakeMemory, make_memory, prompts

Answer = tuple[int, Any]


async def _sources(memory: Memory) -> set[str]:
    return {source for item in await held(memory) for source in item.sources}


def _taken(server: LoopbackServer) -> Sequence[dict[str, Any]]:
    bodies = list(server.bodies)
    server.bodies.clear()
    return bodies


def test_an_empty_memory_finds_nothing_and_asks_nothing(make: MakeMemory, server: MemoryModel) -> None:
    """Before anything was told, and after sessions and packets without a message."""
    model = Model()

    async def work() -> None:
        memory = make(model)
        await tell(memory, [[], []])
        await resolve(memory.add([]))
        assert await find(memory, "anything?") == []
        assert list(await held(memory)) == []

    asyncio.run(work())
    assert server.bodies == []
    assert model.embedded == []


def test_ids_count_and_stay(make: MakeMemory) -> None:
    """Ids of the system are random; ours are places in the order of making. Every message is a source."""

    async def work() -> None:
        memory, sessions = make(), conversation(3, 4)
        await tell(memory, sessions[:2])
        before = list(await held(memory))
        await tell(memory, sessions[2:])
        after = list(await held(memory))
        assert [item.id for item in after] == [f"{SYSTEM}:{number}" for number in range(1, 13)]
        assert after[: len(before)] == before
        assert len(before) == 8
        assert {(item.session, item.date) for item in after[-4:]} == {("S03", "2023-05-03")}
        assert await _sources(memory) == set(every(sessions))

    asyncio.run(work())


def test_two_at_work_know_nothing_of_each_other(make: MakeMemory) -> None:
    """Each has its own store, also while both work."""

    async def work() -> None:
        first, second, alone = make(), make(), make()
        one, other = conversation(2, 4, "Ann"), conversation(2, 4, "Zoe")
        await asyncio.gather(tell(first, one), tell(second, other))
        await tell(alone, one)
        assert list(await held(first)) == list(await held(alone))
        hits = await find(first, "Zoe likes boats", 9)
        assert hits
        assert not [hit for hit in hits if "Zoe" in hit.item.text]

    asyncio.run(work())


def test_any_text_is_taken_and_asked(make: MakeMemory) -> None:
    """Scripts, signs, braces, nothing, and very much, as message and as question."""
    messages = [Message(f"D1:{n}", text, "Åsa 🎈", "S1", "8 May, 2023") for n, text in enumerate(ODD, 1)]

    async def work() -> None:
        memory = make()
        await tell(memory, [messages])
        assert ODD[0] in " ".join(item.text for item in await held(memory))
        for question in (*ODD, "?", "\n"):
            assert len(await find(memory, question, 3)) <= 3

    asyncio.run(work())


def test_after_a_reset_it_is_as_new(make: MakeMemory, server: MemoryModel) -> None:
    """It holds nothing, asks nothing, and takes the same conversation in the same way again."""

    async def work() -> None:
        memory, sessions = make(), conversation(2, 4)
        await tell(memory, sessions)
        first, asked = list(await held(memory)), _taken(server)
        await resolve(memory.reset())
        assert await find(memory, QUESTIONS[0]) == []
        assert list(await held(memory)) == []
        assert server.bodies == []
        await tell(memory, sessions)
        assert (list(await held(memory)), server.bodies) == (first, asked)

    asyncio.run(work())


def test_at_most_k_are_found_each_once(make: MakeMemory) -> None:
    """Best first, with finite scores; its own k makes it less."""

    async def work() -> None:
        memory, few = make(), make(k=2)
        for each in (memory, few):
            await tell(each, conversation(2, 4))
        known = {item.id for item in await held(memory)}
        for k in (0, 1, 3, 1000):
            hits = await find(memory, QUESTIONS[0], k)
            ids = [hit.item.id for hit in hits]
            assert len(ids) == len(set(ids)) <= k
            assert set(ids) <= known
            scores = [hit.score for hit in hits]
            assert scores == sorted(scores, reverse=True)
            assert all(type(score) is float and math.isfinite(score) for score in scores)
        assert len(await find(memory, QUESTIONS[0], 3)) == 3
        assert len(await find(few, QUESTIONS[0], 9)) == 2

    asyncio.run(work())


def test_what_is_told_after_a_search_is_held(make: MakeMemory) -> None:
    """A search freezes nothing, and what was handed out does not change."""

    async def work() -> None:
        memory, sessions = make(), conversation(3, 2)
        for count, session in enumerate(sessions, 1):
            before = await held(memory)
            size = len(before)
            await tell(memory, [session])
            assert len(before) == size
            assert await _sources(memory) == set(every(sessions[:count]))
            assert (await find(memory, session[0].line, 1))[0].item.session == session[0].session

    asyncio.run(work())


def test_the_same_replies_lead_the_same_way(make: MakeMemory, server: MemoryModel) -> None:
    """It asks, holds and finds the same: neither chance nor the clock is in what it asks."""

    async def lived() -> tuple[Any, ...]:
        model = Model()
        memory, hits = make(model), []
        for session in conversation(3, 4):
            await tell(memory, [session])
            hits += [await find(memory, question, 4, ("D1:2",)) for question in QUESTIONS]
        return list(await held(memory)), hits, _taken(server), model.embedded

    assert asyncio.run(lived()) == asyncio.run(lived())


def test_it_holds_a_long_conversation(make: MakeMemory) -> None:
    """60 messages; what was said in the middle is found."""

    async def work() -> None:
        memory, sessions = make(), conversation(30, 2)
        await tell(memory, sessions)
        assert len(await held(memory)) == 60
        hits = await find(memory, sessions[14][1].line, 10)
        assert "D15:2" in {source for hit in hits for source in hit.item.sources}

    asyncio.run(work())


def test_today_is_the_date_of_the_session(make: MakeMemory, server: MemoryModel) -> None:
    """No request has the date of the clock."""
    sessions = [[Message(f"D{n}:1", "I like tea", "Ann", f"S{n}", "2019-03-05")] for n in range(2)]
    now = datetime.now(UTC)
    asyncio.run(tell(make(), sessions))
    assert server.bodies
    asked = str(server.bodies)
    assert not [form for form in ("%Y-%m-%d", "%d %B", "%B %d, %Y", "%b %d") if now.strftime(form) in asked]


def test_roles_are_passed_as_roles(make: MakeMemory, server: MemoryModel) -> None:
    """A round of user and assistant is two chat messages; neither is put into the other's mouth."""
    turns = (Turn("user", "I moved to Lisbon."), Turn("assistant", "How is the weather?"))
    told = Message("D1:1", "user: I moved to Lisbon.\nassistant: How is the weather?", "", "S1", "2024-01-02", turns)
    asyncio.run(tell(make(), [[told]]))
    asked = " ".join(prompts(server))
    assert "Lisbon" in asked
    assert "user: user" not in asked
    assert "Human Message" in asked or "user: I moved to Lisbon.\nassistant: How is the weather?" in asked


@pytest.mark.parametrize("failing", range(3))
def test_a_failed_call_is_not_swallowed(tmp_path: Path, failing: int) -> None:
    """Whichever request fails, the operation fails, and nothing is asked after it."""
    count = 0

    def answer(body: dict[str, Any]) -> Answer:
        nonlocal count
        count += 1
        if count > failing:
            return 502, {"error": {"message": "it is gone", "type": "server_error", "code": "server_error"}}
        return reply(body)

    async def work() -> None:
        with LoopbackServer(answer) as server:
            memory = make_memory(tmp_path, server)
            for session in conversation(3, 2):
                await tell(memory, [session])

    with pytest.raises(ModelError, match="it is gone") as caught:
        asyncio.run(work())
    assert caught.value.failure.kind == "server_error"
    assert caught.value.failure.status == "infra_error"
    assert count == failing + 1


if find_memory(SYSTEM).about.embeds:

    def test_a_failed_embedding_is_not_swallowed(make: MakeMemory) -> None:
        """The run decides what the failure means."""

        class NoVectors(Model):
            async def embed(self, texts: Sequence[str]) -> Any:
                raise ModelError(_failure())

        with pytest.raises(ModelError, match="no vectors today"):
            asyncio.run(tell(make(NoVectors()), conversation(1, 2)))


def _failure() -> Any:
    from assay.core.types import Failure

    return Failure("server_error", "no vectors today")


def test_surroundings_lead_nowhere_else(make: MakeMemory, server: MemoryModel, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither a proxy nor the addresses and keys of others in the environment."""
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "OPENAI_BASE_URL", "OPENROUTER_API_BASE"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/v1")
    monkeypatch.setenv("OPENROUTER_API_KEY", "sk-secret")
    asyncio.run(tell(make(), conversation(1, 2)))
    assert server.bodies
    assert "sk-secret" not in str(server.heads)


def test_its_version_is_part_of_the_run() -> None:
    """Another version asks with other words."""
    about = find_memory(SYSTEM).about
    assert about.asks
    assert about.prompts
