"""The tracer: steps that the function opens, steps that operators open, and what each keeps."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import msgspec
import pytest

from assay.suites.hop.session import Session
from assay.suites.hop.sync_session import SyncSession
from assay.suites.hop.trace import Tracer, TraceStep

from support.hop_case import AGREES, HopCase, Telling, result

REFUSES = '{"verdict": "FAIL", "reason": "no"}'


def brief(tracer: Tracer) -> list[tuple[int, str, str, str, int]]:
    return [(step.step, step.op, step.task, step.status, step.retry_count) for step in tracer.steps]


def test_an_operator_traces_itself_where_no_step_is_open(tmp_path: Path) -> None:
    """With its name, its task, how it ended and its retries."""

    async def work(session: Session) -> Tracer:
        await session.hop_get("first")
        await session.hop_judge("second")
        return session.tracer

    run = Telling(result("x"), result("y"), result("True"))
    tracer = HopCase(tmp_path, run, Telling(REFUSES, AGREES)).session(work)
    assert brief(tracer) == [(1, "hop_get", "first", "OK", 1), (2, "hop_judge", "second", "OK", 0)]
    assert all(step.auto for step in tracer.steps)
    assert tracer.retries == 1


def test_a_step_that_the_function_opens_stands_for_the_operators_in_it(tmp_path: Path) -> None:
    """It takes the last operator's status and the retries of all."""

    async def work(session: Session) -> Tracer:
        async with session.tracer.trace_step(op="audit", task="all of it") as step:
            await session.hop_get("a")
            step.metadata["source"] = "x"
            await session.hop_get("b", hop_retry=1)
        with session.tracer.trace_step(op="code", task="sum"):
            pass
        return session.tracer

    verify = Telling(REFUSES, AGREES, REFUSES)
    tracer = HopCase(tmp_path, Telling(result(1)), verify).session(work)
    assert brief(tracer) == [(1, "audit", "all of it", "FAIL", 1), (2, "code", "sum", "OK", 0)]
    assert tracer.steps[0].metadata == {"reason": "no", "source": "x"}
    assert not any(step.auto for step in tracer.steps)
    assert tracer.retries == 1


def test_it_is_the_same_for_a_sync_function(tmp_path: Path) -> None:
    """The step is open in its thread, the operator works in the loop."""

    def function(session: SyncSession, _: Any) -> dict[str, Any]:
        with session.tracer.trace_step("mine"):
            session.hop_get("a")
        session.hop_judge("b")
        return {}

    _, sessions = HopCase(tmp_path, Telling(result("True"))).call(function)
    assert [step.op for step in sessions.tracer.steps] == ["mine", "hop_judge"]


def test_operators_inside_an_operators_tool_trace_themselves(tmp_path: Path) -> None:
    """The step around them is not the function's own."""

    async def work(session: Session) -> Tracer:
        async def look() -> str:
            return str((await session.hop_get("inner"))[1])

        await session.hop_tool_use("outer", [look], verifier=None)
        return session.tracer

    run = Telling(result({"tool": "look"}), result("x"))
    tracer = HopCase(tmp_path, run).session(work)
    assert [(step.step, step.op) for step in tracer.steps] == [(1, "hop_tool_use"), (2, "hop_get")]


def test_steps_side_by_side_are_kept_apart(tmp_path: Path) -> None:
    """A step is open for the task that opened it and those it starts, for no other."""

    async def work(session: Session) -> Tracer:
        async def one(name: str) -> None:
            async with session.tracer.trace_step(name):
                await asyncio.gather(session.hop_get("x", hop_retry=1), session.hop_get("y", hop_retry=1))

        await asyncio.gather(one("a"), session.hop_judge("alone", verifier=None), one("b"))
        return session.tracer

    tracer = HopCase(tmp_path, Telling(result("True"))).session(work)
    assert sorted(step.op for step in tracer.steps) == ["a", "b", "hop_judge"]


def test_an_exception_in_a_step_fails_it_and_goes_on() -> None:
    """What the function set before does not hide it."""
    tracer = Tracer()

    def fail() -> None:
        with tracer.trace_step("x") as step:
            step.status = "UNCERTAIN"
            raise KeyError("k")

    with pytest.raises(KeyError):
        fail()
    [kept] = tracer.steps
    assert (kept.status, kept.metadata) == ("FAIL", {"error": "KeyError: 'k'"})


def test_what_the_function_sets_stands() -> None:
    """A status of its own, retries, and metadata."""
    tracer = Tracer()
    with tracer.trace_step("rag", "look up", {"k": 1}) as step:
        step.status = "LACK_OF_INFO"
        step.retry_count = 4
        step.metadata["found"] = 0
    assert brief(tracer) == [(1, "rag", "look up", "LACK_OF_INFO", 4)]
    assert tracer.steps[0].metadata == {"k": 1, "found": 0}
    assert tracer.steps[0].duration >= 0


class Hostile:
    def __str__(self) -> str:
        raise RuntimeError("no text")


def test_observing_never_breaks_a_run() -> None:
    """Whatever stands in a step, it can be written as JSON."""
    tracer = Tracer()
    odd: Any = Hostile()
    with tracer.trace_step(odd, "\ud800") as step:
        step.status = odd
        step.retry_count = odd
        step.metadata = {odd: odd, "set": {1}, "nan": float("nan"), "bytes": b"x", "half": "\ud800"}
    with tracer.trace_step("x") as step:
        step.metadata = odd
    steps = msgspec.json.decode(msgspec.json.encode(tracer.steps), type=list[TraceStep])
    assert [each.op for each in steps] == ["<Hostile>", "x"]


def test_threads_number_their_steps_without_gaps() -> None:
    """Many at once."""
    tracer = Tracer()
    barrier = threading.Barrier(8)

    def work() -> None:
        barrier.wait(10)
        for _ in range(50):
            with tracer.trace_step("x"):
                pass

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(10)
    assert [step.step for step in tracer.steps] == list(range(1, 401))


def test_after_the_end_nothing_is_kept() -> None:
    """What an abandoned thread traces is nobody's."""
    tracer = Tracer()
    with tracer.trace_step("x"):
        tracer.close()
    assert tracer.steps == []
