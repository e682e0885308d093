from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from assay.core.errors import InputError, ModelError, StopRun
from assay.core.types import Failure
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError, failure_of, raised_as
from assay.usercode.modules import load_module
from assay.usercode.user_function import call_here, items_of


def failing(code: str) -> UserCodeError:
    """What calling `f` of this code ends in."""
    names: dict[str, Any] = {}
    exec(compile(code, "own.py", "exec"), names)
    with pytest.raises(UserCodeError) as caught:
        call_here(names["f"])
    return caught.value


@pytest.mark.parametrize("kind", ["def", "async def"])
@pytest.mark.parametrize(
    ("body", "failure"),
    [
        ("sys.exit(4)", ("exit", "[SystemExit] 4")),
        ("raise SystemExit", ("exit", "[SystemExit] ")),
        ("raise KeyboardInterrupt", ("interrupt", "[KeyboardInterrupt] ")),
        ("raise GeneratorExit", ("exception", "[GeneratorExit] ")),
        ("raise asyncio.CancelledError", ("exception", "[CancelledError] ")),
        ("{}['gone']", ("exception", "[KeyError] 'gone'")),
        ("_thread.exit()", ("exit", "[SystemExit] ")),
    ],
)
def test_user_code_never_ends_the_program(tmp_path: Path, kind: str, body: str, failure: tuple[str, str]) -> None:
    """Neither in a thread, nor in the loop, nor where it is called at once."""
    path = tmp_path / "own.py"
    path.write_text(f"import _thread, asyncio, sys\n\n\n{kind} f():\n    {body}\n")
    function = load_module(path).f
    for own_task in (True, False):
        with pytest.raises(UserCodeError) as caught:
            asyncio.run(user_function.call(function, timeout=20, own_task=own_task))
        assert (caught.value.kind, caught.value.message) == failure
        assert caught.value.where == f"own.py:5: {body}"
        assert f'own.py", line 5, in f\n    {body}\n' in caught.value.traceback
    if kind == "def":
        with pytest.raises(UserCodeError) as here:
            call_here(function)
        assert (here.value.kind, here.value.message) == failure


def test_the_traceback_has_the_users_frames_only(tmp_path: Path) -> None:
    """Not those of assay, nor those of the standard library between them; causes are kept."""
    path = tmp_path / "own.py"
    path.write_text(
        "import json\n\ndef f(text):\n    try:\n        json.loads(text)\n"
        "    except ValueError as error:\n        raise KeyError('mine') from error\n"
    )
    with pytest.raises(UserCodeError) as caught:
        call_here(load_module(path).f, ("{",))
    lines = caught.value.traceback.splitlines()
    files = [line.split(",")[0].strip() for line in lines if line.startswith("  File")]
    assert files == [f'File "{path}"'] * 2
    assert lines[-1] == "KeyError: 'mine'"
    assert any(line.startswith("json.decoder.JSONDecodeError: Expecting") for line in lines)
    failure = caught.value.failure()
    assert (failure.kind, failure.status) == ("user_code", "subject_error")
    assert failure.message == "[KeyError] 'mine' (own.py:7: raise KeyError('mine') from error)"
    assert failure.traceback == caught.value.traceback


def test_a_wrong_call_has_no_traceback() -> None:
    """No line of the user's code was reached."""
    with pytest.raises(UserCodeError) as caught:
        call_here(len, (1, 2))
    assert caught.value.traceback == ""


def test_endless_recursion_gives_a_short_traceback() -> None:
    error = failing("def f():\n    g(1)\n\ndef g(n):\n    g(n + 1)\n")
    assert error.type_name == "RecursionError"
    assert len(error.traceback.splitlines()) < 60


INTERRUPTED = """
import os, signal, threading, time
from assay.usercode import user_function as user_code
from assay.usercode.errors import UserCodeError

def waits():
    threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT)).start()
    until = time.monotonic() + 20
    while time.monotonic() < until:
        BODY

try:
    user_code.call_here(waits)
except UserCodeError:
    print("a failure of the case")
except KeyboardInterrupt:
    print("a real Ctrl-C")
"""


