"""Ctrl-C once stops kindly and loses nothing; twice leaves at once."""

from __future__ import annotations

import signal
import time
from pathlib import Path

from servers.fake_openai import FakeOpenAI
from support.commands import Finished, Started, chain_job, task_job
from support.tasks import question, write_task


def interrupted(started: Started, calls: int) -> tuple[Finished, float]:
    """Send SIGINT once so many calls are logged; how it ended, and when the signal was sent."""
    assert started.wait_for(lambda: started.job.count("calls") >= calls)
    at = time.time()
    started.process.send_signal(signal.SIGINT)
    return started.end(), at


def test_first_interrupt_lets_running_calls_finish(tmp_path: Path) -> None:
    """No call is begun after Ctrl-C; calls in flight are logged; the next start repeats nothing."""
    task = write_task(tmp_path / "task", 6, repeats=16)
    with FakeOpenAI(latency=0.2, jitter=1) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            finished, at = interrupted(started, 12)
        received = server.stats().requests
        assert finished.code == 130
        assert "interrupted" in finished.err
        assert "Continue with: assay task" in finished.err
        assert not [seen for seen in received if seen.received > at + 0.3]
        assert sorted(job.replies()) == sorted(seen.reply for seen in received)
        assert job.run().code == 0
        assert server.stats().repeated == 0
        assert len(server.stats().requests) == 6 * 16


def test_interrupt_waits_for_slow_replies(tmp_path: Path) -> None:
    """A reply that takes its time is paid for: Ctrl-C waits for it."""
    task = write_task(tmp_path / "task", 9)
    with FakeOpenAI(latency=6) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: len(server.stats().requests) == 8)
            started.process.send_signal(signal.SIGINT)
            assert started.end().code == 130
        assert len(job.replies()) == 8


def test_interrupt_does_not_wait_for_retries(tmp_path: Path) -> None:
    """A call that waits to be asked again holds nobody up."""
    task = write_task(tmp_path / "task", 20)
    with FakeOpenAI(latency=0.01, retry_after=30, always={question(3): "429"}) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            finished, at = interrupted(started, 19)
            assert finished.code == 130
            assert time.time() - at < 3
        server.behave()
        assert job.run().code == 0
        assert server.stats().outcomes(question(3)) == ["429", "ok"]
        assert len(server.stats().requests) == 21


def test_second_interrupt_leaves_at_once(tmp_path: Path) -> None:
    """Ctrl-C twice waits for nothing; what was in flight, and no more, is asked again."""
    task = write_task(tmp_path / "task", 30)
    with FakeOpenAI(latency=0.01, always={question(12): "hang"}) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: job.count("calls") >= 29)
            started.process.send_signal(signal.SIGINT)
            time.sleep(0.5)
            assert started.process.poll() is None, "one interrupt waits for the reply"
            finished, at = interrupted(started, 29)
            assert time.time() - at < 3
        assert finished.code == 130
        assert "Continue with: assay task" in finished.err
        server.behave()
        assert job.run().code == 0
        assert server.stats().outcomes(question(12)) == ["left", "ok"]
        assert len(server.stats().requests) == 31


def test_interrupt_spoils_no_case_of_careless_code(tmp_path: Path) -> None:
    """A case whose code swallows the word to stop does not end with what the code made up."""
    with FakeOpenAI(latency=0.05, jitter=1) as server:
        job = chain_job(server, tmp_path / "out", "cases=20", "careless=true")
        with job.started() as started:
            assert interrupted(started, 30)[0].code == 130
        assert job.run().code == 0
        assert b"made up" not in job.samples()
        assert server.stats().repeated == 0
