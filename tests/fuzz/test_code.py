"""Random code of pipelines and testsets: a JSON value or a CodeError, whatever its process writes, and then the next call works."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from random import Random

import msgspec
import pytest

from assay.suites.pipeline.code.javascript import JavaScriptRunner, javascript_problem
from assay.suites.pipeline.code.process_runner import ProcessRunner
from assay.suites.pipeline.code.runner import KINDS, Code, CodeError, CodeRunner, Kind, Language, entry_problem
from assay.suites.pipeline.code.sandbox import Sandbox

from support.fuzz import HANG_SECONDS, bounded, expect_printable, fuzzed
from support.mutation import mutated_text

PER_EXAMPLE = 12
"""Calls of one example: they share worker processes, which take longer to start than most code takes to run."""
# Code that never ends is stopped after so many seconds.
TIMEOUT = 0.2

# Lines that the code writes to the descriptors of its process, one of which is the pipe to assay.
LINES = [
    *(
        rb"5\n",
        rb"null\n",
        rb"[]\n",
        rb"{}\n",
        rb"\n",
        rb"\xff\xfe\n",
        rb"{\"kind\": 1}\n",
        rb"x" * 20 + rb"\n",
    ),
    *(
        rb"{\"kind\": \"raised\"}\n",
        rb"{\"opened\": 5}\n",
        rb"{\"opened\": [\"\x00\", 1, 2]}\n",
        rb"{\"result\": \n",
    ),
    *(rb"[" * 5000 + rb"\n", rb"{\"kind\": \"nothing\", \"message\": \"\"}\n", rb"{\"result\": NaN}\n"),
]
WRITE = """import os
    for descriptor in range(3, 30):
        try:
            os.write(descriptor, b'{}')
        except OSError:
            pass"""
PYTHON = [
    *("pass", "pass", "print('x' * 3_000_000)", "print('\\ud800')", "import sys; sys.stdout = None"),
    *("import sys; sys.stdout.buffer.write(b'\\xff' * 10**6)", "import json; json.dumps = None"),
    *("import sys; sys.modules.clear()", "import os; os.chdir('/')", "import os; os.environ.clear()"),
    *(
        "raise SystemExit(3)",
        "raise KeyboardInterrupt",
        "raise BaseException('\\ud800')",
        "raise MemoryError",
    ),
    *("import os; os._exit(0)", "import os; os.kill(os.getpid(), 9)", "import os; os.closerange(0, 30)"),
    *("open('/nope\\udcff')", "open('/dev/zero').read(3)", "x.append", "(lambda f: f(f))(lambda f: f(f))"),
    *("import threading; threading.Thread(target=input).start()", "import os; os.fork()", "while True: pass"),
    "class E(Exception):\n        __str__ = None\n    raise E('x')",
]
PYTHON_RESULTS = [
    *(
        "1",
        "x",
        "{'a': [1, None, 'x']}",
        "float('nan')",
        "10**5000",
        "'\\ud800'",
        "object()",
        "b'x'",
        "{None: 3}",
    ),
    *(
        "{1: 2, '1': 3}",
        "x and (y := []) or y.append(y) or y",
        "[[]] * 10**5",
        "'x' * 10**6",
        "print",
        "...",
        "{1}",
    ),
    "__import__('functools').reduce(lambda a, b: [a], range(3000), 0)",
]
JAVASCRIPT = [
    *(
        "",
        "",
        "console.log('x'.repeat(3e6));",
        "console.log(Symbol());",
        "throw '\\ud800';",
        "throw null;",
        "throw {};",
    ),
    *(
        "JSON.stringify = null;",
        "Object.prototype.toJSON = () => 1;",
        "Array.prototype.push = null;",
        "globalThis = 1;",
    ),
    *(
        "module.exports = 5;",
        "while (true) {}",
        "const f = () => f(); f();",
        "new Array(1e9).fill(0);",
        "eval('(');",
    ),
    *(
        "require('fs');",
        "Promise.prototype.then = null;",
        "delete globalThis.Object;",
        "String = null;",
        "'use strict';",
    ),
    *(
        "throw new Proxy({}, {get() { throw 1; }});",
        "Error.prototype.toString = null;",
        "throw new Error('\\ud800');",
    ),
    "class E extends Error { get stack() { throw 1; } } throw new E();",
]
JAVASCRIPT_RESULTS = [
    *(
        "1",
        "x",
        "{a: [1, null, 'x']}",
        "NaN",
        "10n",
        "'\\ud800'",
        "Symbol()",
        "undefined",
        "new Map()",
        "() => 1",
    ),
    *(
        "new Promise(() => {})",
        "Promise.reject(1)",
        "(() => { const a = []; a.push(a); return a; })()",
        "'x'.repeat(1e6)",
    ),
    *(
        "{then: 5}",
        "{then(f) { f(f); }}",
        "{toJSON() { throw 1; }}",
        "new Proxy([], {get() { throw 1; }})",
        "new Date(NaN)",
    ),
    "Array(3000).fill().reduce((a) => [a], 0)",
]


def python_code(random: Random) -> str:
    """A function of Python with odd statements and an odd result."""
    statements = [random.choice(PYTHON) for _ in range(random.choice([0, 1, 1, 2]))]
    if random.random() < 0.25:
        statements.append(WRITE.replace("{}", random.choice(LINES).decode()))
    body = "".join(f"    {statement}\n" for statement in statements)
    source = f"def main(x):\n{body}    return {random.choice(PYTHON_RESULTS)}\n"
    return mutated_text(random, source) if random.random() < 0.15 else source


def javascript_code(random: Random) -> str:
    """A function of JavaScript with odd statements around it and in it."""
    before, inside = random.choice(JAVASCRIPT), random.choice(JAVASCRIPT)
    source = f"{before}\nfunction main({{x}}) {{ {inside}\nreturn {random.choice(JAVASCRIPT_RESULTS)}; }}\n"
    return mutated_text(random, source) if random.random() < 0.15 else source


GOOD: dict[Language, str] = {
    "python": "def main(x):\n    return x + 1\n",
    "javascript": "function main({x}) { return x + 1; }",
}


async def call_all(runner: CodeRunner, codes: list[Code]) -> None:
    """Run all codes, and after them code that works."""
    kinds: set[Kind] = set()
    try:
        for code in codes:
            try:
                msgspec.json.encode(await runner.run(code, {"x": 1}, TIMEOUT))
            except CodeError as error:
                kinds.add(error.kind)
                expect_printable(error.message)
        assert kinds <= set(KINDS)
        good = Code(GOOD[codes[0].language], "good", codes[0].language)
        assert await runner.run(good, {"x": 1}, 60) == 2
    finally:
        await runner.close()


@pytest.mark.parametrize(
    ("make", "language", "write"),
    [
        pytest.param(lambda: ProcessRunner(1), "python", python_code, id="python"),
        pytest.param(lambda: JavaScriptRunner(1), "javascript", javascript_code, id="javascript"),
        pytest.param(lambda: Sandbox(workers=1), "python", python_code, id="sandbox"),
    ],
)
@fuzzed(4)
def test_code_gives_a_value_or_an_error_and_the_next_call_works(
    make: Callable[[], CodeRunner], language: Language, write: Callable[[Random], str], random: Random
) -> None:
    codes = [Code(write(random), "code", language) for _ in range(PER_EXAMPLE)]

    async def main() -> None:
        await asyncio.wait_for(call_all(make(), codes), HANG_SECONDS)

    with bounded():
        asyncio.run(main())


@fuzzed(60)
def test_code_is_checked_without_running_it(random: Random) -> None:
    """`assay check` names a syntax error, or a missing function."""
    for write, language in ((python_code, "python"), (javascript_code, "javascript")):
        source = mutated_text(random, write(random))
        with bounded():
            entry_problem(Code(source, "code", language))  # type: ignore[arg-type]
            if language == "javascript" and (problem := javascript_problem(source)) is not None:
                expect_printable(problem[1])
