"""The user's own code, of a pipeline file: full Python, in processes of its own."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

import msgspec

from assay.solvers.code import worker
from assay.solvers.code.problem import Code, CodeProblem, decoded

_START_SECONDS = 60


class OwnCode:
    """Runs code in a pool of child processes that are started when they are needed.

    The code is compiled once in each process and executed in a fresh module on every call: no variable
    goes from one case to the next. What it changes elsewhere stays in that process until it ends: modules
    it imported, the environment, the current folder. It sees the environment and the folder of the caller,
    and imports what stands in `folder` first. It is trusted: only its time is bounded, and its prints go
    nowhere. A process that takes too long is killed with everything it started, and replaced.
    """

    def __init__(self, workers: int, folder: Path | None = None) -> None:
        self._folder = str(folder.resolve()) if folder else ""
        self._turns = asyncio.Semaphore(workers)
        self._idle: list[_Child] = []
        self._children: set[_Child] = set()
        self._closed = asyncio.Event()

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - kills a process
        """What the code's entry gives. Calls beyond the number of workers wait their turn, in order."""
        request = {"source": code.source, "name": code.name, "argument": argument}
        line = msgspec.json.encode(request) + b"\n"
        async with self._turns:
            reply = await self._reply(code, line, timeout)
        value = decoded(reply, code)
        if "kind" in value:
            raise CodeProblem(value["kind"], value["message"])
        return value["result"]

    async def _reply(self, code: Code, line: bytes, timeout: float) -> bytes:  # noqa: ASYNC109
        child = await self._child()
        try:
            async with asyncio.timeout(timeout):
                reply = await child.ask(line)
        except BaseException as error:
            await self._end(child)  # nobody knows what it is doing now
            if isinstance(error, TimeoutError):
                what = f"{code.name}: it ran longer than {timeout:g} s and was stopped"
                raise CodeProblem("timeout", what) from None
            if isinstance(error, EOFError):
                what = f"{code.name}: its process ended ({child.end_reason()}) before it gave a result"
                raise CodeProblem("died", what) from None
            raise
        self._idle.append(child)
        return reply

    async def _child(self) -> _Child:
        """A process that waits for work: the one used last, else a new one."""
        while self._idle:
            child = self._idle.pop()
            if not child.exited.is_set():
                return child
            await self._end(child)
        if not self._closed.is_set():
            with suppress(EOFError):  # it ended before it could say that it is there
                child = await self._started()
                if not self._closed.is_set():
                    return child
                await self._end(child)
        raise RuntimeError("the process for this code cannot start, or its runner is closed")

    async def _started(self) -> _Child:
        child = _Child()
        self._children.add(child)
        try:
            await child.start(self._folder)
        except BaseException:
            await self._end(child)
            raise
        return child

    async def _end(self, child: _Child) -> None:
        self._children.discard(child)
        await child.end()

    async def close(self) -> None:
        """Kills every process and waits until it is gone; code that still runs ends as `died`."""
        self._closed.set()
        self._idle.clear()
        children, self._children = self._children, set()
        await asyncio.gather(*(child.end() for child in children))


class _Child(asyncio.SubprocessProtocol):
    """One worker process and the reply that is awaited from it."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._parts: list[bytes] = []
        self._awaited: asyncio.Future[bytes] | None = None

    async def start(self, folder: str) -> None:
        """Returns when the process can take work. Its own session keeps Ctrl-C with the parent."""
        paths = [folder, *filter(None, sys.path)]
        arguments = ("-I", "-B", "-X", "utf8", worker.__file__, msgspec.json.encode(paths).decode())
        ready = self._expected()  # before it starts: a quick process speaks before anybody waits for it
        await asyncio.get_running_loop().subprocess_exec(
            lambda: self, sys.executable, *arguments, stderr=None, start_new_session=True
        )
        async with asyncio.timeout(_START_SECONDS):
            await ready

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.SubprocessTransport", transport)

    async def ask(self, line: bytes) -> bytes:
        """Sends a request and waits for its reply; EOFError when the process ends instead."""
        assert self._transport is not None
        pipe = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        reply = self._expected()
        pipe.write(line)
        return await reply

    def _expected(self) -> asyncio.Future[bytes]:
        self._awaited = asyncio.get_running_loop().create_future()
        return self._awaited

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        self._parts.append(data)
        if data.endswith(b"\n"):
            reply, self._parts = b"".join(self._parts), []
            if self._awaited is not None and not self._awaited.done():
                self._awaited.set_result(reply)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        if fd == 1:
            self._lost()

    def process_exited(self) -> None:
        self.exited.set()
        # A reply may still be in the pipe; a program that the code started may keep the pipe open for ever.
        asyncio.get_running_loop().call_later(0.2, self._lost)

    def _lost(self) -> None:
        if self._awaited is not None and not self._awaited.done():
            self._awaited.set_exception(EOFError())

    def end_reason(self) -> str:
        """How the process ended by itself, for a message."""
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            return "its pipe was closed"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def end(self) -> None:
        """Kills the process and what it started, and waits for it: no zombie stays."""
        if self._transport is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
        try:
            await self.exited.wait()
        finally:
            self._transport.close()
            self._lost()
