"""Time from the arrival of a reply to its line in calls.jsonl, while memories and the offline judge compute.

The endpoint is a process of its own. It notes when it has written the last byte of a reply, and a thread of it looks
into calls.jsonl every millisecond and notes when the reply stands there. Both use one clock. A kill between the two
loses a reply that is paid for.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import re
import shutil
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar, NamedTuple

from benchmarks import tasks
from benchmarks.figures import Figure
from benchmarks.measure import endpoint_port, environment, python
from benchmarks.server import HttpRequests

if TYPE_CHECKING:
    from collections.abc import Iterator

# A reply must be in the log after this many milliseconds, or after three times as long as those of a plain task.
LIMIT_MS = 100.0
CONCURRENCY = 8
STEP = 0.1
"""Seconds of CPU of each step of the memories that compute."""
# A reply takes 20 to 150 ms, so that replies arrive at any moment of a computation.
_LATENCY = (0.02, 0.15)
_LOOK_SECONDS = 0.001
_REPLY = re.compile(rb"reply (\d+) ends")
_MEMORY = '''\
"""A memory whose every step computes for {seconds} seconds."""
import time
from assay.core.memory import MemoryItem, SearchHit

def plain(seconds):
    end, total = time.thread_time() + seconds, 0
    while time.thread_time() < end:
        total += sum(len(str(number)) for number in range(200))

def arrays(seconds):
    import numpy
    end, rows = time.thread_time() + seconds, numpy.ones((600, 600), "f4")
    while time.thread_time() < end:
        numpy.einsum("ij,jk->ik", rows[:60], rows)

class Heavy:
    def __init__(self, context):
        self.held = []
    def reset(self):
        self.held = []
    {define} add(self, messages):
        {work}({seconds})
        self.held += [MemoryItem(message.id, message.line, sources=(message.id,)) for message in messages]
    {define} search(self, query, k):
        {work}({seconds})
        return [SearchHit(item) for item in self.held[-k:]]
    def items(self):
        return self.held
    def end_session(self):
        pass
'''


class Delays(NamedTuple):
    """Milliseconds from the last byte of a reply to its line in the log."""

    replies: int
    median: float
    p99: float
    most: float


class Scene(NamedTuple):
    """A command, and how many calls it makes at least."""

    name: str
    command: list[str]
    calls: int


def arrival(folder: Path, size: int) -> Iterator[Figure]:
    """The p99 of each scene; `size` is the number of calls of a plain task, and of messages of a long conversation."""
    trivial = 0.0
    for scene in _scenes(folder, size):
        delays = _measure(scene, folder)
        limit = None if not trivial else max(LIMIT_MS, 3 * trivial)
        trivial = trivial or delays.p99
        note = f"median {delays.median:.2f} ms, longest {delays.most:.1f} ms, {delays.replies:,} replies"
        yield Figure(f"{scene.name}: p99", delays.p99, limit, "ms", note)


def _scenes(folder: Path, size: int) -> Iterator[Scene]:
    data = tasks.questions(folder / "plain.jsonl", range(size))
    yield Scene("plain task", ["task", str(tasks.task(folder / "plain.yaml", data))], size)
    talks = _talks(folder / "talks.json", [(8, 16)] * 4)
    for define, word in (("def", "plain"), ("async def", "async")):
        for work, kind in (("plain", "Python"), ("arrays", "numpy")):
            path = folder / f"{word}_{work}.py"
            path.write_text(_MEMORY.format(define=define, work=work, seconds=STEP), encoding="utf-8")
            name = f"{word} methods, {kind}, {STEP * 1000:.0f} ms a step"
            yield _memory_test(name, talks, f"{path}:Heavy", 64)
    long = _talks(folder / "long.json", [(size, 100)] * 2)
    for memory in ("bm25", "dense", "hybrid"):
        yield _memory_test(f"{memory}, {size:,} messages", long, memory, 200)
    samples = _samples(folder / "samples", 16)
    command = ["memory", "eval", "--dataset", str(samples), "--baseline", "bm25", "--judge", "offline"]
    yield Scene("offline judge, memory eval", command, 16)
    yield _memory_test("offline judge, memory test", long, "bm25", 200, "--judge", "offline")


def _memory_test(name: str, data: Path, memory: str, calls: int, *flags: str) -> Scene:
    command = ["memory", "test", "--dataset", "plain", "--data", str(data), "--memory", memory]
    return Scene(name, [*command, "--segments", "4", *flags], calls)


def _talks(path: Path, sizes: list[tuple[int, int]]) -> Path:
    """Conversations of so many messages with so many questions, spread over the conversation."""
    draw = random.Random(7)
    words = [f"word{number}" for number in range(3000)]
    talks = []
    for number, (count, questions) in enumerate(sizes):
        texts = [" ".join(draw.choices(words, k=draw.randint(5, 40))) for _ in range(count)]
        sessions = [
            {
                "date": f"{start % 28 + 1} May 2024",
                "messages": [{"speaker": "Ann", "text": text} for text in part],
            }
            for start in range(0, count, 50)
            if (part := texts[start : start + 50])
        ]
        asked = [
            {
                "question": f"What of {' '.join(draw.choices(words, k=6))}?",
                "answer": texts[place][:30],
                "evidence": [f"D{place // 50 + 1}:{place % 50 + 1}"],
            }
            for place in (count * at // questions for at in range(questions))
        ]
        talks.append({"id": f"talk{number}", "sessions": sessions, "questions": asked})
    path.write_text(json.dumps(talks), encoding="utf-8")
    return path


def _samples(folder: Path, count: int) -> Path:
    """Samples for `memory eval` with long lists of memories, which the judge compares with each memory point."""
    from benchmarks.sessions import sample

    folder.mkdir()
    for number in range(count):
        (folder / f"{number:04d}.json").write_text(json.dumps(sample(number, 20 + number)), encoding="utf-8")
    return folder


def _measure(scene: Scene, folder: Path) -> Delays:
    output = folder / "output"
    shutil.rmtree(output, ignore_errors=True)
    report = folder / "delays.json"
    with _endpoint(output, report) as url:
        command = [*scene.command, "--model", "openai/fake", "--base-url", url, "--quiet"]
        command += ["--concurrency", str(CONCURRENCY), "--output-dir", str(output)]
        used = python("-m", "assay", *command, env=environment(uvloop=True), log=folder / "assay.log")
    if used.code:
        raise SystemExit(f"{scene.name}: exit code {used.code}\n{used.output}")
    delays = sorted(json.loads(report.read_text(encoding="utf-8")))
    if len(delays) < scene.calls:
        raise SystemExit(f"{scene.name}: {len(delays)} replies instead of {scene.calls}\n{used.output}")
    return Delays(
        len(delays),
        delays[len(delays) // 2] * 1e3,
        delays[min(len(delays) - 1, len(delays) * 99 // 100)] * 1e3,
        delays[-1] * 1e3,
    )


@contextmanager
def _endpoint(output: Path, report: Path) -> Iterator[str]:
    """Start the endpoint on another core than the run's; at the end it writes the delays."""
    others = sorted(set(range(os.cpu_count() or 1)) - os.sched_getaffinity(0)) or [0]
    with endpoint_port("benchmarks.arrival", others[0], output, report) as port:
        yield f"http://127.0.0.1:{port}/v1"


