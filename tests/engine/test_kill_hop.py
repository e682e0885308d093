"""kill -9 in the middle of a batch with faults: each row once with each profile, and nothing is asked twice.

`make prove-hop` runs it over 2,000 rows; HOP_ROWS says how many.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pytest

from assay.core.report import Report

from servers.fake_openai import FakeOpenAI
from support.commands import Job
from support.hop_batch import Batch, numbers, stable

ROWS = int(os.environ.get("HOP_ROWS", "200"))
PROFILES = ("a", "b", "c")
WORKERS = 20
CALLS = 2
FAULTS = {"429": 0.02, "500": 0.02, "drop": 0.01}
LONGEST = 900.0

CODE = """
async def hop(session, fields):
    n = fields["n"]
    async with session.tracer.trace_step(op="first", task=f"row {n}"):
        said = await session.model.chat(f"first {n}")
    async with session.tracer.trace_step(op="second", task=f"row {n}") as step:
        step.retry_count = n % 3
        said = await session.model.chat(f"second {n}: {said}")
    if n % 50 == 7:
        raise ValueError(f"row {n}")
    return ("FAIL" if n % 10 == 3 else "OK"), {"answer": int(said[-1])}
"""
CONTRACT = """\
name: killed
function: hop
inputs: {n: int}
outputs: {answer: {type: int, compare: equal, bands: {low: [0, 1], high: [2, 3]}}}"""


def report_of(job: Job) -> Report:
    """The report in a run's summary."""
    return msgspec.convert(job.summary()["report"], Report)


class Kill(NamedTuple):
    """What each profile's log held when the process was killed, and how much had arrived at its server."""

    logged: list[set[str]]
    received: list[int]


@pytest.fixture
def servers() -> Iterator[list[FakeOpenAI]]:
    """One for each profile, since profiles ask the same of their models."""
    with ExitStack() as stack:
        yield [stack.enter_context(FakeOpenAI(latency=0.01, jitter=2.0, faults=FAULTS)) for _ in PROFILES]


def job(folder: Path, servers: list[FakeOpenAI]) -> Job:
    """The batch, with twenty rows open at once."""
    rows = [
        {"id": n, "tag": f"t{n % 5}", "n": n, "difficulty": ("easy", "hard")[n % 2], "expected_answer": n % 4}
        for n in range(ROWS)
    ]
    batch = Batch(folder, CODE, rows)
    batch.contract(CONTRACT)
    llms = [f"  {name}: {{model: fake, base_url: '{at.url}'}}" for name, at in zip(PROFILES, servers, strict=True)]
    profiles = [f"  {name}: {{run: {name}}}" for name in PROFILES]
    (folder / "settings.yaml").write_text("\n".join(["llms:", *llms, "profiles:", *profiles, ""]))
    return batch.job("--workers", str(WORKERS), "--concurrency", str(WORKERS))


def ended(job: Job) -> None:
    """Run it to its end."""
    with job.started() as started:
        said = started.process.communicate(timeout=LONGEST)
        assert started.process.returncode == 0, said


def kill(job: Job, servers: list[FakeOpenAI], point: int) -> Kill:
    """Kill it when so many calls are logged."""
    with job.started() as started:
        assert started.wait_for(lambda: job.count("calls") >= point), "it was killed while it ran"
        started.kill()
    for server in servers:
        server.settle()
    logged: list[set[str]] = [set() for _ in PROFILES]
    for call in job.lines("calls"):
        if "response" in call:
            logged[call["index"] % len(PROFILES)].add(call["response"]["text"])
    return Kill(logged, [len(server.stats().requests) for server in servers])


def result_lines(job: Job) -> list[dict[str, Any]]:
    """The result file without its meta lines."""
    (path,) = job.out.glob("rows_*.jsonl")
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    assert [line["profile"] for line in lines if "_type" in line] == list(PROFILES)
    return [line for line in lines if "_type" not in line]


def answered(servers: list[FakeOpenAI]) -> int:
    """Requests that met no fault."""
    return sum(seen.outcome in ("ok", "left") for server in servers for seen in server.stats().requests)


def unreadable(path: Path) -> int:
    """Lines of a log that are no JSON."""
    bad = 0
    for line in path.read_bytes().splitlines():
        try:
            json.loads(line)
        except ValueError:
            bad += 1
    return bad


def test_a_killed_batch_is_as_an_undisturbed_one(tmp_path: Path, servers: list[FakeOpenAI]) -> None:
    """The same rows, the same statistics, the same bill; at most the calls in flight were lost at each kill."""
    whole, killed = job(tmp_path / "whole", servers), job(tmp_path / "killed", servers)
    began = time.monotonic()
    ended(whole)
    undisturbed = time.monotonic() - began
    total = ROWS * len(PROFILES) * CALLS
    assert answered(servers) == total
    for server in servers:
        server.reset()
    kills = [kill(killed, servers, int(total * share)) for share in (0.25, 0.7)]
    ended(killed)

    rows = result_lines(killed)
    assert Counter((row["id"], row["profile"]) for row in rows) == Counter(
        (n, p) for n in range(ROWS) for p in PROFILES
    )
    assert rows == result_lines(whole)
    lost = answered(servers) - total
    assert 0 <= lost <= len(kills) * WORKERS
    for one in kills:
        for logged, received, server in zip(one.logged, one.received, servers, strict=True):
            assert logged, "every profile was under way"
            assert logged.isdisjoint(seen.reply for seen in server.stats().requests[received:])
    assert stable(numbers(report_of(killed))) == stable(numbers(report_of(whole)))
    assert sorted(killed.replies()) == sorted(whole.replies())
    assert Counter(end["index"] for end in killed.ends()) == Counter(range(ROWS * len(PROFILES)))
    assert unreadable(killed.out / "observer.jsonl") <= len(kills)
    assert not list(killed.out.glob(".*.tmp"))
    faults = sum(len(server.stats().requests) for server in servers) - answered(servers)
    sys.stderr.write(
        f"\n{len(rows):,} rows, {total:,} calls, {faults:,} faults, {lost} calls lost in {len(kills)} kills, "
        f"undisturbed in {undisturbed:.1f} s\n"
    )
