"""Code from a testset reaches nothing outside the sandbox, and the sandbox still works after any failure."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.core.errors import MissingExtra
from assay.suites.pipeline.code.runner import Code, CodeError
from assay.suites.pipeline.code.sandbox import MAX_SOURCE, Sandbox

NAME = "testset.jsonl:3 step_inputs.a.code"
GOOD = "def aggregate(items):\n    return {'n': len(items), 'top': max(items)}\n"


def with_sandbox(use: Callable[[Sandbox], Awaitable[Any]], **options: Any) -> Any:
    """Call `use` with a sandbox, close the sandbox, and return the result."""

    async def whole() -> Any:
        sandbox = Sandbox(**options)
        try:
            return await asyncio.wait_for(use(sandbox), 60)
        finally:
            await sandbox.close()

    return asyncio.run(whole())


def result(source: str, argument: Any) -> Any:
    return with_sandbox(lambda sandbox: sandbox.run(Code(source, NAME), argument, 5))


def problem(source: str, argument: Any = None, timeout: float = 30.0, **options: Any) -> CodeError:
    """Return the error of the code. The same sandbox must run good code afterwards."""

    async def use(sandbox: Sandbox) -> CodeError:
        with pytest.raises(CodeError) as caught:
            await sandbox.run(Code(source, NAME), {} if argument is None else argument, timeout)
        assert await sandbox.run(Code(GOOD, NAME), [1, 3, 2], 5) == {"n": 3, "top": 3}
        return caught.value

    actual = with_sandbox(use, **options)
    assert isinstance(actual, CodeError)
    return actual


def body(*lines: str) -> str:
    return "def main(data):\n" + "".join(f"    {line}\n" for line in lines)


REACHING = [
    body("return open('/etc/passwd').read()"),
    body("return open('PATH').read()"),
    body("with open('PATH', 'w') as file:", "    file.write('x')"),
    body("import os", "return os.listdir('/')"),
    body("import os", "return os.environ['HOME']"),
    body("import os", "return os.getenv('HOME').lower()"),
    body("import os", "return os.system('id')"),
    body("import os", "return os.fork()"),
    body("import os", "return os._exit(1)"),
    body("import os", "return os.remove('PATH')"),
    body("from pathlib import Path", "return Path('PATH').read_text()"),
    body("from pathlib import Path", "return Path('PATH').write_text('x')"),
    body("from pathlib import Path", "return [str(each) for each in Path('/').iterdir()]"),
    body("import socket", "return socket.create_connection(('127.0.0.1', 80))"),
    body("import urllib.request", "return urllib.request.urlopen('http://127.0.0.1/')"),
    body("import http.client", "return 1"),
    body("import subprocess", "return subprocess.run(['id'])"),
    body("import multiprocessing", "return 1"),
    body("import threading", "return 1"),
    body("import ctypes", "return 1"),
    body("import importlib", "return 1"),
    body("import pickle", "return 1"),
    body("import signal", "return 1"),
    body("import pydantic_monty", "return 1"),
    body("import assay", "return 1"),
    body("return __import__('os').system('id')"),
    body("return __builtins__"),
    body("return globals()"),
    body("return input()"),
    body("return ().__class__.__bases__[0].__subclasses__()"),
    body("return getattr((), '__class__')"),
    body("return main.__globals__"),
    body("return main.__code__"),
    body("return (lambda: 0).__closure__"),
    body("return '{0.__class__}'.format(data)"),
    body("return eval(\"__import__('os')\")"),
    body("exec('import socket')"),
    body("return analyze(data)"),
]


@pytest.mark.parametrize("source", REACHING, ids=range(len(REACHING)))
def test_nothing_outside_is_reached(source: str, tmp_path: Path) -> None:
    """Files, processes, sockets, dangerous modules and the internals of Python all raise."""
    file = tmp_path / "file"
    file.write_text("untouched")
    actual = problem(source.replace("PATH", str(file)))
    assert actual.kind == "raised"
    assert f"{NAME}, line " in actual.message
    assert file.read_text() == "untouched"


BEYOND = [
    (body("while True: pass"), "timeout"),
    ("while True: pass\ndef main(data): pass", "timeout"),
    (body("for i in range(10**9): pass"), "timeout"),
    (
        body("while True:", "    try:", "        while True: pass", "    except BaseException: pass"),
        "timeout",
    ),
    (body("return sum(range(10**12))"), "timeout"),
    (body("while True: sorted(range(1000))"), "timeout"),
    (body("x = 3", "while True: x = x * x % (10**2000 + 1)"), "timeout"),
    (body("return 'a' * 10**10"), "memory"),
    (body("return [0] * 10**10"), "memory"),
    (body("try:", "    x = 'a' * 10**10", "except BaseException:", "    return 1"), "memory"),
    (body("return 9 ** (9 ** 9)"), "memory"),
    (body("return 1 << 10**11"), "memory"),
    (body("return '%1000000000d' % 3"), "memory"),
    (body("print('x' * 10**9)"), "memory"),
    (body("for _ in range(10**6): print('x' * 100)"), "memory"),
    (body("return main(data)"), "raised"),
    (body("def f(n): return [f(n + 1)]", "return f(0)"), "raised"),
    (body("for _ in range(5000):", "    try: open('x')", "    except Exception: pass"), "raised"),
]


@pytest.mark.parametrize(("source", "kind"), BEYOND, ids=range(len(BEYOND)))
def test_time_memory_prints_and_depth_are_bounded(source: str, kind: str, capfd: pytest.CaptureFixture[str]) -> None:
    """Code beyond a limit is stopped, and its output does not reach the screen."""
    # On a busy machine, code that is to reach another limit must not reach that of time first.
    assert problem(source, timeout=0.5 if kind == "timeout" else 30.0).kind == kind
    assert "x" * 100 not in capfd.readouterr().out


GROWING = [
    body("x = []", "while True: x.append('a' * 1000)"),
    body("x = 'ab'", "while True: x += x"),
    body("x = {}", "while True: x[len(x)] = [len(x)]"),
    body("return [list(range(1000)) for _ in range(10**7)]"),
    body("return '{:1000000000}'.format(3)"),
    body("x = []", "for _ in range(10**7): x = [x, x, 'a' * 999]", "return 1"),
]


@pytest.mark.parametrize("source", GROWING, ids=range(len(GROWING)))
def test_memory_that_grows_is_stopped_at_the_limit(source: str) -> None:
    """The memory limit stops the code long before its timeout."""
    actual = problem(source, timeout=10, memory_mb=32)
    assert actual.kind == "memory"
    assert "more than 32 MB" in actual.message


def test_the_time_of_a_call_is_at_most_that_of_the_sandbox() -> None:
    actual = problem(body("while True: pass"), timeout=1000, seconds=0.3)
    assert (actual.kind, actual.message) == ("timeout", f"{NAME}: it ran longer than 0.3 s and was stopped")


def test_sleeping_takes_no_time() -> None:
    source = body("import time", "for _ in range(20): time.sleep(3600)", "return 'slept'")
    assert result(source, {}) == "slept"


@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [
        ("def aggregate(items): return {'summary': analyze(items)}", "raised", ["line 1: NameError", "'analyze'"]),
        ("def main(:", "syntax", ["line 1", "not Python"]),
        ("def main(d): return 1\\", "syntax", ["not Python"]),
        ("x = '\0'", "syntax", ["not Python"]),
        ("-" * 90_000 + "1", "syntax", ["not Python"]),
        ("x = a" + ".a" * 40_000, "syntax", ["not Python"]),
        ("#" * (MAX_SOURCE + 1), "syntax", ["100,001 characters"]),
        ("class A(Exception): pass\ndef main(d): return 1", "syntax", ["line 1", "does not yet support"]),
        ("x = 1", "no_entry", ["aggregate, transform, process_data, main, execute"]),
        ("if True:\n    def main(d): pass", "no_entry", ["define one of"]),
        ("import sys\ndef main(d): return f(d)\ndef f(d):\n    raise ValueError('no\\nway')", "raised",
         ["line 4: ValueError: no way", "raise ValueError("]),
        ("print('before')\ndef main(d):\n    print('it ' * 900)\n    return 1 / 0", "raised",
         ["line 4: ZeroDivisionError", "it printed: ", "it it it"]),
        ("def main(a, b): return a", "raised", ["TypeError", "'b'"]),
        ("raise TimeoutError('mine')\ndef main(d): pass", "raised", ["line 1: TimeoutError: mine"]),
        ("raise MemoryError('mine')\ndef main(d): pass", "raised", ["line 1: MemoryError: mine"]),
        ("def main(d): return {1, 2}", "bad_result", ["set"]),
        ("def main(d): return [float('nan')]", "bad_result", ["nan"]),
        ("def main(d): return {(1, 2): 3}", "bad_result", ["tuple"]),
        ("def main(d): return main", "bad_result", ["function"]),
        ("def main(d): return range(3)", "bad_result", ["range"]),
        ("def main(d): return b'a'", "bad_result", ["bytes"]),
        ("def main(d): return 10**5000", "bad_result", ["4300 digits"]),
        ("def main(d):\n    x = []\n    x.append(x)\n    return x", "bad_result", ["Circular"]),
        ("def main(d):\n    x = []\n    for _ in range(100000): x = [x]\n    return x", "bad_result", ["depth"]),
        ("def main(d):\n    x = []\n    for _ in range(500): x = [x]\n    return x", "bad_result", ["nested"]),
    ],
)  # fmt: skip
def test_every_way_to_fail_has_its_kind_and_says_where(source: str, kind: str, words: list[str]) -> None:
    actual = problem(source, timeout=5)
    assert actual.kind == kind
    assert actual.message.startswith(NAME)
    assert [word for word in words if word not in actual.message] == []
    assert len(actual.message) < 2_400


COUNTING = """
from collections import Counter

