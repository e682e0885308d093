"""Runs code from a testset without access to files, network or processes, and with limits on time and memory.

The code runs in pydantic-monty, an interpreter for a subset of Python: functions, comprehensions, f-strings,
classes without bases, and modules such as json, re, math and collections. Each call gets a fresh session in
one of a few worker processes.
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
from assay.files.excerpt import cut_end
from assay.suites.pipeline.code.runner import Code, CodeError, decode_result, join_message
from assay.suites.pipeline.code.worker import (
    ENTRIES,
    Parameter,
    no_entry_message,
    printed_note,
    quote_line,
    select_inputs,
)

if TYPE_CHECKING:
    from pydantic_monty import Monty, MontyRuntimeError

_T = TypeVar("_T")

# `ast.parse` reads the code in our own process, where the sandbox's limits do not apply.
MAX_SOURCE = 100_000
# Bytes of printed text. It is collected in our own process, so the sandbox's memory limit does not cover it.
MAX_OUTPUT = 1_000_000
# Monty checks the time limit itself. It kills a worker that is still busy this many seconds later.
_GRACE_SECONDS = 0.5
# Variable of the sandbox that holds the argument. The prefix avoids names that the code uses itself.
_ARGUMENT = "assay_argument"


class Sandbox:
    """Runs untrusted code. The same code and argument give the same result: `random` has a fixed seed.

    The time limit of a call is its timeout, at most `seconds`. `time.sleep` returns at once. Printing more
    than a megabyte ends the call.
    """

    def __init__(self, memory_mb: int = 256, seconds: float = 10.0, workers: int = 2) -> None:
        self._memory_mb = memory_mb
        self._seconds = seconds
        self._workers = workers
        self._pool: Monty | None = None
        self._pool_lock = asyncio.Lock()
        # Threads wait for monty's processes. Its asyncio pool aborted Python at exit in one run of three, and
        # left the process of a cancelled call behind.
        self._threads = ThreadPoolExecutor(workers, "sandbox")
        self._calls: set[_Call] = set()

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - the worker counts it
        """Return the value of the code's entry function, as JSON."""
        snippet = f"{code.source}\n{_calling_lines(code, argument)}"
        pool = await self._open_pool()
        call = _Call(pool, min(timeout, self._seconds), self._memory_mb)
        text = await self._run_call(code, call, snippet, argument)
        return decode_result(text, code)

    async def _run_call(self, code: Code, call: _Call, snippet: str, argument: Any) -> str:
        """Run the call in a thread and return its JSON. Every failure of the code becomes a CodeError."""
        import pydantic_monty as monty

        self._calls.add(call)
        try:
            return await self._in_thread(call.run, snippet, argument)
        except asyncio.CancelledError:
            call.stop()
            raise
        except EOFError:
            raise self._limit_error(code, "died", call.seconds) from None
        except monty.MontyCrashedError as error:
            kind = "timeout" if error.timed_out else "died"
            raise self._limit_error(code, kind, call.seconds) from None
        except monty.MontySyntaxError as error:
            frames = error.traceback()
            where = code.place(frames[-1].line if frames else None)
            raise CodeError("syntax", f"{where}: it is not Python: {error}") from None
        except monty.MontyRuntimeError as error:
            raise self._runtime_error(code, error, call) from None
        finally:
            self._calls.discard(call)

    async def _in_thread(self, function: Callable[..., _T], *arguments: Any) -> _T:
        return await asyncio.get_running_loop().run_in_executor(self._threads, function, *arguments)

    async def _open_pool(self) -> Monty:
        """Return the pool of worker processes. The first call starts it."""
        async with self._pool_lock:
            if self._pool is None:
                self._pool = await self._in_thread(_start_pool, self._workers)
            return self._pool

    async def close(self) -> None:
        """Stop all processes. Running calls raise a CodeError of kind `died`."""
        for call in self._calls:
            call.stop()
        # shutdown() waits for the threads. In a thread of its own it does not block the event loop.
        await asyncio.to_thread(self._threads.shutdown)
        if self._pool is not None:
            await asyncio.to_thread(self._pool.__exit__, None, None, None)
            self._pool = None

    def _runtime_error(self, code: Code, error: MontyRuntimeError, call: _Call) -> CodeError:
        """Return the CodeError for an exception that left the sandbox.

        Monty reports its limits as TimeoutError and MemoryError. The code can raise these itself, so the
        text of the exception decides.
        """
        exception = error.exception()
        text = str(error)
        if isinstance(exception, TimeoutError) and "time limit exceeded" in text:
            return self._limit_error(code, "timeout", call.seconds)
        if isinstance(exception, MemoryError) and f"> {MAX_OUTPUT} bytes" in text:
            return CodeError("memory", f"{code.name}: it printed more than {MAX_OUTPUT:,} bytes")
        if isinstance(exception, MemoryError) and "memory limit" in text:
            return self._limit_error(code, "memory", call.seconds)
        return _raised_error(code, error, join_message(printed_note(call.output.output)))

    def _limit_error(self, code: Code, kind: str, seconds: float) -> CodeError:
        if kind == "timeout":
            return CodeError("timeout", f"{code.name}: it ran longer than {seconds:g} s and was stopped")
        if kind == "memory":
            return CodeError("memory", f"{code.name}: it needs more than {self._memory_mb} MB of memory")
        return CodeError("died", f"{code.name}: the process of the sandbox ended before it gave a result")


