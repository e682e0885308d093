"""User code that keeps the loop, or threads: the alarm, and threads that nobody waits for."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.solvers.hop.calling import FunctionFailed
from assay.solvers.hop.keeping import Blocked, LeftThreads, can_time, timed

from support.hop_lab import HopLab, Telling, result


@pytest.fixture
def heard() -> Iterator[list[int]]:
    """Somebody else who waits for the signal; afterwards all is as before."""
    heard: list[int] = []
    before = signal.signal(signal.SIGALRM, lambda *_: heard.append(1))
    yield heard
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, before)


def test_the_alarm_rings_only_in_a_step(heard: list[int]) -> None:
    """Whoever else wants the signal gets it at other times, once."""
    assert can_time()
    assert can_time()
    with pytest.raises(Blocked):
        timed(lambda: signal.raise_signal(signal.SIGALRM), 100)
    assert not heard
    signal.raise_signal(signal.SIGALRM)
    assert heard == [1]


def test_the_timer_of_somebody_else_goes_on(heard: list[int]) -> None:
    """Also where a step raises."""
    assert can_time()
    signal.setitimer(signal.ITIMER_REAL, 500)
    assert timed(lambda: signal.getitimer(signal.ITIMER_REAL)[0] <= 100, 100)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 100
    with pytest.raises(ZeroDivisionError):
        timed(lambda: 1 / 0, 100)
    assert signal.getitimer(signal.ITIMER_REAL)[0] > 100
    assert not heard


def test_other_threads_hear_no_alarm(heard: list[int]) -> None:
    """So nothing is timed there, and the handler stays whose it was."""
    told: list[Any] = []
    thread = threading.Thread(target=lambda: told.append((can_time(), timed(lambda: 5, 0.0))))
    thread.start()
    thread.join()
    assert told == [(False, 5)]
    signal.raise_signal(signal.SIGALRM)
    assert heard == [1]


def ring() -> None:
    signal.raise_signal(signal.SIGALRM)


async def rings(session: Any, fields: Any) -> Any:
    ring()


async def begins_a_task(session: Any, fields: Any) -> Any:
    async def inner() -> None:
        ring()

    await asyncio.create_task(inner())


@pytest.mark.parametrize("function", [rings, begins_a_task])
def test_a_blocked_step_is_a_timeout(tmp_path: Path, heard: list[int], function: Any) -> None:
    """Of the function's own code, and of tasks that it starts; with the line it stood at."""
    with pytest.raises(FunctionFailed, match="it blocked all other rows") as failed:
        HopLab(tmp_path, Telling(result("x"))).call(function, timeout=100)
    assert (failed.value.kind, failed.value.error) == ("timeout", "TimeoutError")
    assert failed.value.where.endswith("signal.raise_signal(signal.SIGALRM)")
    assert not heard


def test_threads_of_asyncio_give_and_raise() -> None:
    """As those of any executor do; one that hangs is left."""
    going = threading.Event()

    async def main() -> Any:
        asyncio.get_running_loop().set_default_executor(LeftThreads())
        hangs = asyncio.create_task(asyncio.to_thread(going.wait))
        told = await asyncio.gather(
            asyncio.to_thread(pow, 2, 5), asyncio.to_thread(int, "x"), return_exceptions=True
        )
        hangs.cancel()
        return told

    first, second = asyncio.run(main())
    going.set()
    assert (first, type(second)) == (32, ValueError)
