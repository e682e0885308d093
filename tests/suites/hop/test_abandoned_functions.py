"""Functions that take too long, run side by side, or lose their calls: the session and the pool afterwards."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import ModelError, StopRun
from assay.core.protocols import Context
from assay.core.threads import DaemonPool
from assay.core.types import Failure
from assay.suites.hop.session import Session
from assay.suites.hop.solver import call_function
from assay.suites.hop.sync_session import SyncSession
from assay.usercode.errors import UserCodeError

from support.hop_case import RUN, VERIFY, HopCase, Telling, result

FIELDS = {"a": 1, "b": 2}


def test_an_async_function_that_takes_too_long_is_cancelled(tmp_path: Path) -> None:
    """It may clean up."""
    cleaned: list[str] = []

    async def hang(session: Any, row: Any) -> Any:
        try:
            await asyncio.sleep(30)
        finally:
            cleaned.append("yes")

    with pytest.raises(UserCodeError) as raised:
        HopCase(tmp_path, Telling(result("x"))).call(hang, FIELDS, 0.02)
    found = raised.value
    assert (found.kind, found.message) == ("timeout", "it took longer than 0.02 s")
    assert cleaned == ["yes"]


def test_asyncio_logs_nothing_about_a_function_that_ignores_its_cancellation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("assay.usercode.user_function._GRACE_SECONDS", 0.02)

    async def stubborn(session: Session, row: Any) -> Any:
        while True:
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.sleep(30)

    with pytest.raises(UserCodeError):
        HopCase(tmp_path, Telling(result("x"))).call(stubborn, FIELDS, 0.02)
    gc.collect()  # the task is pending, and its loop is closed
    assert caplog.messages == []


def test_an_async_function_that_will_not_end_is_left_and_asks_nothing_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its calls are no longer made, and its steps are not kept."""
    monkeypatch.setattr("assay.usercode.user_function._GRACE_SECONDS", 0.02)
    after: list[Any] = []

    async def stubborn(session: Session, row: Any) -> Any:
        while len(after) < 2:
            try:
                await asyncio.sleep(30)
            except asyncio.CancelledError:
                after.append(await session.hop_get("more"))
        await asyncio.sleep(0)

    run = Telling(result("x"))
    with pytest.raises(UserCodeError) as raised:
        HopCase(tmp_path, run).call(stubborn, {"a": 1}, 0.02)
    assert raised.value.kind == "timeout"
    assert after[0][0] == "FAIL"
    assert run.asked == []


class Silent(Telling):
    """Never answers."""

    async def send(self, request: Any, seed: int) -> Any:
        self.asked.append(request)
        await asyncio.sleep(60)


def test_what_a_left_function_waits_for_is_given_up(tmp_path: Path) -> None:
    """A thread in the middle of an operator hears of it, and its next question is not asked."""
    heard: list[Any] = []
    done = threading.Event()
    watcher = DaemonPool(1, "t")

    def asking(session: SyncSession, row: Any) -> Any:
        try:
            session.hop_get("one")
        except BaseException as error:  # noqa: BLE001
            heard.append(type(error).__name__)
        try:
            heard.append(session.hop_get("two")[0])
        finally:
            done.set()

    async def solve(ctx: Context) -> None:
        sessions = Session(ctx, RUN, VERIFY)
        with pytest.raises(UserCodeError, match="longer than"):
            await call_function(asking, sessions, FIELDS, DaemonPool(1, "t", replaces=True), 0.5)
        assert await watcher.run(lambda: done.wait(20))

    run = Silent()
    asyncio.run(HopCase(tmp_path, run).start(solve))
    assert heard == ["CancelledError", "FAIL"]
    assert len(run.asked) == 1


def test_hung_functions_leave_room_for_all_others(tmp_path: Path) -> None:
    """More of them than the pool has threads; afterwards as many run at once as before."""
    gate, barrier = threading.Event(), threading.Barrier(3)

    def hang(session: Any, row: Any) -> Any:
        gate.wait(60)

    def meet(session: Any, row: Any) -> Any:
        return [barrier.wait(20)]

    async def solve(ctx: Context) -> int:
        pool = DaemonPool(3, "t", replaces=True)

        def call(function: Any, seconds: float) -> Any:
            return call_function(function, Session(ctx, RUN, VERIFY), FIELDS, pool, seconds)

        hung = await asyncio.gather(*(call(hang, 0.05) for _ in range(7)), return_exceptions=True)
        assert [each.kind for each in hung if isinstance(each, UserCodeError)] == ["timeout"] * 7
        return len(await asyncio.gather(*(call(meet, 30) for _ in range(3))))

    assert asyncio.run(HopCase(tmp_path, Telling("x")).start(solve)) == 3
    gate.set()


