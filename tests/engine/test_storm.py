"""An endpoint that says 429 gets fewer calls at once, waits as long as it asked for, and gets all of them back."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

from servers.fake_openai import FakeOpenAI
from support.commands import task_job
from support.tasks import question, write_task

CALM: dict[str, Any] = {"latency": 0.01}
STORM: dict[str, Any] = {"latency": 0.01, "faults": {"429": 1.0}, "retry_after": 0.3}


def open_now(server: FakeOpenAI) -> int:
    """The number of requests that wait for their reply."""
    return sum(seen.outcome == "waiting" for seen in server.stats().requests)


def test_storm_shrinks_concurrency_and_calm_restores_it(tmp_path: Path) -> None:
    """While every reply is 429 fewer calls are in flight; afterwards all permits come back."""
    task = write_task(tmp_path / "task", 300)
    with FakeOpenAI(held=True) as server:
        job = task_job(task, server, tmp_path / "out", "--concurrency", "16", "--max-retries", "1000")
        with job.started() as started:
            assert started.wait_for(lambda: open_now(server) == 16)
            server.behave(**STORM)
            # From then on few requests are open at once, whichever of them is looked at.
            assert started.wait_for(lambda: max(seen.in_flight for seen in server.stats().requests[-20:]) <= 8)
            server.behave(**CALM)
            assert started.wait_for(lambda: job.count("calls") >= 250)
            server.behave(held=True)
            assert started.wait_for(lambda: open_now(server) == 16)
            server.behave()
            assert started.end().code == 0
    assert job.summary()["ok"] == 300


def test_run_that_ends_in_a_storm_ends(tmp_path: Path) -> None:
    """With one permit left and failures at the end, every open case still closes."""
    task = write_task(tmp_path / "task", 12)
    with FakeOpenAI(**STORM) as server:
        job = task_job(task, server, tmp_path / "out", "--concurrency", "4", "--max-retries", "50")
        with job.started() as started:
            # Each of the four open cases has been refused often enough for one permit to be left.
            assert started.wait_for(lambda: len(server.stats().requests) >= 24)
            server.behave(faults={"400": 1.0}, latency=0.01)
            assert started.end().code == 3
        assert job.summary()["infra_error"] == 12


def test_retry_after_is_honoured(tmp_path: Path) -> None:
    """No attempt comes before the time the server named, whatever the status it came with."""
    task = write_task(tmp_path / "task", 12)
    with FakeOpenAI(retry_after=0.7, faulty_attempts=2, faults={"429": 0.5, "503": 0.5}) as server:
        assert task_job(task, server, tmp_path / "out").run().code == 0
        requests = server.stats().requests
    for number in range(12):
        attempts = [seen for seen in requests if seen.prompt == question(number)]
        assert [seen.outcome == "ok" for seen in attempts] == [False, False, True]
        for earlier, later in pairwise(attempts):
            assert earlier.answered is not None
            assert later.received - earlier.answered >= 0.7
