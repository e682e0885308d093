"""One process of a model server: started under a supervisor, with a log, and stopped with everything it started.

    port = reserve_port()
    process = ServerProcess(["vllm", "serve", "/models/qwen", "--port", str(port.number)], environment, log, folder)
    await process.ended.wait()     # also ends when the server crashes: process.how_it_ended()
    await process.stop()

`supervisor.py` holds the other end of a pipe. It ends the server when assay dies in any way.
"""

from __future__ import annotations

import asyncio
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from assay.core.errors import cannot_write
from assay.files.excerpt import cut_end
from assay.models.servers import supervisor
from assay.models.weights.files import cache_folder

LOOPBACK = "127.0.0.1"
# Seconds between SIGTERM and SIGKILL. vLLM frees its GPU memory and its shared memory on SIGTERM.
GRACE_SECONDS = 10.0
# Seconds for the supervisor itself to end, after those that it gives the server.
_SUPERVISOR_SECONDS = 5.0
# Lines of the log that an error shows.
TAIL_LINES = 20
# Logs that stay in the cache. A log of the last day is never removed: its server may run.
KEPT_LOGS = 20
_DAY_SECONDS = 86_400.0
_TAIL_BYTES = 64_000
_MAX_LINE = 300
# The state of a listening socket in /proc/net/tcp.
_LISTENS = "0A"
_LINE_END = re.compile(r"[\r\n]")
_ESCAPE = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|[\x00-\x08\x0b-\x1f\x7f]")


