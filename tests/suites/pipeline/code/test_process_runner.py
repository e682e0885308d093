"""Code of a pipeline file runs in child processes: results, failures, limits, and no process left behind."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import assay
from assay.files.redact import MARK, Redactor, longest_secret
from assay.suites.pipeline.code import process_runner
from assay.suites.pipeline.code.javascript import JavaScriptRunner
from assay.suites.pipeline.code.process_runner import ProcessRunner
from assay.suites.pipeline.code.runner import Code, CodeError, CodeRunner, Language
from assay.suites.pipeline.code.worker import MAX_PRINTED

NAME = "pipeline.yaml:12 code"
GOOD = "def main(x):\n    return x * 2\n"
PID = "import os\ndef main():\n    return os.getpid()\n"


def with_runner(
    use: Callable[[ProcessRunner], Awaitable[Any]],
    workers: int = 1,
    folder: Path | None = None,
    timeout: float = 30,
) -> Any:
    """Call `use` with a runner, close the runner, and return the result."""

    async def whole() -> Any:
        runner = ProcessRunner(workers, folder)
        try:
            return await asyncio.wait_for(use(runner), timeout)
        finally:
            await runner.close()

    return asyncio.run(whole())


def result(source: str, argument: Any, folder: Path | None = None) -> Any:
    return with_runner(lambda runner: runner.run(Code(source, NAME), argument, 20), folder=folder)


def problem(source: str, argument: Any = None, timeout: float = 20) -> CodeError:
    """Return the error of the code. The same runner must run good code afterwards."""

    async def use(runner: ProcessRunner) -> CodeError:
        with pytest.raises(CodeError) as caught:
            await runner.run(Code(source, NAME), {} if argument is None else argument, timeout)
        assert await runner.run(Code(GOOD, NAME), {"x": 21}, 20) == 42
        return caught.value

    actual = with_runner(use)
    assert isinstance(actual, CodeError)
    return actual


def has_ended(pid: int, seconds: float = 10) -> bool:
    """Return True if the process ends in time. A zombie counts as ended."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
            os.kill(pid, 0)
        except (ProcessLookupError, FileNotFoundError):
            return True
        time.sleep(0.02)
    return False


@pytest.mark.parametrize(
    ("source", "argument", "expected"),
    [
        ("def aggregate(items): return {'n': len(items)}", [1, 2], {"n": 2}),
        ("def main(d): return 'main'\ndef transform(d): return 'transform'", {}, "transform"),
        (
            "def execute(d): return d",
            {"a": [1, 2.5, "é\u2028", None, True]},
            {"a": [1, 2.5, "é\u2028", None, True]},
        ),
        ("def process_data(inputs): return inputs['text']", {"text": "t"}, "t"),
        ("def main(text, n): return [text, n]", {"text": "t", "n": 2, "more": 3}, ["t", 2]),
        ("def main(text, n=7): return [text, n]", {"text": "t"}, ["t", 7]),
        ("def main(data=None): return data", {"text": "t"}, {"text": "t"}),
        ("def main(): return 1", {"text": "t"}, 1),
        ("def main(**inputs): return inputs", {"text": "t", "a b": 1}, {"text": "t", "a b": 1}),
        ("def main(*data): return data", {"text": "t"}, [{"text": "t"}]),
        ("def main(text, /): return text", {"text": "t"}, {"text": "t"}),
        ("def main(data): return data", [1], [1]),
        ("def aggregate(items): return items", {"items": 1}, {"items": 1}),
        ("def f(a: int): pass\ndef main(): return f.__annotations__['a'] is int", {}, True),
        ("main = lambda text: text", {"text": "t"}, "t"),
        ("async def main(text): return text", {"text": "t"}, "t"),
        ("def main(): return {1: (1, 2), None: (), 'a': 2.5}", {}, {"1": [1, 2], "null": [], "a": 2.5}),
    ],
)
def test_the_entry_gets_items_inputs_or_parameters_by_name(source: str, argument: Any, expected: Any) -> None:
    """The first entry that is defined is called. It gets inputs by name if all required parameters are inputs."""
    assert result(source, argument) == expected


