"""One conversation with many questions at a slow endpoint: the endpoint is the limit, and nothing else."""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from benchmarks.figures import Figure
from benchmarks.measure import REPOSITORY, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

QUESTIONS = 200
LATENCY = 0.2
AT_ONCE = 64


def answers(folder: Path) -> Iterator[Figure]:
    """Seconds from the first request to the last, as the endpoint saw them, against the least possible."""
    sys.path.insert(0, str(REPOSITORY / "tests"))
    from servers.fake_openai import FakeOpenAI

    data = folder / "talk.json"
    data.write_text(json.dumps(_talk()), encoding="utf-8")
    with FakeOpenAI(latency=LATENCY) as server:
        command = ["memory", "test", "--dataset", "plain", "--data", data, "--memory", "STMemory"]
        command += ["--segments", "1", "--model", "openai/fake", "--base-url", server.url]
        command += ["--concurrency", AT_ONCE, "--output-dir", folder / "answers"]
        began = time.perf_counter()
        used = python("-m", "assay", *command, env=environment(uvloop=True), log=folder / "answers.log")
        whole = time.perf_counter() - began
        if used.code:
            raise SystemExit(used.output)
        seen = server.stats().requests
    rounds = -(-QUESTIONS // AT_ONCE)
    took = max(one.answered or 0.0 for one in seen) - min(one.received for one in seen)
    note = f"{QUESTIONS} questions, {LATENCY:g} s each, {AT_ONCE} at once; {whole:.2f} s with start and files"
    yield Figure("seconds against the least possible", took / (rounds * LATENCY), 1.3, "x", note)
    yield Figure("questions asked", len(seen), QUESTIONS, "", "", exact=True)


def _talk() -> dict[str, Any]:
    lines = [{"speaker": "Ann", "text": f"Bob bought thing {n} on day {n}"} for n in range(QUESTIONS)]
    asked = [
        {"question": f"When did Bob buy thing {n}?", "answer": f"day {n}", "evidence": [f"D1:{n + 1}"]}
        for n in range(QUESTIONS)
    ]
    return {"sessions": [{"messages": lines}], "questions": asked}