class _Endpoint(HttpRequests):
    """Replies with `reply NUMBER ends` after a drawn time, and keeps the moment of the last byte."""

    sent: ClassVar[dict[int, float]] = {}
    draw: ClassVar[random.Random] = random.Random(11)

    def answer(self, request: bytes, head: int) -> None:
        """Reply after a drawn time."""
        asyncio.get_running_loop().call_later(self.draw.uniform(*_LATENCY), self._reply)

    def _reply(self) -> None:
        number = len(self.sent)
        message = {"role": "assistant", "content": f"reply {number} ends"}
        choice = {"index": 0, "message": message, "finish_reason": "stop"}
        usage = {"prompt_tokens": 7, "completion_tokens": 5}
        self.send(json.dumps({"choices": [choice], "usage": usage}).encode())
        self.sent[number] = time.monotonic()


def _watch(output: Path, seen: dict[int, float], ended: threading.Event) -> None:
    """Note when each reply stands in calls.jsonl. Looks once more after the end."""
    file, rest, last = None, b"", False
    while not last:
        last = ended.is_set()
        if file is None:
            logs = list(output.glob("assay/[!.]*/calls.jsonl"))
            file = logs[0].open("rb", buffering=0) if logs else None
        if file is not None and (data := file.read()):
            now = time.monotonic()
            rest += data
            whole, _, rest = rest.rpartition(b"\n")
            for number in _REPLY.findall(whole):
                seen.setdefault(int(number), now)
        time.sleep(_LOOK_SECONDS)


async def _serve(output: Path) -> list[float]:
    """Serve until standard input ends. Returns the delays."""
    loop = asyncio.get_running_loop()
    server = await loop.create_server(_Endpoint, "127.0.0.1", 0, backlog=1024)
    seen: dict[int, float] = {}
    ended = threading.Event()
    watcher = threading.Thread(target=_watch, args=(output, seen, ended))
    watcher.start()
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    ended.set()
    watcher.join()
    return [seen[number] - sent for number, sent in _Endpoint.sent.items() if number in seen]


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[1])})
    Path(sys.argv[3]).write_text(json.dumps(asyncio.run(_serve(Path(sys.argv[2])))), encoding="utf-8")
