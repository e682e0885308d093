"""The system under test: its name, its memories, and runs of it."""

from __future__ import annotations

import os
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

from assay.core.memory import Memory, MemoryContext
from assay.usercode.plugins import find_memory

from servers.loopback import LoopbackServer
from support.commands import Job
from support.memories import Model

SYSTEMS = ("mem0", "langmem", "graphiti", "http")
SYSTEM = os.environ.get("ASSAY_SYSTEM", "http")
EXAMPLES = Path(__file__).parents[2] / "examples"
MakeMemory = Callable[..., Memory]
OPTIONS: dict[str, str] = {}
"""Options that the system needs in every run: the address of the service of `http`."""


def make_memory(folder: Path, server: LoopbackServer, model: Model | None = None, **options: Any) -> Memory:
    """A memory with a folder of its own, and the server where the gateway would be."""
    model = model or Model()
    folder.mkdir(parents=True, exist_ok=True)

    async def base_url() -> str:
        return server.url

    context = MemoryContext(model.ask, model.embed, base_url, folder, random.Random(1), {**OPTIONS, **options})
    return find_memory(SYSTEM).make(context)


def prompts(server: LoopbackServer) -> list[str]:
    """The last message of each request to the model, in order."""
    return [body["messages"][-1]["content"] for body in server.bodies if "messages" in body]


def memory_test(out: Path, server: LoopbackServer, *flags: str, memory: str = SYSTEM) -> Job:
    """`assay memory test` of two shipped conversations at once. Vectors come from the endpoint too."""
    data = ["--data", f"{EXAMPLES}/memory/talks.json", "--limit", "2", "--segments", "1"]
    options = _options() if memory == SYSTEM else []
    subject = ["--memory", memory, "--embedder", "openai/fake", *options]
    return _job(out, server, ["memory", "test", *data, *subject, *flags])


def memory_eval(out: Path, server: LoopbackServer, *flags: str) -> Job:
    """`assay memory eval` of two shipped samples, one of them Chinese, with the judge offline."""
    command = ["memory", "eval", "--dataset", f"{EXAMPLES}/memory-eval", "--sample-id", "june,linyue"]
    return _job(out, server, [*command, "--baseline", SYSTEM, "--judge", "offline", *_options(), *flags])


RUNS = {"memory test": memory_test, "memory eval": memory_eval}


def _options() -> list[str]:
    return ["--memory-args", ",".join(f"{name}={value}" for name, value in OPTIONS.items())] if OPTIONS else []


def _job(out: Path, server: LoopbackServer, command: list[str]) -> Job:
    model = ["--model", "openai/fake", "--base-url", server.url, "--output-dir", str(out)]
    return Job(["-m", "assay", *command, *model], out)