def _start_pool(workers: int) -> Monty:
    try:
        import pydantic_monty as monty

        pool = monty.Monty(max_processes=workers, feed_duration_limit_grace=_GRACE_SECONDS)
        return pool.__enter__()
    # FileNotFoundError: the client is installed, but the package with the worker program is not.
    except (ImportError, FileNotFoundError):
        raise MissingExtra("code inside a testset", "sandbox") from None


class _Call:
    """One run of a snippet. `run` works in a thread; `stop` may be called from another thread."""

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
        """Run the snippet and return its result as JSON text."""
        with self._session as session:
            with self._lock:
                if self._stopped:
                    raise EOFError
                self._process = session.worker_pid
            try:
                return str(session.feed_run(snippet, inputs={_ARGUMENT: argument}, print_callback=self.output))
            finally:
                # The process goes back to the pool and may serve another call. stop() must not kill it.
                with self._lock:
                    self._process = None

    def stop(self) -> None:
        """Kill the process of this call. A call that has not started yet will not start."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                with suppress(ProcessLookupError):
                    os.kill(self._process, signal.SIGKILL)


class _Entry(NamedTuple):
    """The function to call. It is read from the syntax tree, so no code has run yet."""

    name: str
    parameters: tuple[Parameter, ...]
    takes_any_name: bool  # has **kwargs
    takes_whole_argument: bool
    is_async: bool


def _calling_lines(code: Code, argument: Any) -> str:
    """Return the three lines that are appended to the code. They call its entry and give the result as JSON."""
    entry = _find_entry(code)
    names = None
    if isinstance(argument, dict) and not entry.takes_whole_argument:
        names = select_inputs(entry.parameters, argument, takes_any_name=entry.takes_any_name)
    if names is None:
        arguments = _ARGUMENT
    elif entry.takes_any_name:
        arguments = f"**{_ARGUMENT}"
    else:
        arguments = ", ".join(f"{name}={_ARGUMENT}[{name!r}]" for name in names)
    await_keyword = "await " if entry.is_async else ""
    return (
        "from json import dumps as assay_dumps\n"
        f"assay_result = {await_keyword}{entry.name}({arguments})\n"
        "assay_dumps(assay_result, allow_nan=False)"
    )


# Every case of a testset may carry the same code.
@lru_cache(256)
def _find_entry(code: Code) -> _Entry:
    if len(code.source) > MAX_SOURCE:
        message = f"{code.name}: it has {len(code.source):,} characters, at most {MAX_SOURCE:,} are read"
        raise CodeError("syntax", message)
    try:
        body = ast.parse(code.source).body
    except (SyntaxError, ValueError, RecursionError, MemoryError) as error:
        where = code.name
        reason = str(error) or "nested too deep"
        if isinstance(error, SyntaxError):
            where = code.place(error.lineno)
            reason = error.msg
        raise CodeError("syntax", f"{where}: it is not Python: {reason}") from None
    functions = {node.name: node for node in body if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))}
    for name in ENTRIES:
        if name in functions:
            return _read_entry(functions[name])
    raise CodeError("no_entry", no_entry_message(code.name))


def _read_entry(node: ast.FunctionDef | ast.AsyncFunctionDef) -> _Entry:
    signature = node.args
    required_count = len(signature.args) - len(signature.defaults)
    parameters = [Parameter(arg.arg, index < required_count) for index, arg in enumerate(signature.args)]
    for arg, default in zip(signature.kwonlyargs, signature.kw_defaults, strict=True):
        parameters.append(Parameter(arg.arg, default is None))
    return _Entry(
        name=node.name,
        parameters=tuple(parameters),
        takes_any_name=signature.kwarg is not None,
        takes_whole_argument=node.name == "aggregate" or bool(signature.posonlyargs or signature.vararg),
        is_async=isinstance(node, ast.AsyncFunctionDef),
    )


def _raised_error(code: Code, error: MontyRuntimeError, output: str) -> CodeError:
    """Return the CodeError for an exception, by the line that raised it.

    The line belongs to the code itself or to the three lines of `_calling_lines` below it.
    """
    exception = error.exception()
    description = cut_end(" ".join(error.display("type-msg").split()), 500)
    lines = [frame.line for frame in error.traceback() if frame.filename.startswith("<python-input")]
    last_line = code.source.count("\n") + 1
    # The third appended line encodes the result.
    if lines == [last_line + 3]:
        return CodeError("bad_result", f"{code.name}: the result is not JSON: {description}")
    code_lines = [line for line in lines if line <= last_line]
    if not code_lines:
        return CodeError("raised", f"{code.name}: calling it raised {description}{output}")
    line = code_lines[-1]
    message = f"{code.place(line)}: {description}{join_message(quote_line(code.source, line))}{output}"
    # Valid Python that monty lacks, such as a class with a base.
    unsupported = isinstance(exception, NotImplementedError) and "not yet support" in description
    return CodeError("syntax" if unsupported else "raised", message)
