"""The process in which a Hoplet's function runs for the Run tab. The server itself never runs a user's code.

`python -m assay.view.hop.process TASK SCRATCH PROFILE` reads a `RoundRequest` a line and writes a `RoundResult` a line,
both as JSON, until its input ends. It then removes the folder SCRATCH. What the function prints goes nowhere: it would
break the lines of results.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import sys
import tempfile
import time
from asyncio.subprocess import DEVNULL, PIPE, Process
from contextlib import suppress
from pathlib import Path
from threading import Thread
from typing import IO, Self

import msgspec

from assay.usercode.child_process import python_command
from assay.view.hop.round import ERROR, HopRounds, RoundRequest, RoundResult

# Bytes of a line. A result has at most 8 MB, and JSON in JSON may double it.
_MAX_LINE = 1 << 25


class HopProcess:
    """A running process, for the rounds of one person."""

    def __init__(self, process: Process, scratch: Path) -> None:
        self._process = process
        self._scratch = scratch

    @classmethod
    async def start(cls, task: Path, profile: str) -> Self:
        """Start the process for a task folder with an absolute path. No shell is involved.

        It has a session of its own, so that it can be killed with everything that it starts.
        """
        scratch = await asyncio.to_thread(tempfile.mkdtemp, prefix="assay-hop-")
        command = python_command("assay.view.hop.process", str(task), scratch, profile)
        process = await asyncio.create_subprocess_exec(
            *command, stdin=PIPE, stdout=PIPE, stderr=DEVNULL, limit=_MAX_LINE, start_new_session=True
        )
        return cls(process, Path(scratch))

    @property
    def is_over(self) -> bool:
        """Whether the process has ended."""
        return self._process.returncode is not None

    async def run(self, request: RoundRequest) -> RoundResult:
        """Call the function once. A process that ends meanwhile is a result with the status ERROR."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        line = b""
        with suppress(ConnectionError, ValueError):  # ValueError: the line is too long
            self._process.stdin.write(msgspec.json.encode(request) + b"\n")
            await self._process.stdin.drain()
            line = await self._process.stdout.readline()
        if not line:
            await self.end()
            return RoundResult(status=ERROR, error="The function ended its process.")
        return msgspec.json.decode(line, type=RoundResult)

    async def end(self) -> None:
        """Kill the process and everything that it has started, and remove its files."""
        # Also if the process itself has ended: programs that it has started may still run.
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        await self._process.wait()
        await asyncio.to_thread(shutil.rmtree, self._scratch, ignore_errors=True)


async def serve(task: Path, scratch: Path, profile: str, requests: asyncio.Queue[bytes], out: IO[bytes]) -> None:
    """Answer the requests, one after the other. Never returns: the end of the input ends the process."""
    rounds = HopRounds(task, profile, scratch)
    while True:
        request = msgspec.json.decode(await requests.get(), type=RoundRequest)
        try:
            result = await rounds.run(request)
        except Exception as error:  # noqa: BLE001 - the page must say what happened
            result = RoundResult(status=ERROR, error=f"{type(error).__name__}: {error}")
        out.write(msgspec.json.encode(result) + b"\n")
        out.flush()


async def _main(task: Path, scratch: Path, profile: str) -> None:
    # The function may print. Results have the pipe for themselves.
    out = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    loop, requests = asyncio.get_running_loop(), asyncio.Queue[bytes]()

    def read() -> None:
        for line in sys.stdin.buffer:
            loop.call_soon_threadsafe(requests.put_nowait, line)
        # The server has ended, perhaps killed. A function that still runs must not go on for nobody.
        _remove_after_death(scratch)
        os.killpg(0, signal.SIGKILL)

    Thread(target=read, daemon=True).start()
    await serve(task, scratch, profile, requests, out)


def _remove_after_death(scratch: Path) -> None:
    """Have a child remove the folder when this process has ended: until then, the function may write into it."""
    parent = os.getpid()
    ready, is_ready = os.pipe()
    if os.fork():
        os.read(ready, 1)
        return
    os.setsid()  # or the signal that ends this process would end the child too
    os.write(is_ready, b"1")
    while os.getppid() == parent:
        time.sleep(0.01)
    shutil.rmtree(scratch, ignore_errors=True)
    os._exit(0)


if __name__ == "__main__":
    asyncio.run(_main(Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]))
