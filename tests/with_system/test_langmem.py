"""What is langmem's own: its date, its corrections and removals, and its tool calls."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from assay.core.errors import UsageError
from assay.core.memory import Memory, MemoryItem, Message, Turn

from servers.loopback import LoopbackServer, chat
from servers.memory_model import MemoryModel, reply
from support.memories import Model, conversation, find, held, tell
from with_system.systems import MakeMemory, make_memory, prompts

_KNOWN = re.compile(r"<instance id=(\w+) ")


def calls(*made: tuple[str, dict[str, Any]]) -> tuple[int, Any]:
    """A reply that calls tools."""
    value = chat("")
    value["choices"][0]["message"]["tool_calls"] = [
        {
            "id": f"call_{at}",
            "type": "function",
            "function": {"name": name, "arguments": json.dumps(arguments)},
        }
        for at, (name, arguments) in enumerate(made)
    ]
    return 200, value


def known_ids(body: dict[str, Any]) -> list[str]:
    """The ids of the memories that a request shows."""
    return _KNOWN.findall(str(body["messages"]))


async def told(memory: Memory, sessions: Sequence[Sequence[Message]]) -> list[MemoryItem]:
    await tell(memory, sessions, packet=1)
    return list(await held(memory))


def test_the_model_is_told_the_date_of_the_session(make: MakeMemory, server: MemoryModel) -> None:
    """Before each insertion, as a system message; a session without a date says so."""
    days = ["1:56 pm on 8 May, 2023", ""]
    sessions = [[Message(f"D{n}:1", "tea", "Ann", f"S{n}", day)] for n, day in enumerate(days)]
    asyncio.run(tell(make(), sessions))
    dates = [re.findall("Date of these messages: (.*)", prompt) for prompt in prompts(server)]
    assert dates == [["1:56 pm on 8 May, 2023"], ["unknown"]]


def test_turns_are_messages_of_their_role(make: MakeMemory, server: MemoryModel) -> None:
    """The role is printed above each message."""
    turns = (Turn("user", "I am June."), Turn("assistant", "Hello."))
    asyncio.run(tell(make(), [[Message("1", "user: I am June.\nassistant: Hello.", "", "S1", turns=turns)]]))
    parts = re.split(r"=+ (\w+) Message =+\n+", prompts(server)[0])
    assert [(role, text.split("\n")[0]) for role, text in zip(parts[1::2], parts[2::2], strict=True)][1:] == [
        ("Human", "I am June."),
        ("Ai", "Hello."),
    ]


def test_a_corrected_memory_keeps_its_number(tmp_path: Path) -> None:
    """Its text is the new one, and both messages are its sources."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        ids = known_ids(body)
        if not ids:
            return reply(body)
        patch = [{"op": "replace", "path": "/content", "value": "June lives in Cork"}]
        return calls(("PatchDoc", {"json_doc_id": ids[0], "planned_edits": "", "patches": patch}))

    with LoopbackServer(answer) as server:
        items = asyncio.run(told(make_memory(tmp_path, server), conversation(2, 1)))
    assert [(item.id, item.text, item.session) for item in items] == [("langmem:1", "June lives in Cork", "S02")]
    assert items[0].sources == ("D1:1", "D2:1")


@pytest.mark.parametrize("deletes", [True, False])
def test_a_memory_is_removed_if_that_is_allowed(tmp_path: Path, *, deletes: bool) -> None:
    """The tool for it is only offered then. Numbers are not used again."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        ids = known_ids(body)
        names = [tool["function"]["name"] for tool in body["tools"]]
        assert ("RemoveDoc" in names) is (deletes and bool(ids))
        if not ids or not deletes:
            return reply(body)
        return calls(("RemoveDoc", {"json_doc_id": ids[0]}), ("Memory", {"content": "something new"}))

    with LoopbackServer(answer) as server:
        items = asyncio.run(told(make_memory(tmp_path, server, deletes=deletes), conversation(2, 1)))
    expected = ["langmem:2"] if deletes else ["langmem:1", "langmem:2"]
    assert [item.id for item in items] == expected


def test_a_reply_without_tool_calls_adds_nothing(tmp_path: Path) -> None:
    with LoopbackServer(lambda _: (200, chat("I have nothing to add."))) as server:
        assert asyncio.run(told(make_memory(tmp_path, server), conversation(1, 2))) == []


def test_more_steps_ask_more(make: MakeMemory, server: MemoryModel) -> None:
    """Until the model says that it is done; here it never does. None at all are refused."""
    asyncio.run(tell(make(steps=3), conversation(1, 1)))
    assert len(server.bodies) == 3
    with pytest.raises(UsageError, match="steps"):
        make(steps=0)


def test_the_run_decides_model_and_temperature(make: MakeMemory, server: MemoryModel) -> None:
    """The model is what the gateway lists."""
    asyncio.run(tell(make(), conversation(1, 2)))
    assert {(body["model"], body["temperature"]) for body in server.bodies} == {("fake", 0)}
    assert server.kinds == {"tools": 1}


def test_texts_are_stored_in_the_order_of_the_calls(make: MakeMemory) -> None:
    """Also where the vectors of the first take longest. Of texts with equal scores the first is found first."""

    class Slow(Model):
        async def embed(self, texts: Sequence[str]) -> Any:
            self.embedded += texts
            await asyncio.sleep(0.2 / len(self.embedded))
            return np.ones((len(texts), 4), dtype=np.float32) / 2

    async def work() -> list[str]:
        memory = make(Slow())
        await tell(memory, conversation(1, 4), packet=4)
        return [hit.item.id for hit in await find(memory, "Who?", 4)]

    assert asyncio.run(work()) == [f"langmem:{number}" for number in range(1, 5)]