class ServerProcess:
    """A running server. It must be made inside the event loop that waits for it.

    `ended` is set when the server and its supervisor are gone. `exit_code` is None while it runs, and if it could not
    be started; `start_error` then says why.
    """

    def __init__(
        self,
        command: Sequence[str],
        environment: Mapping[str, str],
        log: Path,
        folder: Path,
        grace: float = GRACE_SECONDS,
    ) -> None:
        self.command = list(command)
        self.log = log
        self.exit_code: int | None = None
        self.start_error = ""
        self.ended = asyncio.Event()
        self._grace = grace
        self._pid = 0
        self._stopping = False
        self._loop = asyncio.get_running_loop()
        # -I and -S: neither the user's folder nor site packages can change what the supervisor does.
        python = [sys.executable, "-I", "-S", supervisor.__file__]
        with log.open("ab") as file:
            self._supervisor = subprocess.Popen(  # noqa: S603 - the command that the user named, without a shell
                [*python, str(os.getpid()), str(grace), str(log), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=file,
                env=dict(environment),
                cwd=folder,
                # A session of its own: Ctrl-C in the terminal reaches assay only, and assay stops the server.
                start_new_session=True,
            )
        # A thread, since not every event loop can watch children outside the main thread.
        threading.Thread(target=self._watch, name=f"assay-server-{self._supervisor.pid}", daemon=True).start()

    def how_it_ended(self) -> str:
        """Return the end of a sentence, such as `ended with exit code 1`."""
        if self.start_error:
            return f"could not be started: {self.start_error}"
        if self.exit_code is None:
            return "ended without an exit code: its supervisor was killed"
        if self.exit_code < 0:
            number = -self.exit_code
            known = {each.value: each.name for each in signal.Signals}
            return f"was killed by {known.get(number, f'signal {number}')}"
        return f"ended with exit code {self.exit_code}"

    def is_foreign(self, port: int) -> bool:
        """Return whether a process that this one did not start listens on the port.

        Only Linux tells. A process of another user, such as that of a container, cannot be seen, so it is no stranger.
        """
        owners = port_owners(port)
        return bool(owners) and not owners & supervisor.descendants(self._supervisor.pid)

    async def stop(self) -> None:
        """Stop the server and wait until all its processes are gone. May be called repeatedly."""
        self._stopping = True
        self._close_pipe()
        try:
            limit = self._grace + supervisor.KILL_SECONDS + _SUPERVISOR_SECONDS
            await asyncio.wait_for(self.ended.wait(), limit)
        except TimeoutError:
            self._supervisor.kill()  # `_watch` then kills the server

    def _close_pipe(self) -> None:
        """Tell the supervisor to end the server."""
        assert self._supervisor.stdin
        # ValueError if the thread and the event loop close it at the same time.
        with suppress(OSError, ValueError):
            self._supervisor.stdin.close()

    def _watch(self) -> None:
        """Read the supervisor's reports until it ends. Runs in a thread."""
        assert self._supervisor.stdout
        exit_code, error = None, ""
        with self._supervisor.stdout as reports:
            for line in reports:
                word, _, rest = line.decode(errors="replace").strip().partition(" ")
                if word == "started":
                    self._pid = int(rest)
                elif word == "exited":
                    exit_code = int(rest)
                elif word == "failed":
                    error = rest
        self._supervisor.wait()
        self._close_pipe()
        if self._pid and exit_code is None and not (self._stopping and self._supervisor.returncode == 0):
            # Somebody killed the supervisor. On Linux the server died with it, its workers may not have.
            with suppress(ProcessLookupError, PermissionError):
                os.killpg(self._pid, signal.SIGKILL)
        with suppress(RuntimeError):  # the loop is closed
            self._loop.call_soon_threadsafe(self._set_ended, exit_code, error)

    def _set_ended(self, exit_code: int | None, error: str) -> None:
        self.exit_code = exit_code
        self.start_error = error
        self.ended.set()


class ReservedPort:
    """A port of loopback that no other program gets by chance, until the server listens on it.

    Between choosing a port and the server's start, seconds pass in which the system could give the port to another
    program. On Linux a bound socket that does not listen keeps the port, and the server may bind it as well if it sets
    SO_REUSEADDR or SO_REUSEPORT, as nearly all do. With `hold=False` the port is only chosen.
    """

    def __init__(self, *, hold: bool) -> None:
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        hold = hold and sys.platform == "linux"
        if hold:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        self._socket.bind((LOOPBACK, 0))
        self.number: int = self._socket.getsockname()[1]
        if not hold:
            self._socket.close()

    def release(self) -> None:
        """Give the port up. A server that listens on it keeps it."""
        self._socket.close()


def port_owners(port: int) -> set[int]:
    """Return the processes that listen on a port, as far as Linux shows them to this user. Empty elsewhere."""
    sockets = set()
    for table in ("tcp", "tcp6"):
        with suppress(OSError):
            # sl local_address rem_address st tx_queue:rx_queue tr:tm->when retrnsmt uid timeout inode
            for line in Path("/proc/net", table).read_text().splitlines()[1:]:
                words = line.split()
                if words[3] == _LISTENS and int(words[1].rpartition(":")[2], 16) == port:
                    sockets.add(f"socket:[{words[9]}]")
    owners = set()
    for process in Path("/proc").iterdir() if sockets else ():
        if process.name.isdecimal():
            with suppress(OSError):  # the process of another user, or one that has ended
                for file in (process / "fd").iterdir():
                    with suppress(OSError):  # closed meanwhile
                        if str(file.readlink()) in sockets:
                            owners.add(int(process.name))
    return owners


def new_log(name: str) -> Path:
    """Return the path of a new log in assay's cache, readable by this user only. Removes the oldest logs there."""
    folder = cache_folder() / "servers"
    file = f"{name}-{time.strftime('%Y%m%d-%H%M%S')}-{os.getpid()}-{time.monotonic_ns() % 1_000_000:06}.log"
    try:
        folder.mkdir(parents=True, exist_ok=True, mode=0o700)
        path = folder / file
        path.touch(mode=0o600)
        logs = sorted(folder.glob("*.log"), key=lambda log: log.stat().st_mtime, reverse=True)
        for log in logs[KEPT_LOGS:]:
            if time.time() - log.stat().st_mtime > _DAY_SECONDS:
                log.unlink(missing_ok=True)
    except FileNotFoundError:
        pass  # another process removed an old log at the same time
    except OSError as error:
        raise cannot_write(error.filename or folder, error) from error
    return path


def read_tail(log: Path, secret: str, count: int = TAIL_LINES) -> list[str]:
    """Return the last lines of a log without colours, empty lines and the key. Of a progress bar, its last state."""
    try:
        with log.open("rb") as file:
            file.seek(0, os.SEEK_END)
            start = max(0, file.tell() - _TAIL_BYTES)
            file.seek(start)
            text = file.read().decode(errors="replace")
    except OSError:
        return []
    if start:  # inside a line, and perhaps inside a secret
        text = "".join(_LINE_END.split(text, maxsplit=1)[1:])
    if secret:
        text = text.replace(secret, "[redacted]")
    states = [line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n")]
    lines = [cut_end(_ESCAPE.sub("", state).rstrip(), _MAX_LINE) for state in states]
    return [line for line in lines if line][-count:]
