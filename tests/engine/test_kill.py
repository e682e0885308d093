"""kill -9 at any moment loses no case, doubles none, and costs at most what was in flight."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from servers.fake_openai import FakeOpenAI, answer_of
from support.commands import Job, chain_job, task_job
from support.killing import (
    Kill,
    assert_nothing_lost,
    kill_after,
    kill_at,
    kill_count,
    looked_at,
    lost_so_far,
    points,
)
from support.tasks import SEED, write_task

KILLS = kill_count(8, in_ci=3)


@pytest.fixture(scope="module")
def slow() -> Iterator[FakeOpenAI]:
    """A server on which replies come late and out of order."""
    with FakeOpenAI(latency=0.02, jitter=1.5) as server:
        yield server


def killed_and_whole(job: Job, whole: Job, server: FakeOpenAI, total: int) -> list[Kill]:
    """Run the one at a stretch and the other with KILLS kills over its length, then to its end."""
    assert whole.run().code == 0
    server.reset()
    rng = random.Random(total)
    kills: list[Kill | None] = [kill_after(job, server, rng.uniform(0.1, 0.4)) for _ in range(2)]
    kills += [kill_at(job, server, point, rng.uniform(0, 0.03)) for point in points(rng, total, KILLS - 2)]
    assert job.run().code == 0
    real = [kill for kill in kills if kill is not None]
    assert len(real) >= KILLS - 1, "nearly every kill must hit a running process"
    return real


@pytest.mark.parametrize(
    ("docs", "repeats", "model"),
    [(60, 1, "openai-completions/fake"), (30, 16, "openai/fake")],
    ids=["one reply", "16 repeats"],
)
def test_killed_task_ends_with_the_files_of_a_whole_one(
    slow: FakeOpenAI, tmp_path: Path, docs: int, repeats: int, model: str
) -> None:
    """A task that is killed again and again writes what an uninterrupted one writes, byte for byte."""
    task = write_task(tmp_path / "task", docs, repeats=repeats)
    job, whole = (task_job(task, slow, tmp_path / name, "--model", model) for name in ("killed", "whole"))
    kills = killed_and_whole(job, whole, slow, docs * repeats)
    assert_nothing_lost(job, whole, slow, kills)
    assert job.results() == whole.results()
    assert [row["doc_id"] for row in job.rows()] == [*range(docs), *range(docs)]


def test_killed_chain_ends_with_the_file_of_a_whole_one(slow: FakeOpenAI, tmp_path: Path) -> None:
    """Cases that ask in sequence and side by side continue in the middle: what A said is not asked again."""
    job, whole = chain_job(slow, tmp_path / "killed"), chain_job(slow, tmp_path / "whole")
    kills = killed_and_whole(job, whole, slow, 200)
    assert_nothing_lost(job, whole, slow, kills)


def test_killed_behind_the_gateway(slow: FakeOpenAI, tmp_path: Path) -> None:
    """A foreign SDK that asks through the gateway is told again what it was told before the kill."""
    job, whole = (chain_job(slow, tmp_path / name, "gateway=true") for name in ("killed", "whole"))
    kills = killed_and_whole(job, whole, slow, 200)
    assert_nothing_lost(job, whole, slow, kills)


MOMENTS = {
    "told:7": "a reply is logged before its case hears of it",
    "emitted:12": "records of a try that did not end do not count",
    "ended:20": "a case counts when its end is written, not when its score is",
    "finished": "all cases have ended and nothing is read",
    "finish": "no final file is begun",
    "unnamed": "a final file has its temporary name",
    "written": "the final files are there and the summary is not",
}


def test_killed_at_the_worst_moments(slow: FakeOpenAI, tmp_path: Path) -> None:
    """At each moment at which order matters, a kill costs no call that was answered."""
    whole, job = chain_job(slow, tmp_path / "whole"), chain_job(slow, tmp_path / "killed")
    assert whole.run().code == 0
    slow.reset()
    kills = {moment: crashed(job, slow, moment) for moment in MOMENTS}
    asked = len(slow.stats().requests)
    assert job.run().code == 0
    assert_nothing_lost(job, whole, slow, list(kills.values()))
    assert answer_of("A7", SEED) in kills["told:7"].logged
    assert all(kills[moment].lost == 0 for moment in list(MOMENTS)[3:])
    assert len(slow.stats().requests) == asked, "the last starts had nothing left to ask"


def crashed(job: Job, server: FakeOpenAI, moment: str) -> Kill:
    """Let the job kill itself."""
    before = lost_so_far(job, server)
    assert job.run(f"crash={moment}").code == -9, moment
    return looked_at(job, server, before)


def test_killed_while_the_samples_are_written(slow: FakeOpenAI, tmp_path: Path) -> None:
    """A samples file is there whole or not at all; the next start writes it and asks nothing."""
    task = write_task(tmp_path / "task", 40, padding=300_000)
    job, whole = task_job(task, slow, tmp_path / "killed"), task_job(task, slow, tmp_path / "whole")
    assert whole.run().code == 0
    slow.reset()
    for _ in range(3):
        with job.started() as started:
            assert started.wait_for(lambda: any(job.out.rglob(".samples_*.tmp")))
            started.kill()
            assert started.process.returncode == -9
        assert not list(job.out.rglob("samples_*.jsonl"))
    assert job.run().code == 0
    assert len(slow.stats().requests) == 40
    assert_nothing_lost(job, whole, slow, [])
