"""JavaScript runs in an engine in child processes: entries, results, messages, limits, and no way out."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

import pytest

from assay.suites.pipeline.code import Code, CodeError, JavaScriptRunner, javascript_problem

NAME = "pipeline.yaml:12 code"
INPUTS = {"text": "a b", "numbers": [1, 2.5]}
# Far below the time that any of these pieces of code would need.
SHORT = 0.1


class Runner:
    """A JavaScriptRunner with an event loop in a thread, so that many tests share its processes."""

    def __init__(self) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.runner = JavaScriptRunner(workers=1)

    def wait(self, call: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(call, self._loop).result(60)

    def result(self, source: str, argument: Any = None, timeout: float = 20) -> Any:
        code = Code(source, NAME, "javascript")
        return self.wait(self.runner.run(code, INPUTS if argument is None else argument, timeout))

    def problem(self, source: str, argument: Any = None, timeout: float = 20) -> CodeError:
        """Return the error of the code. The same runner must run good code afterwards."""
        with pytest.raises(CodeError) as caught:
            self.result(source, argument, timeout)
        assert self.result("module.exports = () => 42") == 42
        return caught.value

    def pids(self) -> list[int]:
        processes = self.runner._processes._processes
        return [process._transport.get_pid() for process in processes if process._transport]

    def close(self) -> None:
        self.wait(self.runner.close())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture(scope="module")
def js() -> Iterator[Runner]:
    runner = Runner()
    yield runner
    runner.close()


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("module.exports = function (inputs) { return inputs.text + '!' }", "a b!"),
        ("module.exports = ({numbers}) => numbers[1] * 2", 5),
        ("exports.main = function () { return this === exports }", True),
        ("module.exports = {transform: x => 't', aggregate: x => 'a'}", "a"),
        ("function aggregate(x) { return Object.keys(x) }", ["text", "numbers"]),
        ("const transform = x => x.text\nfunction main() { return 'no' }", "a b"),
        ("var main = x => 'yes'\nfunction execute() { return 'no' }", "yes"),
        ("function transform() { return 'no' }\nmodule.exports = () => 'exported'", "exported"),
        ("async function main(x) { return (await Promise.all([1, x.text]))[1] }", "a b"),
        ("module.exports = x => new Promise(done => queueMicrotask(() => done(7)))", 7),
        ("#!/usr/bin/env node\n'use strict'\nmodule.exports = () => 1", 1),
        ("const module = 1, exports = 2, console = 3\nfunction main() { return module + exports }", 3),
    ],
)
def test_the_entry_is_the_exported_function_else_one_with_a_known_name(js: Runner, source: str, expected: Any) -> None:
    assert js.result(source) == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ("undefined", None),
        ("[undefined, {a: undefined, b: 1}]", [None, {"b": 1}]),
        ("-0", 0),
        ("2 ** 53 - 1", 9007199254740991),
        ("0.1 + 0.2", 0.30000000000000004),
        ("'é' + '😀' + '\\u0000'", "é😀\x00"),
        ("new Date(0)", "1970-01-01T00:00:00.000Z"),
        ("new Date(2026, 0, 1).toString()", "Thu Jan 01 2026 00:00:00 GMT+0000"),
        ('JSON.parse(\'{"__proto__": {"a": 1}}\')', {"__proto__": {"a": 1}}),
        ("[typeof module.exports, 1, true, null, 'x']", ["function", 1, True, None, "x"]),
    ],
)
def test_results_are_json(js: Runner, value: str, expected: Any) -> None:
    assert js.result(f"module.exports = () => ({value})") == expected


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("NaN", "result is NaN, which JSON cannot hold"),
        ('"ab😀".slice(0, 3)', "the result has half of a character"),
        ("{a: [1, {'b c': -Infinity}]}", 'result["a"][1]["b c"] is -Infinity'),
        ("[10n]", "result[0] is a BigInt"),
        ("{f() {}}", 'result["f"] is a function'),
        ("Symbol('x')", "result is a symbol"),
        ("{m: new Map([[1, 2]])}", 'result["m"] is an object of the class Map'),
        ("[new Set()]", "result[0] is an object of the class Set"),
        ("{later: Promise.resolve(1)}", 'result["later"] is an object of the class Promise'),
        ("new Uint8Array(2)", "result is a typed array"),
        ("(() => { const a = {}; a.b = [a]; return a })()", "circular reference"),
        ("'\\ud800'", "the result has half of a character"),
        ("JSON.parse('['.repeat(200) + ']'.repeat(200))", "nested deeper than 100"),
    ],
)
def test_a_value_that_json_cannot_hold_is_named_with_its_path(js: Runner, value: str, reason: str) -> None:
    error = js.problem(f"module.exports = () => ({value})")
    assert error.kind == "bad_result"
    assert error.message.startswith(f"{NAME}: ")
    assert reason in error.message


@pytest.mark.parametrize(
    ("source", "kind", "message"),
    [
        ("let a = 1\nlet b = ;", "syntax", ", line 2: it is not JavaScript: unexpected token"),
        (
            "\nexport default 1",
            "syntax",
            ", line 2: it is not JavaScript: unsupported keyword: export; import and",
        ),
        ("import fs from 'fs'", "syntax", "assign the function to module.exports"),
        (
            "const a = 1",
            "no_entry",
            ": it defines no function to call; assign one to module.exports, or define",
        ),
        ("function main(a, b) {}", "no_entry", "write main({a, b}) instead of main(a, b)"),
        ("let x\nx.y", "raised", ", line 2: TypeError: cannot read property 'y' of undefined\n  x.y"),
        (
            "function main(x) {\n  return x.no.way\n}",
            "raised",
            ", line 2: TypeError: cannot read property 'way'",
        ),
        ("async function main() {\n  await 1\n  null.x\n}", "raised", ", line 3: TypeError"),
        ("function main() { throw 'a text' }", "raised", ": it threw a text"),
        ("function main() { throw {code: 7} }", "raised", ': it threw {"code":7}'),
        ("throw 'at once'", "raised", ": at once"),
        ("function main() { throw new Error('half \\ud800') }", "raised", "Error: half ?"),
        ("class A {}\nmodule.exports = A", "raised", "class constructors must be invoked with 'new'"),
        ("function main() { return new Promise(() => {}) }", "raised", "neither resolved nor rejected"),
        ("function main() { return main() }", "raised", "RangeError: Maximum call stack size exceeded"),
        (
            "function main() { throw new InternalError('interrupted') }",
            "raised",
            "InternalError: interrupted",
        ),
        # The error comes from no line of the code, although the code has many.
        ("\n" * 300 + "module.exports = JSON.parse", "raised", f"{NAME}: SyntaxError: "),
        ("function main() { JSON.parse('{') }", "raised", ", line 1: SyntaxError: Expected property name"),
    ],
)
def test_a_failure_names_the_code_its_line_and_the_reason(js: Runner, source: str, kind: str, message: str) -> None:
    error = js.problem(source)
    assert error.kind == kind
    assert error.message.startswith(NAME)
    assert message in error.message


def test_printed_text_is_in_the_message_of_a_failure_and_only_its_end(js: Runner) -> None:
    source = "for (let i = 0; i < 5000; i++) console.log('line', i, {a: [i]}, null)\nfunction main() { f() }"
    text = js.problem(source).message
    assert "\nit printed: " in text
    assert text.endswith('line 4999 {"a":[4999]} null')
    assert len(text) < 2_500
    assert js.result("console.error('x'); module.exports = () => 1") == 1


NOTHING_THERE = """
module.exports = () => ['require', 'process', 'fetch', 'XMLHttpRequest', 'WebSocket', 'Buffer', 'Deno', 'std', 'os',
  'setTimeout', 'WebAssembly', 'Worker', 'print', 'scriptArgs', 'load', 'read', 'globalThis.python']
  .filter(name => Function('return typeof ' + name)() !== 'undefined')
