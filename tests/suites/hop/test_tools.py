"""hop_tool_use: the choice is verified, then the tool runs once."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import StopRun
from assay.suites.hop.reply_formats import tools_by_name
from assay.suites.hop.session import Session
from assay.suites.hop.sync_session import SyncSession

from support.hop_case import HopCase, Telling, result

YES, NO = '{"agrees": true}', '{"agrees": false, "reason": "add is for sums"}'


def add(a: int, b: int = 1) -> int:
    """Sum of two numbers."""
    return a + b


async def wait_for(what: str) -> list[str]:
    await asyncio.sleep(0)
    return [what, threading.current_thread().name]


def broken() -> None:
    raise LookupError("no such row")


def leaving() -> None:
    raise SystemExit(2)


async def leaving_later() -> None:
    raise SystemExit(2)


def choice(tool: str, **arguments: Any) -> str:
    return result({"tool": tool, "arguments": arguments})


TOOLS = [add, wait_for, broken, leaving, leaving_later]


def used(lab: HopCase, tools: Any = TOOLS, **options: Any) -> tuple[tuple[str, Any], Session]:
    async def work(session: Session) -> tuple[tuple[str, Any], Session]:
        return await session.hop_tool_use("Add 2 and 3.", tools, "numbers", **options), session

    return lab.session(work)


def test_the_chosen_tool_runs_and_its_result_is_the_result(tmp_path: Path) -> None:
    """Both sides are shown the tools; three votes check the choice."""
    run, verify = Telling(choice("add", a=2, b=3)), Telling(YES)
    told, session = used(HopCase(tmp_path, run, verify))
    assert told == ("OK", 5)
    assert "- add(a: int, b: int = 1) -> int: Sum of two numbers." in run.said(0)
    assert "- add(a: int, b: int = 1) -> int: Sum of two numbers." in verify.said(0)
    assert len(verify.asked) == 3
    assert [(step.op, step.status) for step in session.tracer.steps] == [("hop_tool_use", "OK")]


def test_an_async_tool_is_awaited(tmp_path: Path) -> None:
    """In the loop's thread."""
    told, _ = used(HopCase(tmp_path, Telling(choice("wait_for", what="x")), Telling(YES)))
    assert told == ("OK", ["x", "MainThread"])


@pytest.mark.parametrize(
    ("first", "why"),
    [
        (choice("multiply", a=1), "there is no tool 'multiply'; there are: add, wait_for"),
        (choice("add", b=3), "add: missing a required argument: 'a'"),
        (choice("add", a=1, c=3), "add: got an unexpected keyword argument 'c'"),
        (result({"tool": "add", "arguments": [1]}), "the arguments of add are not a JSON object"),
        (result("add"), 'the result is not {"tool"'),
        (result({"tool": "add", "arguments": {"a": "[1]"}}), "result.arguments.a is text that holds"),
    ],
)
@pytest.mark.parametrize("verifier", [None, "tool_use"])
def test_a_choice_that_cannot_run_is_asked_again(tmp_path: Path, first: str, why: str, verifier: Any) -> None:
    """Seen without a call, whatever the verifier."""
    run, verify = Telling(first, choice("add", a=2)), Telling(YES)
    told, session = used(HopCase(tmp_path, run, verify), verifier=verifier)
    assert told == ("OK", 3)
    assert why in run.said(1)
    assert (session.retry_count, len(verify.asked)) == (1, 3 if verifier else 0)


@pytest.mark.parametrize(("votes", "status"), [((YES, NO, YES), "UNCERTAIN"), ((NO, NO, YES), "FAIL")])
def test_a_doubtful_choice_never_runs(tmp_path: Path, votes: tuple[str, ...], status: str) -> None:
    """UNCERTAIN tells the choice, FAIL the reasons."""
    ran: list[str] = []

    def act() -> None:
        ran.append("act")

    lab = HopCase(tmp_path, Telling(choice("act")), Telling(*votes))
    (told, found), _ = used(lab, [act], hop_retry=1)
    assert (told, ran) == (status, [])
    assert found == {"tool": "act", "arguments": {}} if status == "UNCERTAIN" else "add is for sums" in found


@pytest.mark.parametrize(
    ("tool", "said", "error"),
    [
        ("broken", "[LookupError] no such row", "LookupError"),
        ("leaving", "[SystemExit] 2", "SystemExit"),
        ("leaving_later", "[SystemExit] 2", "SystemExit"),
    ],
)
@pytest.mark.parametrize("sync", [False, True])
def test_a_tool_that_raises_is_fail(tmp_path: Path, tool: str, said: str, error: str, sync: bool) -> None:
    """It is not run again, and nobody is asked again."""
    run = Telling(choice(tool))
    lab = HopCase(tmp_path, run, Telling(YES))
    if sync:
        returned, sessions = lab.call(lambda session, _: {"told": session.hop_tool_use("x", TOOLS)})
        told, tracer = tuple(returned.value["told"]), sessions.tracer
    else:
        told, session = used(lab)
        tracer = session.tracer
    assert told == ("FAIL", said)
    assert tracer.steps[0].metadata["error_type"] == error
    assert len(run.asked) == 1


def test_missing_arguments_are_the_models_to_tell(tmp_path: Path) -> None:
    """Nothing runs."""
    told, _ = used(HopCase(tmp_path, Telling('{"missing_info": "the second number"}')))
    assert told == ("LACK_OF_INFO", "the second number")


def test_tools_may_be_given_by_name(tmp_path: Path) -> None:
    """A name stands for whatever can be called, built-in functions too."""
    told, _ = used(HopCase(tmp_path, Telling(choice("plus", a=4)), Telling(YES)), {"plus": add, "n": len})
    assert told == ("OK", 5)


@pytest.mark.parametrize("tools", [[], {}, [add, add]])
def test_tools_need_names_of_their_own(tools: Any) -> None:
    """None at all is wrong use too."""
    with pytest.raises(ValueError, match="needs at least one tool, and each tool needs a unique name"):
        tools_by_name(tools)


def test_a_sync_tool_runs_in_the_thread_of_a_sync_function(tmp_path: Path) -> None:
    """What belongs to that thread may be used; from an async function it runs beside the loop."""
    lab = HopCase(tmp_path / "a", Telling(choice("here")), Telling(YES))

    def here() -> str:
        return threading.current_thread().name

    def function(session: SyncSession, _: Any) -> dict[str, Any]:
        return {"tool": session.hop_tool_use("x", [here])[1], "function": here()}

    told = lab.call(function)[0].value
    assert told["tool"] == told["function"] != "MainThread"
    beside = used(HopCase(tmp_path / "b", Telling(choice("here")), Telling(YES)), [here])[0]
    assert beside[1] != "MainThread"


def test_a_tool_may_ask_and_what_stops_the_run_passes_through(tmp_path: Path) -> None:
    """A tool's StopRun is no result of a tool."""

    async def work(session: Session) -> tuple[str, Any]:
        async def ask() -> str:
            return await session.model.chat("inner")

        async def stop() -> None:
            raise StopRun("enough")

        first = await session.hop_tool_use("x", [ask], verifier=None)
        with pytest.raises(StopRun):
            await session.hop_tool_use("x", [stop], verifier=None)
        return first

    run = Telling(choice("ask"), "inner reply", choice("stop"))
    assert HopCase(tmp_path, run).session(work) == ("OK", "inner reply")