@pytest.mark.parametrize(
    ("source", "kind", "words"),
    [
        ("def main(:", "syntax", ["line 1", "not Python"]),
        ("x = '\x00'\0", "syntax", ["not Python"]),
        ("x = 1", "no_entry", ["aggregate, transform, process_data, main, execute"]),
        ("main = 3", "no_entry", ["define one of"]),
        ("def aggregate(items): return {'s': analyze(items)}", "raised", ["line 1", "NameError", "'analyze'"]),
        ("def main(d):\n    a = 1\n    return f(a)\ndef f(a):\n    raise ValueError('no\\nway')",
         "raised", ["line 5: ValueError: no way", "raise ValueError("]),
        ("raise KeyError('top')", "raised", ["line 1: KeyError: 'top'"]),
        ("import json\ndef main(d):\n    return json.loads('{')", "raised", ["line 3", "JSONDecodeError", "(in decoder.py:"]),
        ("import sys\ndef main(d): sys.exit(4)", "raised", ["SystemExit: 4"]),
        ("def main(a, b): return a", "raised", ["calling it raised TypeError", "'b'"]),
        ("class E(Exception):\n    def __str__(self): return 1\ndef main(): raise E", "raised", ["line 3: E"]),
        ("def main(): return main()", "raised", ["line 1: RecursionError"]),
        ("def main(): return 'a' * 10**15", "memory", ["line 1: MemoryError"]),
        ("def main(): return input()", "raised", ["EOFError"]),
        ("def main(): return {'a': [0, {1, 2}]}", "bad_result", ["result['a'][1]", "set"]),
        ("def main(): return [1, float('nan')]", "bad_result", ["result[1]"]),
        ("def main(): return float('inf')", "bad_result", ["result is not JSON"]),
        ("def main(): return {(1, 2): 3}", "bad_result", ["tuple"]),
        ("def main(): return '\\ud800'", "bad_result", ["surrogate"]),
        ("def main():\n    x = []\n    x.append(x)\n    return x", "bad_result", ["result"]),
        ("def main():\n    x = []\n    for _ in range(500): x = [x]\n    return x", "bad_result", ["nested"]),
        ("def main(): return object()", "bad_result", ["object"]),
        ("def main(): return (x for x in [])", "bad_result", ["generator"]),
        ("import os\ndef main(): os._exit(3)", "died", ["exit code 3"]),
        ("import os\ndef main(): os.kill(os.getpid(), 11)", "died", ["signal 11"]),
        ("import os\ndef main():\n    os.closerange(0, 100)\n    return 1", "died", ["before it gave a result"]),
    ],
)  # fmt: skip
def test_every_way_to_fail_has_its_kind_and_says_where(source: str, kind: str, words: list[str]) -> None:
    """The error has a kind and names the line, and the runner still runs good code."""
    actual = problem(source)
    assert actual.kind == kind
    assert actual.message.startswith(NAME)
    assert [word for word in words if word not in actual.message] == []


@pytest.mark.parametrize(
    "source",
    ["import time\ndef main(): time.sleep(60)", "def main():\n    while True: pass", "while True: pass"],
)
def test_code_that_takes_too_long_is_stopped(source: str) -> None:
    """Also code that sleeps, and code that loops before the entry is defined."""
    actual = problem(source, timeout=0.5)
    assert actual.kind == "timeout"
    assert "longer than 0.5 s" in actual.message


def test_processes_that_the_code_started_are_stopped_with_it(tmp_path: Path) -> None:
    """A timeout kills the whole process group."""
    note = tmp_path / "pid"
    source = (
        "import subprocess, sys, time, pathlib\n"
        "def main(note):\n"
        "    child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        "    pathlib.Path(note).write_text(str(child.pid))\n"
        "    time.sleep(60)\n"
    )
    assert problem(source, {"note": str(note)}, timeout=1).kind == "timeout"
    assert has_ended(int(note.read_text()))


def test_prints_are_kept_for_a_failure_and_never_reach_the_protocol(
    capfd: pytest.CaptureFixture[str],
) -> None:
    """Text on stdout and stderr, on their descriptors and from child programs does not damage the reply."""
    noise = (
        "import os, sys\n"
        "def main(fail):\n"
        "    print('{\"result\": 1}')\n"
        "    sys.stderr.write('to stderr\\n'); sys.stdout.buffer.write(b'bytes\\n')\n"
        "    os.write(1, b'{}\\n'); os.write(2, b'{}\\n'); os.system('echo from a program')\n"
        "    print('x' * 5_000_000); print('the end')\n"
        "    return 1 / 0 if fail else 'fine'\n"
    )
    assert result(noise, {"fail": False}) == "fine"
    message = problem(noise, {"fail": True}).message
    assert "ZeroDivisionError" in message
    assert message.endswith("the end")
    assert 1_900 < len(message) < 2_400
    assert capfd.readouterr() == ("", "")


