"""kill -9 again and again while a memory asks a model: the file is that of an undisturbed run, nothing is asked twice."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from servers.fake_openai import FakeOpenAI
from support.commands import Job
from support.killing import kill_count
from support.memory_talks import Talks, talk

KILLS = kill_count(10, in_ci=2)
IN_FLIGHT = 8
ASKING = """
from assay.core.memory import SearchHit, MemoryItem

class Asking:
    def __init__(self, around):
        self.around = around
        self.held = []

    def reset(self):
        self.held = []

    async def add(self, messages):
        for message in messages:
            said = await self.around.ask([{"role": "user", "content": f"note {message.line}"}], {"temperature": 0})
            self.held.append(MemoryItem(f"note:{message.id}", f"{message.line} {said}", sources=(message.id,)))

    async def search(self, query, k):
        said = await self.around.ask([{"role": "user", "content": f"key {query.text} {len(self.held)}"}], {})
        words = {*query.text.split(), *said.split()}
        ranked = sorted(self.held, key=lambda item: -len(words & set(item.text.split())))
        return [SearchHit(item) for item in ranked[:k]]

    def items(self):
        return self.held

    def end_session(self):
        pass
"""


@pytest.fixture
def server() -> Iterator[FakeOpenAI]:
    with FakeOpenAI(latency=0.01, jitter=3.0, faults={"429": 0.02, "drop": 0.01}) as fake:
        yield fake


def job(folder: Path, server: FakeOpenAI, memory: str = "", *sizes: int) -> Job:
    """Conversations of these sizes; the memory asks for every message and every search, if none is named."""
    folder.mkdir()
    Talks(folder, *(talk(size, f"talk{size}") for size in sizes))
    (folder / "asking.py").write_text(ASKING)
    memory = memory or f"{folder}/asking.py:Asking"
    command = ["-m", "assay", "memory", "test", "--dataset", "plain", "--data", f"{folder}/talks.json"]
    command += ["--memory", memory, "--model", "openai/fake", "--base-url", server.url]
    command += ["--segments", "4", "--concurrency", str(IN_FLIGHT), "--output-dir", f"{folder}/out"]
    return Job(command, folder / "out")


def timeless(value: Any) -> Any:
    """Without seconds, at any depth."""
    if isinstance(value, dict):
        return {
            key: timeless(item)
            for key, item in value.items()
            if key not in ("timings", "seconds", "seconds_p50", "seconds_p95", "run")
        }
    return [timeless(item) for item in value] if isinstance(value, list) else value


def files(job: Job) -> dict[str, Any]:
    """Every file of the format, and the summary beside them."""
    return {path.name: timeless(json.loads(path.read_text())) for path in job.out.glob("plain/*/*.json")}


def _has(job: Job, calls: int) -> bool:
    return job.count("calls") >= calls


def killed_often(killed: Job, server: FakeOpenAI, total: int, kills: int) -> None:
    """Start, kill, start again; nothing that is in the log by then is asked once more."""
    for number in range(1, kills + 1):
        with killed.started() as started:
            # The last kill comes near the end: conversations have lines in common, so equal requests come until then.
            assert started.wait_for(partial(_has, killed, total * number * 10 // (kills * 11)))
            started.kill()
        server.settle()
        logged, received = set(killed.replies()), len(server.stats().requests)
    assert killed.run().code == 0
    assert logged.isdisjoint(seen.reply for seen in server.stats().requests[received:])
    good = sum(seen.outcome in ("ok", "left") for seen in server.stats().requests)
    assert 0 <= good - total <= kills * IN_FLIGHT


def test_a_killed_test_is_as_an_undisturbed_one(tmp_path: Path, server: FakeOpenAI) -> None:
    """The same files, timings aside; at most the calls in flight were lost at each kill."""
    whole, killed = (job(tmp_path / name, server, "", 20, 30) for name in ("whole", "killed"))
    assert whole.run().code == 0
    server.reset()
    killed_often(killed, server, whole.count("calls"), KILLS)
    assert set(files(whole)) == {"0000.json", "0001.json", "summary.json"}
    assert files(killed) == files(whole)


@pytest.mark.parametrize("memory", ["GAMemory", "MBMemory", "MTMemory", "RFMemory"])
def test_memories_that_ask_are_made_again_of_their_replies(tmp_path: Path, server: FakeOpenAI, memory: str) -> None:
    """Each of ours, killed twice. SCMemory cannot use what this endpoint says, and ends its conversation."""
    whole, killed = (job(tmp_path / name, server, memory, 12) for name in ("whole", "killed"))
    assert whole.run().code == 0
    server.reset()
    killed_often(killed, server, whole.count("calls"), 2)
    assert files(killed) == files(whole)
    assert files(whole)["0000.json"]["test_results"]
