"""Steps in a thread that is not the main one: interrupted in Python code, and told of where they wait in C."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any

import pytest

from assay.usercode.blocked_calls import BlockedCall, CaseCalls
from assay.usercode.errors import UserCodeError
from assay.usercode.thread_alarm import ThreadAlarm
from assay.usercode.watchdog import Blocked, StepOwner, can_watch, watched

OWNER = StepOwner(7, "hop#1")


@pytest.fixture(autouse=True)
def _often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("assay.usercode.thread_alarm._EVERY_SECONDS", 0.001)
    monkeypatch.setattr("assay.usercode.watchdog._thread_alarms", {})  # threads of other tests may get the same number
    monkeypatch.setattr("assay.usercode.thread_alarm._STUCK_SECONDS", 0.05)


def in_thread(work: Callable[[], Any], on_stuck: Callable[[StepOwner, Blocked], object]) -> Any:
    """Return what a function returns or raises in a thread with an alarm."""
    results: SimpleQueue[Any] = SimpleQueue()

    def run() -> None:
        ThreadAlarm(threading.get_ident(), on_stuck)
        try:
            results.put(work())
        except BaseException as error:  # noqa: BLE001 - returned
            results.put(error)

    threading.Thread(target=run, daemon=True).start()
    return results.get(timeout=300)


def spin() -> None:
    while True:
        sum(range(100))


def test_python_code_that_takes_too_long_is_ended() -> None:
    def work() -> list[Any]:
        assert can_watch()
        with pytest.raises(Blocked):
            watched(0.01, spin, owner=OWNER)
        return [watched(600, pow, 2, 5), watched(0.0, pow, 2, 5)]

    assert in_thread(work, lambda *_: None) == [32, 32]


def test_a_step_that_waits_in_c_is_told_once_with_its_place() -> None:
    """It hears of it when it comes back."""
    told: list[tuple[StepOwner, BlockedCall]] = []
    waits = threading.Event()

    def stuck(owner: StepOwner, error: Blocked) -> None:
        told.append((owner, BlockedCall.of(owner.call, error)))
        time.sleep(0.1)  # the alarm rings again meanwhile, if it does
        waits.set()

    error = in_thread(lambda: watched(0.01, waits.wait, owner=OWNER), stuck)
    assert isinstance(error, Blocked)
    ((owner, call),) = told
    assert owner == OWNER
    assert "test_thread_alarm.py" in call.where
    assert call.traceback.startswith("Traceback")


@pytest.mark.parametrize("steps", [500, 3_000])
def test_no_exception_comes_after_the_end_of_a_step(steps: int) -> None:
    """However close to its limit it ends: code between steps belongs to the loop."""
    counts = {"ended": 0, "blocked": 0}

    def work() -> int:
        for number in range(steps):
            until = time.monotonic() + 0.0002 + number % 7 * 0.0002

            def step(until: float = until) -> None:
                while time.monotonic() < until:
                    pass

            try:
                watched(0.0008, step)
                counts["ended"] += 1
            except Blocked:
                counts["blocked"] += 1
            sum(range(500))  # where a late exception would be raised
        return 1

    assert in_thread(work, lambda *_: None) == 1
    assert counts["blocked"] > 0
    assert counts["ended"] > 0


def test_a_call_that_blocked_a_worker_raises_when_it_is_known() -> None:
    """Calls are numbered by function: the first and the third of `f` go on."""

    async def f() -> None: ...
    async def g() -> None: ...

    name = f"{f.__qualname__}#2"
    calls = CaseCalls(3, [BlockedCall(name, "hop.py:3: time.sleep(9)", "Traceback")])
    assert calls.begin(f).placement == 3
    calls.begin(g)
    with pytest.raises(UserCodeError, match="it blocked all other rows") as failed:
        calls.begin(f)
    assert (failed.value.kind, failed.value.where) == ("timeout", "hop.py:3: time.sleep(9)")
    assert failed.value.failure().traceback == "Traceback"
    assert calls.begin(f).call == f"{f.__qualname__}#3"
