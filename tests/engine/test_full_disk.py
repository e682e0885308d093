"""On a full disk a run stops with a sentence, keeps whole lines, and goes on once there is room."""

from __future__ import annotations

import resource
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.fake_openai import FakeOpenAI
from support.commands import Job, task_job
from support.memory_samples import Samples, sample
from support.tasks import write_task

CONCURRENCY = 8


@pytest.fixture(scope="module")
def server() -> Iterator[FakeOpenAI]:
    """Replies come late and out of order."""
    with FakeOpenAI(latency=0.02, jitter=1) as running:
        yield running


def files_up_to(size: int) -> Callable[[], None]:
    """No file of the process may grow longer, as on a full disk: `write` fails after the last byte."""
    return lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def assert_whole_lines(job: Job) -> None:
    """Every journal file ends with a line's end."""
    for path in job.folder.glob("*.jsonl"):
        assert path.read_bytes().endswith(b"\n"), path


@pytest.mark.parametrize(("docs", "repeats"), [(60, 1), (8, 16)])
def test_full_disk_under_the_journal(server: FakeOpenAI, tmp_path: Path, docs: int, repeats: int) -> None:
    """The log is cut to its last whole line, no further call is made, and the next start goes on from there."""
    task = write_task(tmp_path / "task", docs, repeats=repeats)
    job, whole = task_job(task, server, tmp_path / "full"), task_job(task, server, tmp_path / "whole")
    assert whole.run().code == 0
    server.reset()
    stopped = job.run(before=files_up_to(12_000))
    assert stopped.code == 3
    assert "cannot write" in stopped.err
    assert "Continue with: assay task" in stopped.err
    assert "Traceback" not in stopped.err
    assert_whole_lines(job)
    lost = len(server.stats().requests) - len(job.replies())
    assert 0 < lost <= CONCURRENCY
    assert job.run().code == 0
    assert server.stats().repeated == lost
    assert job.samples() == whole.samples()


def test_full_disk_under_the_final_files(server: FakeOpenAI, tmp_path: Path) -> None:
    """Where only the samples do not fit, no part of them stays, and the next start asks nothing."""
    task = write_task(tmp_path / "task", 20, padding=20_000)
    job, whole = task_job(task, server, tmp_path / "full"), task_job(task, server, tmp_path / "whole")
    assert whole.run().code == 0
    server.reset()
    stopped = job.run(before=files_up_to(100_000))
    assert stopped.code == 3
    assert "cannot write" in stopped.err
    assert "Traceback" not in stopped.err
    assert not list(job.out.rglob("*samples*"))
    assert job.run().code == 0
    assert len(server.stats().requests) == 20
    assert job.samples() == whole.samples()


def test_full_disk_before_the_first_request(server: FakeOpenAI, tmp_path: Path) -> None:
    """Where not even the run's description fits, nothing is asked."""
    job = task_job(write_task(tmp_path / "task", 4), server, tmp_path / "full")
    server.reset()
    stopped = job.run(before=files_up_to(100))
    assert stopped.code == 3
    assert "cannot write" in stopped.err
    assert "Traceback" not in stopped.err
    assert not server.stats().requests
    assert job.run().code == 0


def test_full_disk_under_the_files_of_a_memory_evaluation(tmp_path: Path) -> None:
    """Snapshots grow with every session, the journal does not: the files do not fit, and none stays in part."""
    samples = Samples(tmp_path, sample("s1", 40))
    job = samples.job("--baseline", "bm25,STMemory", "--judge", "offline")
    stopped = job.run(before=files_up_to(300_000))
    assert stopped.code == 3
    assert "cannot write" in stopped.err
    assert "Traceback" not in stopped.err
    assert [path.name for path in samples.out.rglob("*") if path.name.endswith(".tmp")] == []
    assert [path.name for path in samples.out.rglob("pipeline_*.jsonl")] == []
    asked = len(samples.asked())
    assert job.run().code == 0
    assert len(samples.asked()) == asked