@pytest.mark.parametrize("body", ["time.sleep(20)", "pass", "len([1])", "threading.Event().wait(20)"])
def test_a_real_interrupt_stops_the_program(body: str) -> None:
    """Wherever the code stands when the signal comes."""
    done = subprocess.run(
        [sys.executable, "-c", INTERRUPTED.replace("BODY", body)], capture_output=True, text=True, check=False
    )
    assert done.stdout == "a real Ctrl-C\n", done.stderr


def test_an_async_function_has_the_same_time_limit() -> None:
    async def hangs() -> None:
        await asyncio.sleep(60)

    def sleeps() -> None:
        threading.Event().wait(60)

    for function, own_task in ((hangs, True), (hangs, False), (sleeps, True)):
        with pytest.raises(UserCodeError, match=r"^it took longer than 0\.02 s$") as caught:
            asyncio.run(user_function.call(function, timeout=0.02, own_task=own_task))
        assert caught.value.kind == "timeout"


@pytest.mark.parametrize("error", [StopRun("enough"), ModelError(Failure("overloaded", "no room"))])
def test_errors_that_concern_the_whole_run_pass_through(error: Exception) -> None:
    async def later() -> None:
        raise error

    def now() -> None:
        raise error

    for function in (now, later):
        with pytest.raises(type(error)):
            asyncio.run(user_function.call(function))
    with pytest.raises(type(error)):
        call_here(now)


def test_a_task_that_exits_does_not_end_the_loop() -> None:
    """One that user code starts, in its own task or in that of the caller."""

    async def exits() -> None:
        sys.exit(3)

    async def starts() -> None:
        await asyncio.create_task(exits())

    for own_task in (True, False):
        with pytest.raises(UserCodeError) as caught:
            asyncio.run(user_function.call(starts, own_task=own_task))
        assert caught.value.message == "[SystemExit] 3"


@pytest.mark.parametrize("own_task", [True, False])
def test_a_cancelled_wait_is_no_failure(own_task: bool) -> None:
    """Whoever waits is cancelled; the function hears of it."""
    heard: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            heard.append("cancelled")
            raise

    async def main() -> None:
        waiting = asyncio.create_task(user_function.call(hangs, own_task=own_task))
        await asyncio.sleep(0.01)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting

    asyncio.run(main())
    assert heard == ["cancelled"]


def raising_loader(path: Path) -> Any:
    yield 1
    raise KeyError("gone")


@pytest.mark.parametrize(
    ("load", "message"),
    [
        (lambda path: None, "own.py:load: it returned None; return a list of int objects"),
        (lambda path: {"a": 1}, "own.py:load: it returned a dict; return a list of int objects"),
        (lambda path: "12", "own.py:load: it returned a str; return a list of int objects"),
        (lambda path: [1, "2"], "own.py:load: item 1 is a str, expected int"),
        (lambda path: sys.exit(0), "own.py:load: it raised SystemExit: 0"),
        (raising_loader, "own.py:load: it raised KeyError: 'gone'"),
    ],
)
def test_a_loader_that_gives_no_items_is_told_so(load: Any, message: str) -> None:
    """With exit code 2 and no traceback of ours."""
    with pytest.raises(InputError) as caught:
        list(items_of(load, (Path(),), int, "own.py:load"))
    assert str(caught.value).startswith(message)
    assert list(items_of(lambda path: iter([1, 2]), (Path(),), int, "own.py:load")) == [1, 2]


def test_an_exception_without_a_text_is_named_by_its_type() -> None:
    assert raised_as(KeyError("gone")) == "KeyError: 'gone'"
    assert raised_as(StopIteration()) == "StopIteration"
    assert failure_of(StopIteration()).message == "StopIteration"


@pytest.mark.parametrize("own_task", [True, False])
def test_code_that_exits_when_its_time_is_over_took_too_long(own_task: bool) -> None:
    async def exits() -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            sys.exit(2)

    with pytest.raises(UserCodeError, match=r"took longer than 0\.02 s"):
        asyncio.run(user_function.call(exits, timeout=0.02, own_task=own_task))
