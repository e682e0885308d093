"""Code that came with data: a Python without files, network or processes, bounded in time and memory.

It runs in the interpreter of pydantic-monty, which knows a part of Python (functions, comprehensions,
f-strings, classes without bases; json, re, math, collections and a few more modules) and reaches nothing
outside itself. Each call gets a fresh session in one of a few worker processes.
"""

from __future__ import annotations

import ast
import asyncio
import os
import signal
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from assay.core.errors import MissingExtra
from assay.solvers.code.problem import Code, CodeProblem, decoded
from assay.solvers.code.worker import ENTRIES, MAX_PRINTED, Parameter, by_name, no_entry, printed, quoted

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyRuntimeError

_T = TypeVar("_T")
MAX_SOURCE = 100_000
MAX_OUTPUT = 1_000_000
_GRACE = 0.5
_ARGUMENT = "assay_argument"


class Sandbox:
    """Runs code of others. Same code, same argument: same result, since `random` starts from a fixed seed.

    A call's time is its timeout, at most `seconds`. Sleeping takes no time. Printing more than a megabyte
    ends the call. Threads wait for the processes: monty's own asyncio pool can abort Python when it exits.
    """

    def __init__(self, memory_mb: int = 256, seconds: float = 10.0, workers: int = 2) -> None:
        self._memory_mb = memory_mb
        self._seconds = seconds
        self._workers = workers
        self._pool: Monty | None = None
        self._opening = asyncio.Lock()
        self._threads = ThreadPoolExecutor(workers, "sandbox")
        self._calls: set[_Call] = set()

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the worker counts it
        """What the code's entry gives, as JSON."""
        snippet = f"{code.source}\n{_call(code, argument)}"
        pool = await self._opened()
        seconds = min(timeout, self._seconds)
        call = _Call(pool, seconds, self._memory_mb)
        text = await self._text(code, call, snippet, argument)
        return decoded(text, code)

    async def _text(self, code: Code, call: _Call, snippet: str, argument: Any) -> str:
        import pydantic_monty as monty

        self._calls.add(call)
        try:
            return await self._thread(call.run, snippet, argument)
        except asyncio.CancelledError:
            call.stop()
            raise
        except EOFError:
            raise self._stopped(code, "died", call.seconds) from None
        except monty.MontyCrashedError as error:
            raise self._stopped(code, "timeout" if error.timed_out else "died", call.seconds) from None
        except monty.MontySyntaxError as error:
            frames = error.traceback()
            where = f"{code.name}, line {frames[-1].line}" if frames else code.name
            raise CodeProblem("syntax", f"{where}: it is not Python: {error}") from None
        except monty.MontyRuntimeError as error:
            raise self._raised(code, error, call) from None
        finally:
            self._calls.discard(call)

    async def _thread(self, function: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def _opened(self) -> Monty:
        """The pool, started at the first call."""
        async with self._opening:
            if self._pool is None:
                self._pool = await self._thread(_open, self._workers)
            return self._pool

    async def close(self) -> None:
        """Ends all processes; code that still runs ends as `died`."""
        for call in self._calls:
            call.stop()
        await asyncio.to_thread(self._threads.shutdown)
        if self._pool is not None:
            await asyncio.to_thread(self._pool.__exit__, None, None, None)
            self._pool = None

    def _raised(self, code: Code, error: MontyRuntimeError, call: _Call) -> CodeProblem:
        inner, text, seconds = error.exception(), str(error), call.seconds
        if isinstance(inner, TimeoutError) and "time limit exceeded" in text:
            return self._stopped(code, "timeout", seconds)
        if isinstance(inner, MemoryError) and f"> {MAX_OUTPUT} bytes" in text:
            return CodeProblem("memory", f"{code.name}: it printed more than {MAX_OUTPUT:,} bytes")
        if isinstance(inner, MemoryError) and "memory limit" in text:
            return self._stopped(code, "memory", seconds)
        return _problem(code, error, printed(call.output.output[-MAX_PRINTED:]))

    def _stopped(self, code: Code, kind: str, seconds: float) -> CodeProblem:
        if kind == "timeout":
            return CodeProblem("timeout", f"{code.name}: it ran longer than {seconds:g} s and was stopped")
        if kind == "memory":
            return CodeProblem("memory", f"{code.name}: it needs more than {self._memory_mb} MB of memory")
        return CodeProblem("died", f"{code.name}: the process of the sandbox ended before it gave a result")


def _open(workers: int) -> Monty:
    try:
        import pydantic_monty as monty

        pool = monty.Monty(max_processes=workers, feed_duration_limit_grace=_GRACE)
        return pool.__enter__()
    except (ImportError, FileNotFoundError):  # the second: its program is not installed
        raise MissingExtra("code inside a testset", "sandbox") from None


class _Call:
    """One call, made in a thread; another thread may stop it."""

    def __init__(self, pool: Monty, seconds: float, memory_mb: int) -> None:
        import pydantic_monty as monty

        self.seconds = seconds
        self.output = monty.CollectString(max_bytes=MAX_OUTPUT)
        self._session = pool.checkout(
            limits={"max_feed_duration_secs": seconds, "max_memory": memory_mb << 20},
            os_policy={"sleep": "zero", "random_start": {"seed": 0}},
        )
        self._lock = threading.Lock()
        self._stopped = False
        self._process: int | None = None

    def run(self, snippet: str, argument: Any) -> str:
        """The result as JSON. Its process goes back to the pool, so it must not be killed from then on."""
        with self._session as session:
            with self._lock:
                if self._stopped:
                    raise EOFError
                self._process = session.worker_pid
            try:
                return str(
                    session.feed_run(snippet, inputs={_ARGUMENT: argument}, print_callback=self.output)
                )
            finally:
                with self._lock:
                    self._process = None

    def stop(self) -> None:
        """Kills the process if it works for this call; a call that has not begun will not."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                with suppress(ProcessLookupError):
                    os.kill(self._process, signal.SIGKILL)


class _Entry(NamedTuple):
    """The function to call, read from the text: nothing of it has run."""

    name: str
    parameters: tuple[Parameter, ...]
    rest: bool
    whole: bool
    awaited: bool


def _call(code: Code, argument: Any) -> str:
    """The three lines below the code: they call its entry and give its result as JSON."""
    entry = _entry(code)
    names = None
    if isinstance(argument, dict) and not entry.whole:
        names = by_name(entry.parameters, argument, rest=entry.rest)
    given = _ARGUMENT if names is None else ", ".join(f"{name}={_ARGUMENT}[{name!r}]" for name in names)
    if names is not None and entry.rest:
        given = f"**{_ARGUMENT}"
    awaits = "await " if entry.awaited else ""
    return (
        "from json import dumps as assay_dumps\n"
        f"assay_result = {awaits}{entry.name}({given})\n"
        "assay_dumps(assay_result, allow_nan=False)"
    )


@lru_cache(256)
def _entry(code: Code) -> _Entry:
    if len(code.source) > MAX_SOURCE:
        what = f"{code.name}: it has {len(code.source):,} characters, at most {MAX_SOURCE:,} are read"
        raise CodeProblem("syntax", what)
    try:
        body = ast.parse(code.source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = f"{code.name}, line {error.lineno}" if isinstance(error, SyntaxError) else code.name
        what = error.msg if isinstance(error, SyntaxError) else str(error) or "nested too deep"
        raise CodeProblem("syntax", f"{where}: it is not Python: {what}") from None
    found = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for name in ENTRIES:
        if name in found:
            return _described(found[name])
    raise CodeProblem("no_entry", no_entry(code.name))


def _described(node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Entry:
    arguments = node.args
    needed = len(arguments.args) - len(arguments.defaults)
    parameters = [Parameter(each.arg, at < needed) for at, each in enumerate(arguments.args)]
    for each, default in zip(arguments.kwonlyargs, arguments.kw_defaults, strict=True):
        parameters.append(Parameter(each.arg, default is None))
    whole = node.name == "aggregate" or bool(arguments.posonlyargs or arguments.vararg)
    awaited = isinstance(node, ast.AsyncFunctionDef)
    return _Entry(node.name, tuple(parameters), arguments.kwarg is not None, whole, awaited)


def _problem(code: Code, error: MontyRuntimeError, output: str) -> CodeProblem:
    """By the line: one of the code's own, or one of the three below it."""
    inner = error.exception()
    said = " ".join(error.display("type-msg").split())[:500]
    lines = [frame.line for frame in error.traceback() if frame.filename.startswith("<python-input")]
    last = code.source.count("\n") + 1
    if lines == [last + 3]:
        return CodeProblem("bad_result", f"{code.name}: the result is not JSON: {said}")
    own = [line for line in lines if line <= last]
    if not own:
        return CodeProblem("raised", f"{code.name}: calling it raised {said}{output}")
    message = f"{code.name}, line {own[-1]}: {said}{quoted(code.source, own[-1])}{output}"
    unknown = isinstance(inner, NotImplementedError) and "not yet support" in said
    return CodeProblem("syntax" if unknown else "raised", message)
