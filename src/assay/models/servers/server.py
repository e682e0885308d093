"""A server that assay starts for a run: at the first request, again if it dies, and stopped with the run.

    server = acquire(launch)               # the same server for every role that needs the same
    running = await server.ready()         # starts it, waits until it is healthy; running.url
    await release(server)                  # the last one to release it stops it

`Launch` says how a server is started; `vllm.py`, `sglang.py`, `llama_server.py` and `--serve` each make one.
"""

from __future__ import annotations

import asyncio
import os
import re
import secrets
import shlex
import shutil
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

from assay.core.errors import AssayError, ModelError, ModelRefused, StopRun
from assay.core.events import halt, notice
from assay.core.roles import Network
from assay.models.http.client import HttpEndpoint, bearer, request_limit
from assay.models.http.errors import decode_json
from assay.models.servers.process import LOOPBACK, ReservedPort, ServerProcess, new_log, read_tail

# Loading the weights of a large model, compiling its kernels and capturing graphs take many minutes.
START_SECONDS = 1800.0
# Seconds between two notices with the last line of the log.
NOTICE_SECONDS = 15.0
# Seconds between two questions whether the server is healthy, and for the answer. The first questions follow fast,
# since a small model is ready in a second.
_FIRST_POLL_SECONDS = 0.05
_LONGEST_POLL_SECONDS = 1.0
_HEALTH_SECONDS = 10.0
# A server that dies again and again, for example for lack of memory, would take the run nowhere.
MAX_RESTARTS = 3
# Other programs may take the port between its choice and the server's start.
PORT_ATTEMPTS = 5

KEY_VARIABLE = "ASSAY_SERVER_KEY"
"""The variable with the key of all servers that this process starts. Random, unless the user sets it."""
_PORT_IN_USE = re.compile(
    r"address already in use|EADDRINUSE|errno 98\b|errno 48\b|could ?n[o']t bind|failed to bind|cannot bind"
    r"|port \d+ is (already )?(in use|taken|not available)|couldn't bind HTTP server socket",
    re.IGNORECASE,
)
_OFFLINE = re.compile(r"HF_HUB_OFFLINE|offline mode|OfflineModeIsEnabled|LocalEntryNotFound", re.IGNORECASE)


class Launch(NamedTuple):
    """How a server is started. Two equal launches of a run share one server."""

    title: str
    """What messages call the server, such as `vllm`."""
    endpoint: str
    """What identifies the model and its settings in requests. It has no port, so a continued run finds its replies."""
    command: Callable[[int], list[str]]
    """Returns the words of the command for a port."""
    install: str
    """What to do if the program is missing."""
    folder: Path
    """The working folder of the server."""
    start_seconds: float = START_SECONDS


class Running(NamedTuple):
    """A healthy server."""

    process: ServerProcess
    root: str
    """The server's address, such as http://127.0.0.1:34567."""
    max_length: int | None = None
    """Tokens of a prompt with its reply, if the server lists that of its model (vLLM and SGLang do)."""

    @property
    def url(self) -> str:
        """The base URL of its OpenAI-compatible paths."""
        return f"{self.root}/v1"


