"""User code that keeps the loop, or threads: the alarm, and threads that nobody waits for."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.core.threads import DetachedThreads
from assay.usercode.errors import UserCodeError
from assay.usercode.watchdog import Blocked, can_watch, watched

from support.hop_case import HopCase, Telling, result


@pytest.fixture(autouse=True)
def _alarm(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nobody has the signal yet, and the timer rings often; afterwards all is as before."""
    before = signal.signal(signal.SIGALRM, signal.SIG_DFL)
    monkeypatch.setattr("assay.usercode.watchdog._EVERY_SECONDS", 0.01)
    monkeypatch.setattr("assay.usercode.user_function._SLACK_SECONDS", 0.0)
    yield
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def left() -> float:
    return signal.getitimer(signal.ITIMER_REAL)[0]


def ring() -> None:
    signal.raise_signal(signal.SIGALRM)


def test_a_step_that_takes_too_long_is_ended() -> None:
    """By an exception in it, after which the timer is let go; one within its time hears nothing."""
    assert can_watch()
    assert can_watch()
    with pytest.raises(Blocked):
        watched(0.02, time.sleep, 600)
    assert watched(600, pow, 2, 5) == 32
    watched(600, ring)
    assert left() > 0
    ring()
    assert left() == 0
    with pytest.raises(Blocked):
        watched(0.02, time.sleep, 600)


def test_code_that_catches_everything_is_told_again() -> None:
    caught = []

    def stubborn() -> None:
        for _ in range(3):
            try:
                time.sleep(600)
            except BaseException as error:  # noqa: BLE001 - as bad code does
                caught.append(type(error))

    assert can_watch()
    watched(0.01, stubborn)
    assert caught == [Blocked] * 3


def test_the_timer_and_the_handler_of_somebody_else_stay() -> None:
    """Then nothing is timed."""
    assert can_watch()
    signal.setitimer(signal.ITIMER_REAL, 500)
    assert watched(0.01, left) > 100
    signal.setitimer(signal.ITIMER_REAL, 0)
    heard: list[int] = []
    signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    assert not can_watch()
    ring()
    assert heard == [1]


def test_other_threads_hear_no_alarm() -> None:
    """So nothing is timed there."""
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append((can_watch(), watched(0.0, pow, 5, 1))))
    thread.start()
    thread.join()
    assert told == [(False, 5)]
    assert left() == 0


async def blocks(session: Any, fields: Any) -> Any:
    time.sleep(600)  # noqa: ASYNC251 - as bad code does


async def begins_a_task(session: Any, fields: Any) -> Any:
    await asyncio.create_task(blocks(session, fields))


@pytest.mark.parametrize("function", [blocks, begins_a_task])
def test_a_blocked_step_is_a_timeout(tmp_path: Path, function: Any) -> None:
    """Of the function's own code, and of tasks that it starts; with the line it stood at."""
    with pytest.raises(UserCodeError, match="it blocked all other rows") as failed:
        HopCase(tmp_path, Telling(result("x"))).call(function, timeout=0.05)
    assert (failed.value.kind, failed.value.type_name) == ("timeout", "TimeoutError")
    assert "time.sleep(600)" in failed.value.where


def test_threads_of_asyncio_give_and_raise() -> None:
    """As those of any executor do; one that hangs is left."""
    going = threading.Event()

    async def main() -> Any:
        asyncio.get_running_loop().set_default_executor(DetachedThreads())
        hangs = asyncio.create_task(asyncio.to_thread(going.wait))
        told = await asyncio.gather(asyncio.to_thread(pow, 2, 5), asyncio.to_thread(int, "x"), return_exceptions=True)
        hangs.cancel()
        return told

    first, second = asyncio.run(main())
    going.set()
    assert (first, type(second)) == (32, ValueError)


SLOW_END = """
import sys, time
from assay.usercode.watchdog import can_watch, watched

class Slow:
    def __init__(self):
        self.clock = time.monotonic
    def __del__(self):
        until = self.clock() + 2.2
        while self.clock() < until:
            pass

assert can_watch()
watched(60, int)
sys.kept = Slow()
"""


def test_a_process_that_ends_slowly_is_not_killed_by_the_timer() -> None:
    """Python gives the timer's signal back before its modules go: what rang then ended the process."""
    assert subprocess.run([sys.executable, "-c", SLOW_END], check=False).returncode == 0