def test_twenty_sleeping_functions_run_side_by_side(tmp_path: Path) -> None:
    """Every one begins before any ends, and each asks through its session meanwhile."""
    spans: list[tuple[float, float]] = []
    barrier = threading.Barrier(20)

    def sleep(session: SyncSession, row: Any) -> dict[str, Any]:
        began = time.monotonic()
        session.hop_get("x", verifier=None)
        barrier.wait(20)
        time.sleep(0.05)
        spans.append((began, time.monotonic()))
        return {}

    async def solve(ctx: Context) -> None:
        pool = DaemonPool(20, "t", replaces=True)
        work = [call_function(sleep, Session(ctx, RUN, VERIFY), {}, pool, 30) for _ in range(20)]
        await asyncio.gather(*work)

    asyncio.run(HopCase(tmp_path, Telling(result("x"))).start(solve))
    assert len(spans) == 20
    assert max(began for began, _ in spans) < min(ended for _, ended in spans)


def test_a_sync_session_works_from_any_thread_of_the_function(tmp_path: Path) -> None:
    """All its names are there and block."""

    def function(session: SyncSession, row: Any) -> dict[str, Any]:
        told: list[Any] = []
        threads = [
            threading.Thread(target=lambda: told.append(session.hop_judge("x", verifier=None))) for _ in range(5)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(20)
        return {
            "told": told,
            "chat": session.model.chat("hi"),
            "url": session.base_url()[:17],
            "retries": session.retry_count,
            "failure": session.failure,
        }

    told = HopCase(tmp_path, Telling(result("True"))).call(function)[0].value
    assert told["told"] == [["OK", "True"]] * 5
    assert told["chat"] == result("True")
    assert told["url"] == "http://127.0.0.1:"
    assert (told["retries"], told["failure"]) == (0, None)


def test_a_sync_session_in_the_watcher_thread_says_what_is_wrong(tmp_path: Path) -> None:
    """It would wait for itself for ever."""

    async def work(session: Session) -> None:
        blocking = SyncSession(session, asyncio.get_running_loop())
        with pytest.raises(RuntimeError, match="use the async one"):
            blocking.hop_get("x")

    HopCase(tmp_path, Telling("x")).session(work)


def stopped(session: Any, row: Any) -> Any:
    raise StopRun("enough")


def test_what_stops_the_run_is_nobodys_result(tmp_path: Path) -> None:
    """From a thread as well: the budget is spent in the second operator."""

    def two(session: SyncSession, row: Any) -> Any:
        session.hop_get("x", verifier=None)
        return session.hop_get("y", verifier=None)

    async def solve(ctx: Context) -> Any:
        sessions = Session(ctx, RUN, VERIFY)
        return await call_function(two, sessions, {}, DaemonPool(1, "t", replaces=True), 20)

    lab = HopCase(tmp_path, Telling(result("x")))
    with pytest.raises(StopRun, match="--max-calls"):
        asyncio.run(lab.start(solve, max_calls=1))
    (tmp_path / "b").mkdir()
    with pytest.raises(StopRun, match="enough"):
        HopCase(tmp_path / "b", Telling("x")).call(stopped)


def test_a_failed_call_that_the_function_lets_through_stays_one(tmp_path: Path) -> None:
    """The engine asks such a row again; one that the function hides is in the session."""
    seen: list[Session] = []
    overloaded = Failure("overloaded", "no room")

    def plain(session: SyncSession, row: Any) -> Any:
        return {"text": session.model.chat("hi")}

    def hiding(session: SyncSession, row: Any) -> Any:
        try:
            session.model.chat("hi")
        except ModelError as error:
            raise ValueError("mine") from error

    with pytest.raises(ModelError) as raised:
        HopCase(tmp_path, Telling(overloaded)).call(plain)
    assert raised.value.failure == overloaded

    async def solve(ctx: Context) -> Any:
        seen.append(Session(ctx, RUN, VERIFY))
        return await call_function(hiding, seen[0], {}, DaemonPool(1, "t", replaces=True), 20)

    (tmp_path / "b").mkdir()
    with pytest.raises(UserCodeError):
        asyncio.run(HopCase(tmp_path / "b", Telling(overloaded)).start(solve))
    assert seen[0].failure == overloaded


def test_the_status_of_a_pair_comes_out(tmp_path: Path) -> None:
    """A function may hand on what an operator told it."""

    async def function(session: Session, row: Any) -> Any:
        return await session.hop_get("x", verifier=lambda *_: ("FAIL", "never"), hop_retry=1)

    returned, _ = HopCase(tmp_path, Telling(result({"a": 1}))).call(function)
    assert returned == ("FAIL", '"never"', "never")