def test_no_state_goes_from_one_call_to_the_next() -> None:
    """Each call executes the code again in a fresh module of the same process."""
    source = "seen = []\ndef main(x):\n    seen.append(x)\n    return [len(seen), __import__('os').getpid()]\n"

    async def use(runner: ProcessRunner) -> None:
        (first, pid), (second, same) = [await runner.run(Code(source, NAME), {"x": 1}, 20) for _ in range(2)]
        assert (first, second) == (1, 1)
        assert pid == same

    with_runner(use)


def test_a_fork_of_the_code_does_not_answer_for_it() -> None:
    """Code that forks and returns in both processes gives one reply. The next call gets its own reply."""
    source = "import os\ndef main(x):\n    os.fork()\n    return x\n"

    async def use(runner: ProcessRunner) -> list[int]:
        return [await runner.run(Code(source, NAME), {"x": x}, 20) for x in range(20)]

    assert with_runner(use) == list(range(20))


def test_code_imports_modules_of_the_pipeline_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It has the current folder and the environment of the caller, and dataclasses find their module."""
    (tmp_path / "helper_of_own_code.py").write_text("def double(x):\n    return x * 2\n")
    monkeypatch.setenv("ASSAY_TEST_WORD", "wörd")
    source = (
        "from __future__ import annotations\nimport os\nfrom dataclasses import asdict, dataclass\n"
        "from helper_of_own_code import double\n\n@dataclass\nclass P:\n    a: int\n\n"
        "def main(x): return [asdict(P(double(x))), os.getcwd(), os.environ['ASSAY_TEST_WORD']]\n"
    )
    assert result(source, {"x": 2}, tmp_path) == [{"a": 4}, str(Path.cwd()), "wörd"]
    message = problem("def main(): import helper_of_own_code").message
    assert "ModuleNotFoundError" in message


def test_large_arguments_and_results_pass() -> None:
    """Ten megabytes each way."""
    text = "é" * 5_000_000
    assert result("def main(text): return [text, len(text)]", {"text": text}) == [text, 5_000_000]


# Writes to the descriptors of its process, one of which is the pipe to assay.
WRITES = """import os
def main():
    for descriptor in range(3, 30):
        try:
            os.write(descriptor, {line!r})
        except OSError:
            pass
    return 1
"""


@pytest.mark.parametrize(
    "line",
    [b"5\n", b"null\n", b"{}\n", b'{"kind": 1}\n', b'{"kind": "x", "message": ""}\n', b"\xff\n", b"\n"],
)
def test_a_line_that_is_no_reply_is_an_error_and_its_process_is_replaced(line: bytes) -> None:
    """The real reply may follow, and the next call must not get it."""
    error = problem(WRITES.format(line=line))
    assert error.kind == "bad_result"
    assert error.message.startswith(NAME)


def test_a_false_report_of_an_opened_file_is_ignored() -> None:
    for line in (b'{"opened": 5}\n', b'{"opened":["\xff",1,2]}\n', b'{"opened":\n'):
        assert result(WRITES.format(line=line), {}) == 1


FLOODS = """import os
def main():
    while True:
        for descriptor in range(3, 30):
            try:
                os.write(descriptor, b"x" * 60_000)
            except OSError:
                pass
"""


def test_a_reply_without_end_is_stopped(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that floods its pipe does not fill the memory until its time is over."""
    monkeypatch.setattr(process_runner, "_MAX_REPLY", 10_000_000)
    error = problem(FLOODS, timeout=300)
    assert (error.kind, "wrote more than 10,000,000 bytes" in error.message) == ("bad_result", True)


def test_code_that_is_no_text_is_an_error() -> None:
    assert problem("def main():\n    return '\ud800'").kind == "syntax"


def test_more_calls_than_workers_wait_their_turn() -> None:
    """Eight calls share two workers. Time spent waiting for a worker does not count for the timeout."""
    source = "import os, time\ndef main(n):\n    time.sleep(0.3)\n    return [n, os.getpid()]\n"

    async def use(runner: ProcessRunner) -> Any:
        calls = [runner.run(Code(source, NAME), {"n": n}, 1.1) for n in range(8)]
        return await asyncio.gather(*calls)

    actual = with_runner(use, workers=2)
    assert [n for n, _ in actual] == list(range(8))
    assert len({pid for _, pid in actual}) == 2


def test_a_cancelled_call_leaves_no_process_and_no_turn_taken() -> None:
    async def use(runner: ProcessRunner) -> None:
        first = await runner.run(Code(PID, NAME), {}, 20)
        call = asyncio.create_task(runner.run(Code("while True: pass", NAME), {}, 20))
        await asyncio.sleep(0.2)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        assert has_ended(first)
        assert await runner.run(Code(GOOD, NAME), {"x": 1}, 20) == 2

    with_runner(use)


