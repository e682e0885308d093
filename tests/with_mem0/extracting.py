"""A model for mem0: every new message is a fact, dated as the prompt says; vectors are bags of words."""

from __future__ import annotations

import json
import random
import re
import zlib
from pathlib import Path
from typing import Any

from assay.core.memory import MemoryContext

from servers.loopback import LoopbackServer, chat
from support.memories import Model

SIZE = 64
_NEW = re.compile(
    r".*\n\n## New Messages\n(.*)\n\n## Observation Date\n(.*?)\n\n## Current Date\n(.*?)\n\n", re.DOTALL
)


def extracted(prompt: str) -> tuple[list[str], str, str]:
    """The new lines of mem0's prompt, with their roles, and its two dates."""
    found = _NEW.match(prompt)
    assert found is not None
    lines = [line for line in found[1].split("\n") if line.startswith(("user: ", "assistant: "))]
    return lines, found[2], found[3]


def reply(body: dict[str, Any]) -> tuple[int, Any]:
    """The same to the same."""
    if "input" in body:
        rows = [
            {"index": at, "object": "embedding", "embedding": vector(text)}
            for at, text in enumerate(body["input"])
        ]
        return 200, {"object": "list", "model": "fake", "data": rows, "usage": {"prompt_tokens": 3}}
    prompt = body["messages"][-1]["content"]
    if "## New Messages" not in prompt:
        return 200, chat(f"It is {zlib.crc32(prompt.encode()):x}.")
    lines, date, _ = extracted(prompt)
    facts = [{"id": str(at), "text": f"{line} [{date}]"} for at, line in enumerate(lines)]
    return 200, chat(json.dumps({"memory": facts}))


def vector(text: str) -> list[float]:
    """Each word has a place of its own, more or less."""
    row = [0.0] * SIZE
    for word in text.lower().split() or [""]:
        row[zlib.crc32(word.encode()) % SIZE] += 1.0
    return row


def around(folder: Path, server: LoopbackServer, model: Model | None = None, **options: Any) -> MemoryContext:
    """The world of one mem0: a folder of its own, and the server where the gateway would be."""
    model = model or Model()
    folder.mkdir(parents=True, exist_ok=True)

    async def base_url() -> str:
        return server.url

    return MemoryContext(model.ask, model.embed, base_url, folder, random.Random(1), options)


def prompts(server: LoopbackServer) -> list[str]:
    """What mem0 asked the model, in order."""
    return [body["messages"][-1]["content"] for body in server.bodies if "messages" in body]
