from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

from assay.core import user_code
from assay.core.code import code_sha256
from assay.core.errors import InputError, ModelError, StopRun
from assay.core.types import Failure
from assay.core.user_code import UserCodeError, call_here, installed, items_of, load_module


def folder(root: Path, name: str, **files: str) -> Path:
    """A folder with Python files."""
    (root / name).mkdir()
    for stem, text in files.items():
        (root / name / f"{stem}.py").write_text(text)
    return root / name


def test_a_changed_file_is_another_module(tmp_path: Path) -> None:
    """Within one process too: what is fingerprinted is what runs."""
    path = folder(tmp_path, "a", own="value = 1") / "own.py"
    assert load_module(path).value == 1
    assert load_module(path) is load_module(path)
    path.write_text("value = 2")
    assert load_module(path).value == 2


def test_equal_names_in_two_folders_stay_apart(tmp_path: Path) -> None:
    """Each file gets the helper that stands beside it, and leaves none behind for others."""
    for name in ("first", "second"):
        folder(tmp_path, name, own="from helper import WHO", helper=f"WHO = {name!r}")
        assert name == load_module(tmp_path / name / "own.py").WHO
    assert "helper" not in sys.modules


def test_a_helper_that_changed_is_noticed(tmp_path: Path) -> None:
    """The files beside it that it imports are part of a file's content; others are not."""
    here = folder(tmp_path, "a", own="import helper\nvalue = helper.VALUE", helper="VALUE = 1", other="")
    before = code_sha256(here / "own.py")
    (here / "other.py").write_text("x = 1")
    assert code_sha256(here / "own.py") == before
    assert load_module(here / "own.py").value == 1
    (here / "helper.py").write_text("VALUE = 2")
    assert code_sha256(here / "own.py") != before
    assert load_module(here / "own.py").value == 2


def test_a_file_that_changed_within_a_second_runs_as_it_is(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Same size, same second: Python would take the bytecode for current. So are a helper, a package, a late import."""
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    code = "import helper, pack.deep\nvalue = 1\n\ndef late():\n    import later\n    return later.VALUE\n"
    here = folder(tmp_path, "a", own=code, helper="VALUE = 1", later="VALUE = 1")
    folder(here, "pack", __init__="", deep="VALUE = 1")
    for number in "12":
        for path in here.rglob("*.py"):
            path.write_text(path.read_text().replace("= 1", f"= {number}"))
            os.utime(path, (1_000_000_000, 1_000_000_000))
        sys.modules.pop("later", None)
        own = load_module(here / "own.py")
        values = [own.value, own.helper.VALUE, own.pack.deep.VALUE, own.late()]
        assert values == [int(number)] * 4
    assert not list(here.rglob("*.pyc"))


def test_modules_of_one_folder_are_not_importable_from_another(tmp_path: Path) -> None:
    """A module by name is an installed one; what another file's folder holds does not count."""
    load_module(folder(tmp_path, "a", own="", lonely_module="") / "own.py")
    assert installed("lonely_module") is None
    assert installed("json") is sys.modules["json"]


def test_modules_that_were_loaded_before_come_back(tmp_path: Path) -> None:
    """A file of the user's may have the name of a module that others use."""
    import json

    here = folder(tmp_path, "a", own="from json import MINE", json="MINE = 7")
    assert load_module(here / "own.py").MINE == 7
    assert sys.modules["json"] is json


def test_an_exception_during_import_is_reported(tmp_path: Path) -> None:
    """With the file and the exception."""
    path = folder(tmp_path, "a", own="1 / 0") / "own.py"
    with pytest.raises(InputError, match=r"own.py: importing it raised ZeroDivisionError"):
        load_module(path)


def test_a_file_that_exits_is_not_taken_for_a_module(tmp_path: Path) -> None:
    """Neither then nor when it is asked for again."""
    path = folder(tmp_path, "a", own="raise SystemExit(3)") / "own.py"
    for _ in range(2):
        with pytest.raises(InputError, match=r"own.py: importing it raised SystemExit: 3"):
            load_module(path)


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
def test_user_code_never_ends_the_program(
    tmp_path: Path, kind: str, body: str, failure: tuple[str, str]
) -> None:
    """Neither in a thread, nor in the loop, nor where it is called at once."""
    path = tmp_path / "own.py"
    path.write_text(f"import _thread, asyncio, sys\n\n\n{kind} f():\n    {body}\n")
    function = load_module(path).f
    for own_task in (True, False):
        with pytest.raises(UserCodeError) as caught:
            asyncio.run(user_code.call(function, timeout=20, own_task=own_task))
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
from assay.core import user_code
from assay.core.user_code import UserCodeError

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
            asyncio.run(user_code.call(function, timeout=0.02, own_task=own_task))
        assert caught.value.kind == "timeout"


@pytest.mark.parametrize("error", [StopRun("enough"), ModelError(Failure("overloaded", "no room"))])
def test_errors_that_concern_the_whole_run_pass_through(error: Exception) -> None:
    async def later() -> None:
        raise error

    def now() -> None:
        raise error

    for function in (now, later):
        with pytest.raises(type(error)):
            asyncio.run(user_code.call(function))
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
            asyncio.run(user_code.call(starts, own_task=own_task))
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
        waiting = asyncio.create_task(user_code.call(hangs, own_task=own_task))
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