class ManagedServer:
    """One server of a run. It has one process at a time."""

    def __init__(self, launch: Launch) -> None:
        self.launch = launch
        self.users = 0
        self._start: asyncio.Task[Running] | None = None
        self._restarts = 0
        self._failure: AssayError | None = None

    async def ready(self) -> Running:
        """Return the healthy server. Starts it if it does not run; all callers wait for the same start.

        Raises ModelRefused if it cannot be started, and StopRun if it is too slow or died too often. Every later call
        raises the same error at once.
        """
        if self._failure is not None:
            raise self._failure
        if self._start is not None and self._start.done():
            running = self._start.result()
            if not running.process.ended.is_set():
                return running
            self._count_restart(running.process)
            self._start = None
        if self._start is None:
            self._start = asyncio.create_task(self._try_ports())
            self._start.add_done_callback(self._end_start)
        # The shield keeps the start alive for the other callers when one of them is cancelled.
        start = asyncio.shield(self._start)
        if (event := halt.get()) is None:
            return await start
        # No request is open yet, so that a run that stops has nothing to wait for.
        halted = asyncio.ensure_future(event.wait())
        try:
            either: list[asyncio.Future[Any]] = [start, halted]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
        finally:
            halted.cancel()
            start.cancel()  # does nothing if it is done
        if start.cancelled():
            raise StopRun(f"the run was stopped before {self.launch.title} was ready")
        return start.result()

    async def stop(self) -> None:
        """Stop the server, also in the middle of its start."""
        if self._start is None:
            return
        if not self._start.done():
            self._start.cancel()
            await asyncio.wait([self._start])
        elif not self._start.cancelled() and self._start.exception() is None:
            await self._start.result().process.stop()

    def _end_start(self, task: asyncio.Task[Running]) -> None:
        # Read here in any case: asyncio would log an error whose callers were all cancelled.
        error = None if task.cancelled() else task.exception()
        if isinstance(error, AssayError):
            self._failure = error
        elif error is not None:
            self._failure = StopRun(f"{self.launch.title} could not be started: {error}")

    def _count_restart(self, process: ServerProcess) -> None:
        self._restarts += 1
        if self._restarts > MAX_RESTARTS:
            self._failure = StopRun(
                f"{self.launch.title} ended {self._restarts} times during the run. The last time it "
                f"{process.how_it_ended()}. All replies so far are saved; the same command continues the run"
                f"{describe_log(process)}"
            )
            raise self._failure
        notice(
            f"{self.launch.title} {process.how_it_ended()} in the middle of the run and is started again "
            f"({self._restarts} of {MAX_RESTARTS}). Its log: {process.log}"
        )

    async def _try_ports(self) -> Running:
        # The questions whether the server is ready are no requests to a model.
        request_limit.set(None)
        attempt = 0
        while True:
            attempt += 1
            # Held in the first attempt only, for servers that cannot bind a port that another socket holds.
            port = ReservedPort(hold=attempt == 1)
            root = f"http://{LOOPBACK}:{port.number}"
            try:
                process = self._start_process(port.number)
            except BaseException:
                port.release()
                raise
            try:
                health = Health(root, process if attempt > 1 else None, port.number)
                return Running(process, root, await self._wait_until_healthy(process, health))
            except _EndedEarly:
                lines = read_tail(process.log, server_key())
                if attempt < PORT_ATTEMPTS and _PORT_IN_USE.search("\n".join(lines)):
                    notice(f"{self.launch.title} could not listen on port {port.number}; trying another one")
                    continue
                raise self._early_end(process, lines) from None
            except BaseException:
                await process.stop()
                raise
            finally:
                port.release()

    def _start_process(self, port: int) -> ServerProcess:
        command = self.launch.command(port)
        program = find_program(command[0])
        if program is None:
            raise ModelRefused(f"the program {command[0]!r} is not on PATH. {self.launch.install}")
        log = new_log(self.launch.endpoint.partition(":")[0])
        notice(f"starting {shlex.join(command).replace(server_key(), '***')}")
        return ServerProcess([program, *command[1:]], server_environment(), log, self.launch.folder)

    async def _wait_until_healthy(self, process: ServerProcess, health: Health) -> int | None:
        """Return the context length of the model, if the server tells it.

        Raises _EndedEarly if the server ends, and StopRun after the time limit.
        """
        loop = asyncio.get_running_loop()
        began = loop.time()
        next_notice = began + NOTICE_SECONDS
        pause = _FIRST_POLL_SECONDS
        try:
            while not process.ended.is_set():
                if await health.ask() and not process.ended.is_set():
                    notice(f"{self.launch.title} is ready after {loop.time() - began:.0f} s")
                    return await health.read_max_length()
                if loop.time() - began > self.launch.start_seconds:
                    raise StopRun(
                        f"{self.launch.title} was not ready within {self.launch.start_seconds:g} s and was stopped "
                        f"({health.last_answer}). --model-args start_timeout=SECONDS sets the limit"
                        f"{describe_log(process)}"
                    )
                if loop.time() > next_notice:
                    next_notice += NOTICE_SECONDS
                    line = (read_tail(process.log, server_key(), 1) or ["its log is empty so far"])[0]
                    notice(f"{self.launch.title} is starting, {loop.time() - began:.0f} s: {line}")
                with suppress(TimeoutError):
                    await asyncio.wait_for(process.ended.wait(), pause)
                pause = min(pause * 1.3, _LONGEST_POLL_SECONDS)
        finally:
            await health.close()
        raise _EndedEarly

    def _early_end(self, process: ServerProcess, lines: list[str]) -> AssayError:
        command = shlex.join(process.command).replace(server_key(), "***")
        hint = ""
        if _OFFLINE.search("\n".join(lines)):
            hint = " assay lets a server download nothing: set HF_HUB_OFFLINE=0 to allow it."
        message = f"{self.launch.title} {process.how_it_ended()} before it was ready.{hint} The command was: {command}"
        # In the middle of a run the replies so far are worth continuing for.
        error = StopRun if self._restarts else ModelRefused
        return error(message + describe_log(process))


