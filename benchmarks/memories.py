"""A very long conversation in memories that search: insertion flat in time, small, and fast to ask.

Everything is done as a run does it, with packets of two messages and the offline embedder. The words of the
messages are drawn as often as words are used (Zipf's law), so some terms stand in nearly every message.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import os
import random
import statistics
import sys
import time
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure
from benchmarks.measure import REPOSITORY, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

NAMES = ("bm25", "dense", "hybrid")
_WORDS = 30_000
_SESSION = 20
_QUESTIONS = 40
_SOME = 10_000
"""Searches are measured after so many messages and after all; the first so many are set against the last."""


def memories(folder: Path, count: int) -> Iterator[Figure]:
    """What each memory takes for `count` messages: for orientation the seconds, judged all the rest."""
    for name in NAMES:
        told = _told(folder, name, count)
        some = f"{told['some']:,}"
        note = f"{told['insert'] / count * 1e6:.0f} us a message"
        yield Figure(f"{name}: CPU of the last {some} to the first", told["growth"], 1.5, "x", note)
        yield Figure(f"{name}: memory a message", told["bytes"] / 1024, 4.0, "KB", f"{count:,} messages")
        yield _search(f"{name}: CPU of a search at {some}", told["early"], 5.0)
        yield _search(f"{name}: CPU of a search at {count:,}", told["late"], 60.0)
        yield Figure(f"{name}: messages held", told["held"], count, "", "", exact=True)


def _search(name: str, taken: dict[str, float], limit: float) -> Figure:
    note = f"median of {_QUESTIONS} questions; by the clock {taken['clock'] * 1e3:.2f} ms"
    return Figure(name, taken["cpu"] * 1e3, limit, "ms", note)


def _told(folder: Path, name: str, count: int) -> dict[str, Any]:
    env = environment(uvloop=True)
    env |= {"PYTHONPATH": f"{env['PYTHONPATH']}{os.pathsep}{REPOSITORY}"}
    used = python("-m", "benchmarks.memories", name, count, env=env, log=folder / f"{name}.log")
    if used.code:
        raise SystemExit(used.output)
    told: dict[str, Any] = json.loads(used.output)
    return told


class _Talk:
    """Two people who talk in words that nobody knows, twenty messages a session."""

    def __init__(self) -> None:
        self._random = random.Random(7)
        letters = "abcdefghijklmnopqrstuvwxyz"
        draw, length = self._random.choices, self._random.randint
        self._words = ["".join(draw(letters, k=length(3, 9))) for _ in range(_WORDS)]
        self._sums = list(accumulate(1 / rank for rank in range(1, _WORDS + 1)))

    def text(self, least: int, most: int) -> str:
        count = self._random.randint(least, most)
        return " ".join(self._random.choices(self._words, cum_weights=self._sums, k=count))

    def question(self) -> str:
        return f"When did {self._random.choice(('Anna', 'Ben'))} {self.text(5, 9)} in May 2023?"


async def _done(value: Any) -> Any:
    return await value if inspect.isawaitable(value) else value


async def _insert(memory: Any, talk: _Talk, first: int, last: int) -> float:
    """CPU of the insertion alone."""
    from assay.core.memory import Message

    used = 0.0
    who = ("Anna", "Ben")
    for place in range(first, last, 2):
        session = place // _SESSION
        date = f"1:56 pm on {session % 28 + 1} May, {2020 + session // 1000}"
        packet = [
            Message(f"D{session}:{number % _SESSION + 1}", talk.text(5, 40), who[number % 2], str(session), date)
            for number in range(place, min(place + 2, last))
        ]
        before = time.process_time()
        await _done(memory.add(packet))
        used += time.process_time() - before
    return used


async def _ask(memory: Any, talk: _Talk) -> dict[str, float]:
    """Seconds of a search, the median of many."""
    from assay.core.memory import Query

    taken: dict[str, list[float]] = {"cpu": [], "clock": []}
    for _ in range(_QUESTIONS):
        question = Query(talk.question())
        cpu, clock = time.process_time(), time.perf_counter()
        await _done(memory.search(question, 10))
        taken["cpu"].append(time.process_time() - cpu)
        taken["clock"].append(time.perf_counter() - clock)
    return {name: statistics.median(values) for name, values in taken.items()}


def _made(name: str) -> Any:
    from assay.core import registry
    from assay.core.memory import MemoryContext

    embedder = registry.find("embedder", "wordllama").load()

    async def embed(texts: Any) -> Any:
        return embedder.embed(texts)

    nothing: Any = None
    around = MemoryContext(ask=nothing, embed=embed, base_url=nothing, folder=Path(), rng=random.Random(0))
    return registry.find("memory", name).make(around)


async def _measure(name: str, count: int) -> dict[str, Any]:
    some = min(_SOME, count // 2)
    memory, talk = _made(name), _Talk()
    await _insert(memory, talk, 0, 100)  # what is loaded at the first use belongs to nobody
    await _ask(memory, talk)
    await _done(memory.reset())
    before = _resident()
    first = await _insert(memory, talk, 0, some)
    early = await _ask(memory, talk)
    middle = await _insert(memory, talk, some, count - some)
    last = await _insert(memory, talk, count - some, count)
    held, late = _resident() - before, await _ask(memory, talk)
    return {
        "some": some,
        "insert": first + middle + last,
        "growth": last / first,
        "bytes": held / count,
        "early": early,
        "late": late,
        "held": len(await _done(memory.items())),
    }


def _resident() -> int:
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(_measure(sys.argv[1], int(sys.argv[2])))))
