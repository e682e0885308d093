"""What is graphiti's own: its time, its dated facts, its import, and its telemetry."""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from assay.core.memory import Message, Turn

from servers.loopback import LoopbackServer, chat
from servers.memory_model import MemoryModel, reply
from support.commands import environment
from support.memories import conversation, find, held, tell
from with_system.systems import MakeMemory, make_memory, prompts
from with_system.test_runs import WATCH


def said(number: int, text: str, date: str, **more: Any) -> list[Message]:
    """A session of one message."""
    return [Message(f"D{number}:1", text, "Ann", f"S{number}", date, **more)]


def schema_name(body: dict[str, Any]) -> str:
    name: str = body["response_format"]["json_schema"]["name"]
    return name


def test_the_reference_time_is_that_of_the_session(make: MakeMemory, server: MemoryModel) -> None:
    """A second later for each further message; a date that cannot be read is the last one known."""
    first = [
        *said(1, "likes tea", "1:56 pm on 8 May, 2023"),
        *said(2, "likes boats", "1:56 pm on 8 May, 2023"),
    ]
    asyncio.run(tell(make(), [first, said(3, "likes chess", "later"), said(4, "likes bread", "2024-01-01")]))
    asked = [found[1] for text in prompts(server) if (found := re.search("<REFERENCE_TIME>\n(.{19})", text))]
    assert asked == [
        "2023-05-08 13:56:00",
        "2023-05-08 13:56:01",
        "2023-05-08 13:56:02",
        "2024-01-01 00:00:00",
    ]


def test_a_fact_has_exactly_its_messages_as_sources(make: MakeMemory) -> None:
    """A fact that is said twice is one item."""
    sessions = [said(1, "likes boats", "2023-05-01"), said(2, "likes chess", "2023-05-02")]
    sessions.append(said(3, "likes boats", "2023-05-03"))

    async def work() -> list[tuple[Any, ...]]:
        memory = make()
        await tell(memory, sessions)
        return [(item.id, item.text, item.sources) for item in await held(memory)]

    assert asyncio.run(work()) == [
        ("graphiti:1", "Ann: likes boats", ("D1:1", "D3:1")),
        ("graphiti:2", "Ann: likes chess", ("D2:1",)),
    ]


def test_a_contradicted_fact_stays_and_says_when_it_ended(tmp_path: Path) -> None:
    """Its status is no longer active."""

    def answer(body: dict[str, Any]) -> tuple[int, Any]:
        status, value = reply(body)
        message = value["choices"][0]["message"]
        content = json.loads(message["content"])
        if schema_name(body) == "ExtractedEdges":
            day = "2023-05-01" if "Rome" in str(content["edges"]) else "2023-06-01"
            for edge in content["edges"]:
                edge["valid_at"] = f"{day}T00:00:00Z"
        if schema_name(body) == "EdgeDuplicate":
            content["contradicted_facts"] = [0]
        message["content"] = json.dumps(content)
        return status, value

    sessions = [said(1, "I live in Rome", "2023-05-01"), said(2, "I live in Cork", "2023-06-01")]

    async def work() -> list[Any]:
        with LoopbackServer(answer) as server:
            memory = make_memory(tmp_path, server)
            await tell(memory, sessions)
            return list(await held(memory))

    old, new = asyncio.run(work())
    assert (old.text, old.status, old.kind) == ("Ann: I live in Rome", "invalidated", "graphiti_fact")
    assert old.metadata == {
        "relation": "SPEAKS_OF",
        "valid_at": "2023-05-01T00:00:00+00:00",
        "invalid_at": "2023-06-01T00:00:00+00:00",
    }
    assert (new.text, new.status) == ("Ann: I live in Cork", "active")


def test_turns_are_lines_of_the_episode(make: MakeMemory, server: MemoryModel) -> None:
    """Each with its role as the speaker."""
    turns = (Turn("user", "I am June."), Turn("assistant", "Hello."))
    asyncio.run(tell(make(), [said(1, "x", "", turns=turns)]))
    assert "<CURRENT MESSAGE>\nuser: I am June.\nassistant: Hello.\n</CURRENT MESSAGE>" in prompts(server)[0]


@pytest.mark.parametrize("useless", ["", "no JSON"])
def test_a_useless_reply_is_asked_for_four_times(tmp_path: Path, useless: str) -> None:
    """Without a pause, and then it is an error."""
    with LoopbackServer(lambda _: (200, chat(useless))) as server:
        with pytest.raises(Exception, match="empty response|Expecting value"):
            asyncio.run(tell(make_memory(tmp_path, server), conversation(1, 1)))
        assert len(server.bodies) == 4


def test_facts_are_found_by_their_words(make: MakeMemory) -> None:
    """Kuzu's index of words works, although its driver creates none."""

    async def work() -> str:
        memory = make()
        await tell(memory, conversation(2, 4))
        return (await find(memory, "chess", 1))[0].item.sources[0]

    assert asyncio.run(work()) == "D2:4"


def test_the_database_is_in_its_folder(tmp_path: Path, make: MakeMemory) -> None:
    asyncio.run(tell(make(), conversation(1, 1)))
    assert {path.suffix for path in tmp_path.rglob("graphiti-1*")} <= {".kuzu", ".wal"}
    assert list(tmp_path.rglob("graphiti-1.kuzu"))


def _python(folder: Path, code: str, **more: str) -> str:
    """What a program prints that runs in a folder."""
    env = environment() | {"HOME": str(folder)} | more
    command = [sys.executable, "-c", code]
    ended = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=120, check=False)
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def test_no_env_file_is_read(tmp_path: Path) -> None:
    """Imported as it comes, graphiti puts the variables of `.env` into the environment."""
    (tmp_path / ".env").write_text("FROM_A_FILE=yes\n")
    show = "import os; print(os.environ.get('FROM_A_FILE'))"
    ours = "from assay.memories import graphiti; graphiti.load_package(); "
    assert _python(tmp_path, ours + show).strip() == "None"


def test_the_watch_sees_graphitis_telemetry(tmp_path: Path) -> None:
    """The test of sockets would notice: as it comes, graphiti looks for its server. Nothing gets through."""
    (tmp_path / "sitecustomize.py").write_text(WATCH)
    seen = tmp_path / "seen.jsonl"
    capture = "telemetry.capture_event('x'); import posthog; posthog.flush()"
    more = {"SEEN": str(seen), "PYTHONPATH": f"{environment()['PYTHONPATH']}:{tmp_path}"}
    ours = "from assay.memories import graphiti; graphiti.load_package(); "
    _python(tmp_path, f"{ours}from graphiti_core.telemetry import telemetry; {capture}", **more)
    assert not seen.exists()
    _python(tmp_path, f"from graphiti_core.telemetry import telemetry; {capture}", **more)
    assert "posthog" in seen.read_text()
