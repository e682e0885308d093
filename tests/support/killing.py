"""Kills a job at chosen points of its progress, and says what each kill may cost."""

from __future__ import annotations

import os
import random
import time
from collections import Counter
from typing import NamedTuple

from servers.fake_openai import FakeOpenAI
from support.commands import Job

CONCURRENCY = 8


def kill_count(every: int, in_ci: int) -> int:
    """How often a test kills its run. `make kills` and the tests of a system set KILLS and get all, CI gets a few."""
    return every if "KILLS" in os.environ else in_ci


class Kill(NamedTuple):
    """What stood in the log when the process was killed, and what had arrived at the server."""

    logged: frozenset[str]
    received: int
    lost: int
    """Requests of this start that arrived and are not in the log: they were in flight."""


def points(rng: random.Random, total: int, count: int) -> list[int]:
    """Numbers of logged calls at which to kill, spread over the whole run."""
    return [int(total * (part + rng.random()) / count) for part in range(count)]


def kill_at(job: Job, server: FakeOpenAI, point: int, pause: float) -> Kill | None:
    """Start, wait until so many calls are logged and a little longer, kill. None if it ended before."""
    before = lost_so_far(job, server)
    with job.started() as started:
        started.wait_for(lambda: job.count("calls") >= point)
        time.sleep(pause)
        started.kill()
        if started.process.returncode == 0:
            return None
    return looked_at(job, server, before)


def kill_after(job: Job, server: FakeOpenAI, seconds: float) -> Kill:
    """Start, and kill before there is a reply."""
    before = lost_so_far(job, server)
    with job.started() as started:
        time.sleep(seconds)
        started.kill()
    return looked_at(job, server, before)


def lost_so_far(job: Job, server: FakeOpenAI) -> int:
    """Requests that arrived and are not in the log, while no process runs."""
    return len(server.stats().requests) - len(job.replies())


def looked_at(job: Job, server: FakeOpenAI, lost_before: int) -> Kill:
    """What a kill left; `lost_before` requests were lost in earlier ones."""
    server.settle()
    lost = lost_so_far(job, server) - lost_before
    return Kill(frozenset(job.replies()), len(server.stats().requests), lost)


def assert_nothing_lost(job: Job, whole: Job, server: FakeOpenAI, kills: list[Kill]) -> None:
    """The killed job's files are those of the whole one, and no kill cost more than what was in flight."""
    assert job.samples() == whole.samples()
    assert Counter(end["index"] for end in job.ends()) == Counter(end["index"] for end in whole.ends())
    assert {end["status"] for end in job.ends()} == {"ok"}
    assert not list(job.out.rglob("*.tmp"))
    stats = server.stats()
    for kill in kills:
        assert 0 <= kill.lost <= CONCURRENCY
        assert kill.logged.isdisjoint(seen.reply for seen in stats.requests[kill.received :])
    assert sorted(job.replies()) == sorted(whole.replies())
    assert job.summary()["spent"] == whole.summary()["spent"]
    assert stats.repeated == sum(kill.lost for kill in kills)
