"""On a full disk a run stops with a sentence, keeps whole lines, and goes on once there is room."""

from __future__ import annotations

import functools
import resource
import shutil
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from servers.fake_openai import FakeOpenAI
from support.commands import Finished, Job, task_job
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


# Runs a command on a file system of its own with so many free KB, and copies what is there at the end.
SMALL_DISK = """
out=$1 free=$2; shift 2
mkdir -p "$out" && mount -t tmpfs -o size=8m none "$out" || exit 99
head -c $(( (8192 - free) * 1024 )) /dev/zero > "$out/others"
"$@"; code=$?
rm "$out/others"; cp -r "$out" "$out.kept"; exit $code
"""
IN_NAMESPACE = ["unshare", "--map-root-user", "--mount", "sh", "-c", SMALL_DISK, "sh"]


@functools.cache
def can_mount(folder: Path) -> bool:
    """Return whether this machine lets us mount a file system for one process."""
    try:
        done = subprocess.run([*IN_NAMESPACE, str(folder), "64", "true"], capture_output=True, check=False)
    except FileNotFoundError:
        return False
    return done.returncode == 0


def run_on_small_disk(job: Job, free_kb: int) -> Finished:
    """Run a job whose output folder is a disk with little room. The folder has its files afterwards."""
    if not can_mount(job.out.parent / "probe"):
        pytest.skip("this machine forbids mounts in a namespace of their own")
    small = Job(job.command[1:], job.out)
    small.command = [*IN_NAMESPACE, str(job.out), str(free_kb), *job.command]
    finished = small.run()
    job.out.rmdir()
    shutil.move(job.out.with_name(job.out.name + ".kept"), job.out)
    return finished


def test_no_request_is_sent_on_a_disk_without_room(server: FakeOpenAI, tmp_path: Path) -> None:
    """There is room for the run's description, but not for a reply of each call in flight."""
    job = task_job(write_task(tmp_path / "task", 20), server, tmp_path / "full")
    server.reset()
    stopped = run_on_small_disk(job, free_kb=200)
    assert stopped.code == 3
    assert "there is no room for the run in" in stopped.err
    assert "No request was sent" in stopped.err
    assert "Traceback" not in stopped.err
    assert not server.stats().requests
    assert job.run().code == 0


def test_replies_in_flight_are_saved_when_the_disk_fills_up(server: FakeOpenAI, tmp_path: Path) -> None:
    """They go into the reserved room. No request is sent after the first failed write, and none is repeated later."""
    task = write_task(tmp_path / "task", 200)
    job, whole = task_job(task, server, tmp_path / "full"), task_job(task, server, tmp_path / "whole")
    assert whole.run().code == 0
    server.reset()
    stopped = run_on_small_disk(job, free_kb=1024 + 64)
    assert stopped.code == 3
    assert "No space left on device" in stopped.err
    assert "also those that were in flight" in stopped.err
    assert "Traceback" not in stopped.err
    assert_whole_lines(job)
    sent = len(server.stats().requests)
    assert CONCURRENCY < sent < 200
    assert len(job.replies()) == sent
    assert job.summary()["state"] == "stopped"
    assert job.run().code == 0
    assert server.stats().repeated == 0
    assert len(server.stats().requests) == 200
    assert job.samples() == whole.samples()


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
    assert f"{lost} repl{'y' if lost == 1 else 'ies'} that arrived could not be saved" in stopped.err
    assert "All replies so far are saved" not in stopped.err
    assert "All other replies are saved. Continue with:" in stopped.err
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
    assert {path.read_bytes() for path in samples.out.rglob("pipeline_*.jsonl")} <= {b""}
    assert job.run().code == 0
    # 40 questions to two memories, each once: a file that cannot be written stops the other memory where it is.
    assert len(samples.asked()) == 80
