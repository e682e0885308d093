"""Ctrl-C once stops kindly and loses nothing; twice leaves at once."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from assay.runner.stop_request import UNHEARD_SECONDS

from servers.fake_openai import FakeOpenAI
from support.commands import Finished, Job, Started, chain_job, environment, task_job
from support.killing import CONCURRENCY
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
    with FakeOpenAI(held_after=12) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: len(server.stats().requests) == 12 + CONCURRENCY)
            started.process.send_signal(signal.SIGINT)
            assert started.process.stderr is not None
            while "Stopping" not in (line := started.process.stderr.readline()):
                assert line, "it ended before the calls in flight did"
            server.behave()
            finished = started.end()
        received = server.stats().requests
        assert finished.code == 130
        assert "Continue with: assay task" in finished.err
        assert len(received) == 12 + CONCURRENCY
        assert sorted(job.replies()) == sorted(seen.reply for seen in received)
        assert job.run().code == 0
        assert server.stats().repeated == 0
        assert len(server.stats().requests) == 6 * 16


BLOCKING = """
import time
from pathlib import Path


async def answer(prompt, params):
    Path("blocked").touch()
    time.sleep(1000)
"""


def test_sigterm_is_heard_while_code_of_a_case_blocks_the_event_loop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code is interrupted, and its case runs again in the next start."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(BLOCKING)
    words = [
        "task",
        str(write_task(tmp_path / "task", 2)),
        "--model",
        "python/model.py:answer",
        "--output-dir",
        "out",
    ]
    job = Job(["-m", "assay", *words], tmp_path / "out")
    with job.started() as started:
        assert started.wait_for(Path("blocked").exists)
        started.process.send_signal(signal.SIGTERM)
        finished = started.end()
    assert finished.code == 130
    assert "Continue with: assay task" in finished.err
    assert "Traceback" not in finished.err
    assert job.ends() == []


ELSEWHERE = """
import signal
import threading
import time


def send():
    signal.pthread_kill(threading.get_ident(), signal.SIGTERM)


async def answer(prompt, params):
    threading.Timer(0.5, send).start()
    time.sleep(1000)
"""


def test_sigterm_is_heard_although_the_system_call_that_blocks_is_not_interrupted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The signal is given to another thread. A signal just before the system call begins has the same effect."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(ELSEWHERE)
    task = str(write_task(tmp_path / "task", 2))
    words = ["task", task, "--model", "python/model.py:answer", "--output-dir", "out"]
    finished = Job(["-m", "assay", *words], tmp_path / "out").run()
    assert finished.code == 130
    assert "Continue with: assay task" in finished.err
    assert "Traceback" not in finished.err


STUBBORN = """
import time
from pathlib import Path


async def answer(prompt, params):
    for name in ("first", "second"):
        try:
            Path(name).touch()
            time.sleep(1000)
        except BaseException:
            pass
    return "1"
"""


def test_a_signal_is_repeated_to_code_that_goes_on_after_the_interrupt(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The code catches the first interrupt and blocks again. It is interrupted until the run hears the signal."""
    monkeypatch.chdir(tmp_path)
    Path("model.py").write_text(STUBBORN)
    task = str(write_task(tmp_path / "task", 1))
    words = ["task", task, "--model", "python/model.py:answer", "--output-dir", "out"]
    with Job(["-m", "assay", *words], tmp_path / "out").started() as started:
        assert started.wait_for(Path("first").exists)
        started.process.send_signal(signal.SIGINT)
        assert started.wait_for(Path("second").exists)
        finished = started.end()
    assert finished.code == 130
    assert "Traceback" not in finished.err


WAITING = """
import asyncio
from pathlib import Path


async def answer(prompt, params):
    Path("asked").open("a").write(".")
    while not Path("go").exists():
        await asyncio.sleep(0.01)
    while Path("block").exists():
        Path("blocked").touch()
    return "1"


def score(doc, results):
    Path("scored").open("a").write("once ")
    while True:
        pass
"""


