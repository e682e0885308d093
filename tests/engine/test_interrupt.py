"""Ctrl-C once stops kindly and loses nothing; twice leaves at once."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from servers.fake_openai import FakeOpenAI
from support.commands import Finished, Job, Started, task_job
from support.tasks import question, write_task


def interrupted(started: Started, calls: int) -> Finished:
    """Send SIGINT once so many calls are logged; how it ended."""
    assert started.wait_for(lambda: started.job.count("calls") >= calls)
    started.process.send_signal(signal.SIGINT)
    return started.end()


def assert_continues(job: Job, server: FakeOpenAI, distinct: int) -> None:
    """The same command ends well, and no request was made twice."""
    assert job.run().code == 0
    assert server.stats().repeated == 0
    assert len(server.stats().requests) == distinct


def test_first_interrupt_lets_running_calls_finish(tmp_path: Path) -> None:
    """No case and no call is begun after Ctrl-C; calls in flight are logged; the next start repeats nothing."""
    task = write_task(tmp_path / "task", 6, repeats=16)
    with FakeOpenAI(latency=0.2, jitter=1) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            finished = interrupted(started, 12)
        received = len(server.stats().requests)
        assert finished.code == 130
        assert "interrupted" in finished.err
        assert "To continue: assay task" in finished.err
        assert len(job.replies()) == received < 12 + 3 * 8
        assert_continues(job, server, 6 * 16)


def test_interrupt_waits_for_slow_replies(tmp_path: Path) -> None:
    """A reply that takes its time is paid for: Ctrl-C waits for it."""
    task = write_task(tmp_path / "task", 9)
    with FakeOpenAI(latency=6, always={question(0): "400"}) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: len(server.stats().requests) == 8)
            started.process.send_signal(signal.SIGINT)
            assert started.end().code == 130
        assert len(job.lines("calls")) == 8


def test_interrupt_does_not_wait_for_retries(tmp_path: Path) -> None:
    """A call that waits to be asked again holds nobody up."""
    task = write_task(tmp_path / "task", 20)
    with FakeOpenAI(latency=0.01, retry_after=30, always={question(3): "429"}) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            began = time.monotonic()
            assert interrupted(started, 19).code == 130
            assert time.monotonic() - began < 10
        server.behave()
        assert_finished(job, server, 21)


def assert_finished(job: Job, server: FakeOpenAI, received: int) -> None:
    """The same command ends well after so many requests in all."""
    assert job.run().code == 0
    assert len(server.stats().requests) == received


def test_second_interrupt_leaves_at_once(tmp_path: Path) -> None:
    """Ctrl-C twice waits for nothing; what was in flight, and no more, is asked again."""
    task = write_task(tmp_path / "task", 30)
    with FakeOpenAI(latency=0.01, always={question(12): "hang"}) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: job.count("calls") >= 29)
            started.process.send_signal(signal.SIGINT)
            assert started.process.poll() is None
            time.sleep(0.5)
            began = time.monotonic()
            started.process.send_signal(signal.SIGINT)
            finished = started.end()
            assert time.monotonic() - began < 2
        assert finished.code == 130
        assert "To continue: assay task" in finished.err
        server.behave()
        assert_finished(job, server, 31)