"""


def test_there_is_nothing_to_reach_the_machine_with(js: Runner) -> None:
    assert js.result(NOTHING_THERE) == []


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("const fs = require('fs')", "require is not defined; code runs without Node.js"),
        ("module.exports = () => process.env.HOME", "process is not defined; code runs without Node.js"),
        ("module.exports = () => import('fs')", "could not load module 'fs'; code runs without Node.js"),
        ("module.exports = () => import('/etc/passwd')", "could not load module '/etc/passwd'"),
        ("module.exports = x => x.constructor.constructor('return process')()", "process is not defined"),
        ("module.exports = () => (0, eval)('fetch(\"http://127.0.0.1\")')", "fetch is not defined"),
        ("module.exports = () => console.log.constructor('return require')()", "require is not defined"),
        (
            "module.exports = () => Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)",
            "cannot block",
        ),
    ],
)
def test_escapes_end_in_a_sentence(js: Runner, source: str, message: str) -> None:
    error = js.problem(source)
    assert error.kind == "raised"
    assert message in error.message


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_the_process_can_open_no_files_and_has_no_environment(js: Runner) -> None:
    js.result("module.exports = () => 1")
    (pid,) = js.pids()
    limits = Path(f"/proc/{pid}/limits").read_text()
    (line,) = [line for line in limits.splitlines() if line.startswith("Max open files")]
    assert line.split()[3:5] == ["3", "3"]
    variables = Path(f"/proc/{pid}/environ").read_bytes().strip(b"\0").split(b"\0")
    assert [each for each in variables if not each.startswith(b"LD_LIBRARY_PATH=")] == [b"TZ=UTC"]


POLLUTION = """
const hostile = () => { throw new Error('polluted') }
Object.prototype.toJSON = () => 'polluted'
JSON.stringify = JSON.parse = Reflect.apply = Promise.resolve = Promise.prototype.then = hostile
String.prototype.slice = Array.isArray = Number.isFinite = Object.defineProperty = hostile
Function.prototype.call = Function.prototype.bind = Function.prototype.apply = String = hostile
delete Object.prototype.toJSON
"""


def test_replaced_built_ins_change_neither_results_nor_messages(js: Runner) -> None:
    assert js.result(POLLUTION + "function main(x) { return x }") == INPUTS
    assert js.result(POLLUTION + "async function main(x) { return x }") == INPUTS
    error = js.problem(POLLUTION + "console.log('seen')\nfunction main(x) { null.x }")
    assert "cannot read property 'x' of null" in error.message
    assert error.message.endswith("it printed: seen")
    poisoned = "Object.prototype.toJSON = () => 'polluted'\nfunction main() { null.x }"
    assert "cannot read property 'x' of null" in js.problem(poisoned).message


def test_nothing_carries_over_to_the_next_call(js: Runner) -> None:
    spoiled = "globalThis.left = 1; Array.prototype.map = null; module.exports = () => [Math.random(), left]"
    first = js.result(spoiled)
    (before,) = js.pids()
    assert js.result("module.exports = () => [typeof left, typeof [].map]") == ["undefined", "function"]
    assert js.result(spoiled) == first
    assert js.pids() == [before]


@pytest.mark.parametrize(
    "source",
    [
        "while (1) {}",
        "function main() { for (;;) try { while (1) {} } catch {} finally { continue } }",
        "async function main() { await 1; while (1) {} }",
        "(function again() { Promise.resolve().then(again) })()\nfunction main() {}",
        "function main() { return /^(a+)+$/.test('a'.repeat(50) + 'b') }",
        "function main() { for (;;) console.log('flood'.repeat(1000)) }",
        "function main() { return {toJSON() { while (1) {} }} }",
        "Object.defineProperty(globalThis, 'main', {get() { while (1) {} }})",
        # Functions of the engine that do not look at the clock: only killing the process ends them.
        "function main() { return new Array(2 ** 32 - 1).join('') }",
    ],
)
def test_code_without_end_is_stopped(js: Runner, source: str) -> None:
    error = js.problem(source, timeout=SHORT)
    assert error.kind == "timeout"
    assert error.message == f"{NAME}: it ran longer than {SHORT:g} s and was stopped"


@pytest.mark.parametrize(
    "source",
    [
        "function main() { const a = []; while (1) a.push('x'.repeat(1 << 23) + a.length) }",
        "function main() { const a = []; while (1) a.push(new ArrayBuffer(1 << 24)) }",
        "function main() { return 'x'.repeat(2 ** 29) }",
        "function main() { const a = []; while (1) a.push(new SharedArrayBuffer(1 << 24)) }",
        "async function main() { await 1; return Array(2 ** 26).fill(1) }",
        "console.log('y'.repeat(2 ** 29))\nfunction main() {}",
    ],
)
def test_code_that_takes_too_much_memory_is_stopped(js: Runner, source: str) -> None:
    error = js.problem(source)
    assert error.kind == "memory"
    assert "it needs more than 256 MB of memory" in error.message


def test_memory_below_the_limit_can_be_used(js: Runner) -> None:
    source = "module.exports = ({mb}) => new ArrayBuffer(mb << 20).byteLength"
    assert js.result(source, {"mb": 230}) == 230 << 20
    assert js.problem(source, {"mb": 257}).kind == "memory"


def test_a_very_long_timeout_is_no_short_one(js: Runner) -> None:
    assert js.result("let n = 0; while (n < 1e5) n++\nmodule.exports = () => n", timeout=1e15) == 100_000


def test_the_engine_itself_stops_an_endless_loop() -> None:
    """Without killing the process. Run in a process of its own, with the engine's own limit only."""
    script = (
        "from assay.suites.pipeline.code import javascript_engine as engine\n"
        "try: engine.run('while (1) {}', entries=['main'], argument={}, seconds=0.2)\n"
        "except engine.JavaScriptError as error: print(error.kind, error)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=60, check=False)
    assert done.stdout == "timeout it ran longer than 0.2 s and was stopped\n", done.stderr


def test_the_limit_of_a_runner_is_below_the_timeout_of_a_step() -> None:
    async def whole() -> None:
        runner = JavaScriptRunner(workers=1, seconds=SHORT)
        try:
            await runner.run(Code("while (1) {}", NAME, "javascript"), {}, 3600)
        finally:
            await runner.close()

    with pytest.raises(CodeError, match=f"longer than {SHORT:g} s"):
        asyncio.run(asyncio.wait_for(whole(), 60))


PARENT = """
import asyncio
from assay.suites.pipeline.code import Code, JavaScriptRunner

async def main():
    runner = JavaScriptRunner(1)
    await runner.run(Code("module.exports = () => 1", "n", "javascript"), {}, 20)
    (process,) = runner._processes._processes
    busy = asyncio.create_task(runner.run(Code("while (1) {}", "n", "javascript"), {}, 600))
    # Until the request is in the pipe: the process will read it even if this one is gone.
    while process._reply.done():
        await asyncio.sleep(0)
    print(process._transport.get_pid(), flush=True)
    await busy

asyncio.run(main())
"""


def test_a_busy_process_does_not_outlive_a_killed_parent() -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, env=environment)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    os.kill(pid, 0)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 30
    while Path(f"/proc/{pid}").exists() or _is_alive(pid):
        assert time.monotonic() < deadline, f"process {pid} is still there"
        time.sleep(0.01)


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize(
    ("source", "problem"),
    [
        ("module.exports = () => 1", None),
        ("#!/usr/bin/env node\nlet a", None),
        ("while (1) {}", None),
        ("throw new SyntaxError('from the code')", None),
        ("let a\nlet b = ;", "line 2: it is not JavaScript: unexpected token in expression: ';'"),
        (
            "export default 1",
            "line 1: it is not JavaScript: unsupported keyword: export; import and export are",
        ),
        ("let a = '\x00'", "embedded null character"),
        ("(" * 100_000, "RangeError: Maximum call stack size exceeded"),
    ],
)
def test_syntax_is_checked_without_executing_the_code(source: str, problem: str | None) -> None:
    found = javascript_problem(source)
    text = found and (f"line {found[0]}: {found[1]}" if found[0] else found[1])
    assert (text is None) if problem is None else (text or "").startswith(problem), found


def test_large_values_pass(js: Runner) -> None:
    items = [{"id": number, "text": "x" * 100} for number in range(20_000)]
    assert js.result("module.exports = items => items.map(item => item.id)", items) == list(range(20_000))
    both = "module.exports = ({items}) => [items.length, Object.keys(items).length]"
    assert js.result(both, [1, 2, 3]) == [3, 3]