def test_a_process_that_was_killed_while_idle_is_replaced() -> None:
    """No code caused the kill, so the next call succeeds in a new process."""

    async def use(runner: ProcessRunner) -> None:
        first = await runner.run(Code(PID, NAME), {}, 20)
        os.kill(first, signal.SIGKILL)
        await next(iter(runner._processes)).exited.wait()
        assert await runner.run(Code(PID, NAME), {}, 20) != first

    with_runner(use)


def test_closing_ends_every_process_also_those_at_work() -> None:
    """Idle and busy processes end, and later calls raise."""

    async def whole() -> list[int]:
        runner = ProcessRunner(2)
        pids = [await runner.run(Code(PID, NAME), {}, 20)]
        busy = asyncio.create_task(runner.run(Code("while True: pass", NAME), {}, 20))
        await asyncio.sleep(0.3)
        pids += [child._transport.get_pid() for child in runner._processes if child._transport]
        await runner.close()
        with pytest.raises(CodeError) as caught:
            await busy
        assert caught.value.kind == "died"
        with pytest.raises(RuntimeError, match="closed"):
            await runner.run(Code(PID, NAME), {}, 20)
        return pids

    pids = asyncio.run(whole())
    assert pids
    for pid in pids:
        with pytest.raises(ProcessLookupError):
            os.kill(pid, 0)


@pytest.mark.parametrize("seconds", [0, 0.005, 0.02])
def test_closing_while_a_process_starts_leaves_none(seconds: float) -> None:
    """Also if close() comes before the process exists, or before it is ready."""

    async def whole() -> None:
        runner = ProcessRunner(1)
        call = asyncio.create_task(runner.run(Code("while True: pass", NAME), {"x": 1}, 20))
        await asyncio.sleep(seconds)
        (child,) = runner._processes
        await runner.close()
        with pytest.raises((RuntimeError, CodeError)):
            await call
        assert child._transport is None or child.exited.is_set()

    asyncio.run(whole())


PARENT = """
import asyncio, sys
from assay.suites.pipeline.code import process_runner
from assay.suites.pipeline.code.process_runner import ProcessRunner
from assay.suites.pipeline.code.runner import Code

async def main():
    runner = ProcessRunner(1)
    print(await runner.run(Code("import os\\ndef main(): return os.getpid()", "n"), {}, 20), flush=True)
    await runner.run(Code("while True: pass", "n"), {}, 60)

asyncio.run(main())
"""


def test_a_busy_process_does_not_outlive_a_killed_parent() -> None:
    source = Path(assay.__file__).parents[1]
    environment = {**os.environ, "PYTHONPATH": str(source)}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.2)
    assert not has_ended(pid, 0.1)
    parent.kill()
    parent.wait()
    parent.stdout.close()
    assert has_ended(pid)


SECRET = "sk-0f8fad5b9cb"
# JavaScript counts the smiley twice, and the message has no white space at its end.
PRINTING = {
    "python": "def main(key, before, pad):\n    print(key + pad)\n    raise ValueError('y' * before + key)\n",
    "javascript": "module.exports = ({key, before, pad}) => { console.log(key + pad); throw 'y'.repeat(before) + key }",
}


@pytest.mark.parametrize(("language", "filler"), [("python", "\n"), ("python", "z"), ("javascript", "\U0001f600")])
def test_a_process_sends_whole_secrets_or_nothing_of_them(language: Language, filler: str) -> None:
    """It keeps the end of what was printed and the beginning of an error, and knows no secrets."""
    redactor = Redactor([SECRET])
    kept = 4 * (MAX_PRINTED + longest_secret() + 1)
    places = {"\n": [kept], "z": [MAX_PRINTED], "\U0001f600": [kept // 8, kept // 4]}
    lengths = [place + offset for place in places[filler] for offset in range(-16, 2)]

    async def messages(runner: CodeRunner) -> list[str]:
        found = []
        for number, length in enumerate(lengths):
            argument = {"key": SECRET, "before": 485 + number, "pad": filler * length}
            with pytest.raises(CodeError) as caught:
                await runner.run(Code(PRINTING[language], NAME, language), argument, 20)
            found.append(caught.value.message)
        await runner.close()
        return found

    runner = ProcessRunner(1) if language == "python" else JavaScriptRunner(1)
    found = asyncio.run(messages(runner))
    assert any(MARK in message for message in found)
    for message in redactor.clean(found):
        assert not any(SECRET[at : at + 4] in message for at in range(len(SECRET) - 3)), message