class _EndedEarly(Exception):
    """The server's process ended before it was healthy."""


class Health:
    """Asks a server whether it is ready: `/health`, or `/v1/models` where there is no such path.

    With `process`, an answer of a program that this process did not start does not count. A port that is not held may
    be taken by another program, which answers until the server finds that it cannot listen.
    """

    def __init__(self, root: str, process: ServerProcess | None, port: int) -> None:
        self._http = HttpEndpoint(root, bearer(server_key()), _HEALTH_SECONDS, Network())
        self._process = process
        self._port = port
        self._path = "/health"
        self.last_answer = "it did not listen on its port"

    async def ask(self) -> bool:
        """Return whether the server is ready."""
        try:
            status = (await self._http.get(self._path)).status
            if status in (404, 405, 501) and self._path == "/health":
                self._path = "/v1/models"
                status = (await self._http.get(self._path)).status
        except ModelError as error:
            if error.failure.kind != "unreachable":
                self.last_answer = f"GET {self._path}: {error.failure.message}"
            return False
        self.last_answer = f"GET {self._path} answered {status}"
        if status != 200:
            return False
        if self._process is not None and self._process.is_foreign(self._port):
            self.last_answer = f"another program listens on port {self._port}"
            self._path = "/health"
            return False
        return True

    async def read_max_length(self) -> int | None:
        """Return the `max_model_len` of the first model in `/v1/models`, or None."""
        try:
            models = decode_json(await self._http.get("/v1/models"), self._http.base_url)
            length = models["data"][0]["max_model_len"]
        except (ModelError, KeyError, IndexError, TypeError):
            return None
        return length if type(length) is int and length > 0 else None

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()


def server_key() -> str:
    """Return the key of this process's servers, which keeps other users of the machine out. Made at the first call.

    It is an environment variable, so that the journal's redaction knows it, and no server needs it in its arguments,
    which every user can see.
    """
    return os.environ.setdefault(KEY_VARIABLE, secrets.token_hex(16))


def server_environment() -> dict[str, str]:
    """Return the environment of a server: no telemetry, no download unless HF_HUB_OFFLINE=0, and the key."""
    key = server_key()
    keys = {"VLLM_API_KEY": key, "LLAMA_API_KEY": key}
    # Unbuffered, so that the log has the last lines of a server that is killed.
    quiet = {"VLLM_NO_USAGE_STATS": "1", "DO_NOT_TRACK": "1", "HF_HUB_DISABLE_TELEMETRY": "1"}
    offline = {"HF_HUB_OFFLINE": os.environ.get("HF_HUB_OFFLINE", "1")}
    return {**os.environ, **keys, **quiet, **offline, "PYTHONUNBUFFERED": "1"}


def find_program(name: str) -> str | None:
    """Return the path of a program on PATH, or beside this Python, as in a virtual environment that is not active."""
    return shutil.which(name) or shutil.which(name, path=str(Path(sys.executable).parent))


def describe_log(process: ServerProcess) -> str:
    """Return the end of an error: the last lines of the server's log and where the whole log is."""
    lines = read_tail(process.log, server_key())
    if not lines:
        return f". Its log is empty: {process.log}"
    shown = "\n".join(f"  {line}" for line in lines)
    return f". The last lines of its log, {process.log}:\n{shown}"


_servers: dict[tuple[asyncio.AbstractEventLoop, str], ManagedServer] = {}


def acquire(launch: Launch) -> ManagedServer:
    """Return the server for a launch, one per event loop. Starts nothing. Each caller must `release` it once."""
    server = _servers.setdefault((asyncio.get_running_loop(), launch.endpoint), ManagedServer(launch))
    server.users += 1
    return server


async def release(server: ManagedServer) -> None:
    """Give the server up. The last caller stops it."""
    server.users -= 1
    if not server.users:
        _servers.pop((asyncio.get_running_loop(), server.launch.endpoint), None)
        await server.stop()
