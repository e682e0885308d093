"""Runs code in child processes: the Python of a pipeline file, and JavaScript."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, cast

import msgspec

from assay.files.excerpt import cut_end
from assay.files.redact import longest_secret
from assay.suites.pipeline.code import worker
from assay.suites.pipeline.code.runner import Code, CodeError, Kind, Language, decode_result, join_message
from assay.usercode.opened_files import note_read, note_written

# Limit for starting a worker process. It takes a fraction of a second, more on a machine under load.
_START_SECONDS = 60
# Time to read the last reply from the pipe after a worker process has exited.
_LAST_REPLY_SECONDS = 0.2
# Bytes of a reply without its end: the largest result, and room for the names around it.
_MAX_REPLY = worker.MAX_RESULT + 1_000_000
# How the line about a file begins that the code opens.
_OPENED = b'{"opened":'


class ProcessRunner:
    """Runs code in a pool of child processes. Processes start when they are needed.

    The code is trusted: it belongs to the user. Each process compiles it once and executes it in a fresh
    module on every call, so variables do not carry over between cases. Other changes last as long as the
    process: imported modules, the environment, the current folder.

    The code has the environment and the current folder of assay. Imports search `folder` first. Printed
    text is discarded unless the code fails. A call that exceeds its timeout is killed together with every
    process it started; a new worker process replaces it.
    """

    def __init__(
        self,
        workers: int,
        folder: Path | None = None,
        *,
        language: Language = "python",
        environment: dict[str, str] | None = None,
        grace: float = 0,
    ) -> None:
        """Without `environment` the code has that of assay. `grace` seconds after its timeout a call is killed."""
        self._folder = str(folder.resolve()) if folder else ""
        self._language = language
        self._environment = environment
        self._grace = grace
        self._permits = asyncio.Semaphore(workers)
        self._idle: list[_WorkerProcess] = []
        self._processes: set[_WorkerProcess] = set()
        self._closed = asyncio.Event()

    async def run(self, code: Code, argument: Any, timeout: float) -> Any:  # noqa: ASYNC109 - kills a process
        """Return the value of the code's entry function. Calls beyond the number of workers wait in order."""
        request = {
            "source": code.source,
            "name": code.name,
            "file": code.file,
            "first_line": code.first_line,
            "path": code.path,
            "argument": argument,
            "seconds": timeout,
            # Characters of a long text beyond those that a message shows: a secret across the cut, and one that tells
            # that there is more.
            "margin": longest_secret() + 1,
        }
        try:
            line = msgspec.json.encode(request) + b"\n"
        except UnicodeEncodeError as error:
            raise CodeError("syntax", f"{code.name}: it is not text: {error}") from None
        async with self._permits:
            reply = await self._send(code, line, timeout)
        if reply.kind is not None:
            raise CodeError(reply.kind, reply.message)
        return reply.result

    async def _send(self, code: Code, line: bytes, timeout: float) -> _CodeReply:  # noqa: ASYNC109
        process = await self._take_process()
        try:
            async with asyncio.timeout(timeout + self._grace):
                reply = _read_reply(await process.send(line), code)
        except BaseException as error:
            # Also after a cancellation: the process may still work on this request, so it cannot be reused. After a
            # line that is no reply the real one may follow, and the next call would get it.
            await self._stop(process)
            if isinstance(error, TimeoutError):
                message = f"{code.name}: it ran longer than {timeout:g} s and was stopped"
                raise CodeError("timeout", message) from None
            if isinstance(error, EOFError):
                message = f"{code.name}: its process ended ({process.exit_reason()}) before it gave a result"
                raise CodeError("died", message) from None
            if isinstance(error, OverflowError):
                message = f"{code.name}: its process wrote more than {_MAX_REPLY:,} bytes"
                raise CodeError("bad_result", message) from None
            raise
        self._idle.append(process)
        return reply

    async def _take_process(self) -> _WorkerProcess:
        """Return the process that was used last, or a new one."""
        while self._idle:
            process = self._idle.pop()
            if not process.exited.is_set():
                return process
            await self._stop(process)
        if not self._closed.is_set():
            # EOFError: the process ended during its start.
            with suppress(EOFError):
                process = await self._start_process()
                # close() may have run while the process started.
                if not self._closed.is_set():
                    return process
                await self._stop(process)
        raise RuntimeError("the process for this code cannot start, or its runner is closed")

    async def _start_process(self) -> _WorkerProcess:
        process = _WorkerProcess()
        self._processes.add(process)
        try:
            await process.start(self._folder, self._language, self._environment)
        except BaseException:
            await self._stop(process)
            raise
        return process

    async def _stop(self, process: _WorkerProcess) -> None:
        self._processes.discard(process)
        await process.stop()

    async def close(self) -> None:
        """Kill every process and wait until it has exited. Running calls raise a CodeError of kind `died`."""
        self._closed.set()
        self._idle.clear()
        processes = self._processes
        self._processes = set()
        await asyncio.gather(*(process.stop() for process in processes))