def aggregate(items):
    counts = Counter(item['label'] for item in items)
    best = sorted(items, key=lambda item: -item['score'])[0]
    return {'counts': dict(counts), 'best': best['label'], 'text': f'{len(items)} items'}
"""
READING = """
import json, math, re

def transform(text):
    numbers = [int(x) for x in re.findall(r'[0-9]+', text)]
    return {'n': numbers, 'j': json.loads('[1, null]'), 'r': math.sqrt(4)}
"""


@pytest.mark.parametrize(
    ("source", "argument", "expected"),
    [
        (
            COUNTING,
            [{"label": "é", "score": 1}, {"label": "b", "score": 2.5}, {"label": "é", "score": 0}],
            {"counts": {"é": 2, "b": 1}, "best": "b", "text": "3 items"},
        ),
        (
            READING,
            {"text": "a1b22"},
            {"n": [1, 22], "j": [1, None], "r": 2.0},
        ),
        ("def main(text, n=7): return [text, n]", {"text": "t"}, ["t", 7]),
        ("def main(data=None): return data", {"text": "t"}, {"text": "t"}),
        ("def main(): return (1, {2: 3})", {"text": "t"}, [1, {"2": 3}]),
        ("def main(**inputs): return inputs", {"text": "t", "a b": 1}, {"text": "t", "a b": 1}),
        ("def main(*data): return data", {"text": "t"}, [{"text": "t"}]),
        ("def main(*, text): return text", {"text": "t"}, "t"),
        ("def main(text, /): return text", {"text": "t"}, {"text": "t"}),
        ("def main(data): return data", [1], [1]),
        ("async def main(text): return text", {"text": "t"}, "t"),
        ("def main(d): return 'main'\ndef transform(d): return 'transform'", {}, "transform"),
        ("def dumps(x): return 1\njson = 2\ndef main(): return 'own names'", {}, "own names"),
        ("def main(text): return text * 2", {"text": "é\u2028\u0000" * 100_000}, "é\u2028\u0000" * 200_000),
    ],
)
def test_good_code_runs(source: str, argument: Any, expected: Any) -> None:
    """Counting, sorting, patterns and JSON work. The entry is called in the same way as in a child process."""
    assert result(source, argument) == expected


def test_nothing_stays_from_one_call_to_the_next() -> None:
    """Variables do not carry over, and random numbers are the same in every call."""
    source = "import random\nseen = []\ndef main(x):\n    seen.append(x)\n    return [len(seen), random.random()]\n"

    async def use(sandbox: Sandbox) -> None:
        first, second = [await sandbox.run(Code(source, NAME), {"x": 1}, 5) for _ in range(2)]
        assert first == second
        assert first[0] == 1

    with_sandbox(use)


def test_calls_run_side_by_side_and_closing_leaves_no_process() -> None:
    """Calls beyond the number of processes wait. After close() no process is left, also after a cancelled call."""

    async def whole() -> list[str]:
        sandbox = Sandbox(workers=2)
        actual = await asyncio.gather(*(sandbox.run(Code(GOOD, NAME), [n, 1], 5) for n in range(2, 10)))
        assert [each["top"] for each in actual] == list(range(2, 10))
        assert children()
        call = asyncio.create_task(sandbox.run(Code("while True: pass\ndef main(): 1", NAME), {}, 5))
        await asyncio.sleep(0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await sandbox.close()
        await sandbox.close()
        return children()

    assert asyncio.run(whole()) == []


def test_closing_stops_code_that_still_runs() -> None:
    """close() stops running calls at once, and calls that wait for a process too."""

    async def whole() -> list[Any]:
        sandbox = Sandbox(workers=1, seconds=3600)
        forever = Code("while True: pass\ndef main(): 1", NAME)
        calls = [asyncio.create_task(sandbox.run(forever, {}, 3600)) for _ in range(2)]
        while not any(call._process for call in sandbox._calls):  # noqa: ASYNC110 - set by a thread
            await asyncio.sleep(0.01)
        await sandbox.close()
        return await asyncio.gather(*calls, return_exceptions=True)

    actual = asyncio.run(whole())
    assert [each.kind for each in actual] == ["died", "died"]


ENDING = f"""
import asyncio
from assay.suites.pipeline.code.runner import Code
from assay.suites.pipeline.code.sandbox import Sandbox

async def main():
    sandbox = Sandbox()
    print(await sandbox.run(Code({GOOD!r}, "n"), [1, 2], 5))
    await sandbox.close()

asyncio.run(main())
"""


@pytest.mark.parametrize("_time", range(5))
def test_python_ends_cleanly_after_the_sandbox(_time: int) -> None:
    """Monty's own asyncio pool aborts Python at one exit in three."""
    environment = {**os.environ, "PYTHONPATH": str(Path(assay.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", ENDING], env=environment, capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def children() -> list[str]:
    """Return the pids of the sandbox processes that this process started."""
    tasks = [str(each) for each in os.listdir("/proc/self/task")]  # noqa: PTH208
    text = " ".join(read_proc(f"self/task/{task}/children") for task in tasks)
    return [pid for pid in text.split() if read_proc(f"{pid}/comm").strip() == "monty"]


def read_proc(name: str) -> str:
    """Return the text of a file in /proc, or "" if the thread or process has ended."""
    try:
        return Path("/proc", name).read_text()
    except OSError:
        return ""


def test_without_the_package_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pydantic_monty", None)
    with pytest.raises(MissingExtra, match=r"code inside a testset .*assay\[sandbox\]"):
        result(GOOD, [1])