def waiting_job(folder: Path) -> Job:
    """A task whose model answers when there is a file `go`, and whose scoring never ends."""
    task = write_task(folder, 2)
    task.write_text(task.read_text() + "process_results: !function waiting.score\n")
    (folder / "waiting.py").write_text(WAITING)
    words = ["task", str(task), "--model", "python/waiting.py:answer", "--output-dir", "out"]
    return Job(["-m", "assay", *words], folder / "out")


def both_are_asked() -> bool:
    return Path("asked").exists() and Path("asked").read_text() == ".."


def read_until_stopping(started: Started) -> None:
    assert started.process.stderr is not None
    while not (line := started.process.stderr.readline()).startswith("Stopping."):
        assert line, "it ended with the first Ctrl-C"


def test_the_first_interrupt_starts_no_scoring(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Replies that arrive after Ctrl-C are saved. The next start scores them."""
    monkeypatch.chdir(tmp_path)
    with waiting_job(tmp_path).started() as started:
        assert started.wait_for(both_are_asked)
        started.process.send_signal(signal.SIGINT)
        read_until_stopping(started)
        Path("go").touch()
        finished = started.end()
    assert finished.code == 130
    assert not Path("scored").exists()
    assert len(started.job.ends()) == 2


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_a_run_whose_scoring_never_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    """The code that scores is interrupted, and no further case is scored."""
    monkeypatch.chdir(tmp_path)
    Path("go").touch()
    with waiting_job(tmp_path).started() as started:
        assert started.wait_for(Path("scored").exists)
        started.process.send_signal(number)
        finished = started.end()
    assert finished.code == 130
    assert "Traceback" not in finished.err
    assert Path("scored").read_text() == "once "


def test_the_second_interrupt_quits_although_code_blocks_after_the_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("block").touch()
    with waiting_job(tmp_path).started() as started:
        assert started.wait_for(both_are_asked)
        started.process.send_signal(signal.SIGINT)
        read_until_stopping(started)
        # The first signal was heard. When its timer has run out, only that of the second one is left.
        time.sleep(UNHEARD_SECONDS + 0.5)
        Path("go").touch()
        assert started.wait_for(Path("blocked").exists)
        started.process.send_signal(signal.SIGINT)
        finished = started.end()
    assert finished.code == 130
    assert "Traceback" not in finished.err


def test_interrupt_waits_for_slow_replies(tmp_path: Path) -> None:
    """A reply that takes its time is paid for: Ctrl-C waits for it, longer than for code that blocks."""
    task = write_task(tmp_path / "task", 9)
    with FakeOpenAI(latency=UNHEARD_SECONDS + 1) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: len(server.stats().requests) == 8)
            started.process.send_signal(signal.SIGINT)
            assert started.end().code == 130
        assert len(job.replies()) == 8


def test_interrupt_does_not_wait_for_ever(tmp_path: Path) -> None:
    """A reply that never comes holds a single Ctrl-C up for some seconds only."""
    task = write_task(tmp_path / "task", 9)
    with FakeOpenAI(always={question(3): "hang"}) as server:
        job = task_job(task, server, tmp_path / "out")
        with job.started() as started:
            assert started.wait_for(lambda: job.count("calls") >= 8)
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
            assert time.time() - at < 20  # it does not wait for Retry-After
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
            assert time.time() - at < 20  # the call would hang for ever
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


AFTERWARDS = """if True:
    import asyncio, os, signal, sys, threading
    from assay.engine.loop import Loop
    from assay.runner.stop_request import StopRequest

    async def run():
        # The signal comes with the end of the run: the event loop does not hear it any more.
        with StopRequest():
            os.kill(os.getpid(), int(sys.argv[1]))

    asyncio.run(run())
    for thread in threading.enumerate():
        if thread is not threading.main_thread():
            thread.join()
    print("the caller's code goes on")
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_at_the_end_of_a_run_does_not_come_again_after_it(number: signal.Signals) -> None:
    words = [sys.executable, "-c", AFTERWARDS, str(int(number))]
    done = subprocess.run(words, env=environment(), capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the caller's code goes on\n", "")