class _WorkerProcess(asyncio.SubprocessProtocol):
    """A child process that runs `worker.py`. It handles one request at a time."""

    def __init__(self) -> None:
        self.exited = asyncio.Event()
        self._transport: asyncio.SubprocessTransport | None = None
        self._chunks: list[bytes] = []
        self._size = 0
        self._reply: asyncio.Future[bytes] | None = None

    async def start(self, folder: str, language: Language, environment: dict[str, str] | None) -> None:
        """Start the process and wait until it accepts requests."""
        # -I ignores PYTHONPATH, so sys.path is passed along. -B writes no compiled files: Python compares them
        # with their source by the second, so an edit within the same second could run the old code.
        search_path = [folder, *filter(None, sys.path)]
        folders = msgspec.json.encode(search_path).decode()
        arguments = ("-I", "-B", "-X", "utf8", worker.__file__, folders, language)
        # The future exists before the process: a fast process writes before subprocess_exec returns.
        ready = self._expect_reply()
        # A session of its own: Ctrl-C reaches only assay, and stop() can kill the whole process group.
        await asyncio.get_running_loop().subprocess_exec(
            lambda: self,
            sys.executable,
            *arguments,
            stderr=None,
            start_new_session=True,
            env=environment,
        )
        async with asyncio.timeout(_START_SECONDS):
            await ready

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by asyncio when the process has started."""
        self._transport = cast("asyncio.SubprocessTransport", transport)

    async def send(self, line: bytes) -> bytes:
        """Send a request and wait for its reply. Raises EOFError if the process ends first."""
        assert self._transport is not None
        stdin = cast("asyncio.WriteTransport", self._transport.get_pipe_transport(0))
        reply = self._expect_reply()
        stdin.write(line)
        return await reply

    def _expect_reply(self) -> asyncio.Future[bytes]:
        self._reply = asyncio.get_running_loop().create_future()
        return self._reply

    def pipe_data_received(self, fd: int, data: bytes) -> None:
        """Called by asyncio with the next bytes. A reply is one line, and so is the report of an opened file."""
        self._chunks.append(data)
        self._size += len(data)
        if not data.endswith(b"\n"):
            if self._size > _MAX_REPLY:
                self._chunks = []
                self._fail_reply(OverflowError())
            return
        lines = b"".join(self._chunks).split(b"\n")[:-1]
        self._chunks, self._size = [], 0
        for line in lines:
            if line.startswith(_OPENED):
                _note_opened(line)
            elif self._reply is not None and not self._reply.done():
                self._reply.set_result(line)

    def pipe_connection_lost(self, fd: int, exc: Exception | None) -> None:
        """Called by asyncio when the process closes a pipe. The replies come on descriptor 1."""
        if fd == 1:
            self._fail_reply()

    def process_exited(self) -> None:
        """Called by asyncio when the process has exited."""
        self.exited.set()
        # A reply may still be in the pipe, so the failure waits a moment. The pipe itself may never close: a
        # program that the code started can keep it open.
        asyncio.get_running_loop().call_later(_LAST_REPLY_SECONDS, self._fail_reply)

    def _fail_reply(self, error: Exception | None = None) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error or EOFError())

    def exit_reason(self) -> str:
        """Return how the process ended, for a message."""
        code = self._transport.get_returncode() if self._transport else None
        if code is None:
            return "its pipe was closed"
        return f"exit code {code}" if code >= 0 else f"signal {-code}"

    async def stop(self) -> None:
        """Kill the process and every process it started. Returns when it has exited, so no zombie remains."""
        if self._transport is None:
            return
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._transport.get_pid(), signal.SIGKILL)
        try:
            await self.exited.wait()
        finally:
            self._transport.close()
            self._fail_reply()


class _CodeFailure(msgspec.Struct):
    """The reply about an error. Its message is a `worker.Message`."""

    kind: Kind
    message: list[str | tuple[str, int]]


class _CodeReply(NamedTuple):
    """What a worker process says about a call: the result, or kind and message of its error."""

    result: Any
    kind: Kind | None = None
    message: str = ""


def _read_reply(line: bytes, code: Code) -> _CodeReply:
    """Read the line of a reply. Raises CodeError for any other line: code can find the pipe and write into it."""
    value = decode_result(line, code)
    if isinstance(value, dict):
        if "result" in value:
            return _CodeReply(value["result"])
        with suppress(msgspec.ValidationError):
            failure = msgspec.convert(value, _CodeFailure)
            return _CodeReply(None, failure.kind, join_message(failure.message))
    message = f"{code.name}: its process wrote a line that is no reply: {cut_end(repr(value), 60)}"
    raise CodeError("bad_result", message)


class _OpenedFile(msgspec.Struct):
    """The line about a file: its path, and size and time of change when the code read it, or -1 if it writes it."""

    opened: tuple[str, int, int]


def _note_opened(line: bytes) -> None:
    try:
        path, size, mtime_ns = msgspec.json.decode(line, type=_OpenedFile).opened
    except (msgspec.MsgspecError, UnicodeError, RecursionError):
        return  # code wrote it into the pipe
    if size < 0:
        note_written(path)
    else:
        note_read(path, size, mtime_ns)
