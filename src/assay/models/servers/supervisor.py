"""Runs a model server as a child, and ends it with everything it started when assay ends, even by kill -9.

    python -I -S supervisor.py PID GRACE LOG COMMAND...

PID is assay's process, GRACE the seconds between SIGTERM and SIGKILL. The server's output goes to the file LOG. assay
holds the other end of standard input: when it closes, because assay closed it or because assay is dead, the server gets
SIGTERM and after a while SIGKILL. On standard output assay reads `started PID`, and later `exited CODE` (negative:
killed by that signal) or `failed REASON`.

The server is the leader of a session of its own, so one signal reaches its workers too. On Linux, workers that left the
session come back to this process as orphans (PR_SET_CHILD_SUBREAPER) and are ended as well. Elsewhere they are found
only while their parent lives.

The file is started as a script and imports nothing of assay, so that it is small and starts at once.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path

# Seconds in which SIGKILL must have ended every process. The kernel may need a moment to free the memory of a GPU.
KILL_SECONDS = 10.0
# Seconds between two checks whether assay is alive, besides the end of standard input. A process that assay forked may
# hold a copy of the pipe.
CHECK_SECONDS = 1.0
# A server logs lines for each request. Of a longer log only the end is kept.
MAX_LOG_BYTES = 50_000_000
KEEP_LOG_BYTES = 1_000_000
# From <sys/prctl.h>.
_PR_SET_PDEATHSIG = 1
_PR_SET_CHILD_SUBREAPER = 36


def main(parent: int, grace: float, log: str, command: list[str]) -> None:
    """Run the command until it ends or assay does."""
    # Signals and the death of a child wake `select` by a byte in this pipe.
    wake_out, wake_in = os.pipe()
    for end in (wake_out, wake_in):
        os.set_blocking(end, False)
    signal.set_wakeup_fd(wake_in, warn_on_full_buffer=False)
    stop_signals: list[int] = []
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, lambda got, _frame: stop_signals.append(got))
    signal.signal(signal.SIGCHLD, lambda _got, _frame: None)
    _prctl(_PR_SET_CHILD_SUBREAPER, 1)

    file = os.open(log, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        process = subprocess.Popen(  # noqa: S603 - the command that the user named, without a shell
            command,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=file,
            start_new_session=True,
            # If this process is killed, its child dies with it. The process has one thread, so this is safe.
            preexec_fn=lambda: _prctl(_PR_SET_PDEATHSIG, signal.SIGKILL),  # noqa: PLW1509
        )
    except OSError as error:
        _report(f"failed {error.strerror or error}")
        return
    _report(f"started {process.pid}")

    try:
        while not stop_signals and os.getppid() == parent and process.poll() is None:
            readable, _, _ = select.select([0, wake_out], [], [], CHECK_SECONDS)
            if wake_out in readable:
                os.read(wake_out, 512)
            if 0 in readable and not os.read(0, 512):
                break
            with suppress(OSError):  # a full disk
                _shorten(file)
    finally:
        if process.returncode is None:
            _end(process, seconds=grace)
        else:
            # The server ended by itself. Its workers are of no use any more, and get no time.
            _end(process, seconds=0.0)
            _report(f"exited {process.returncode}")


def _end(process: subprocess.Popen[bytes], seconds: float) -> None:
    """End the server and all its descendants: SIGTERM, and SIGKILL for those that live on after `seconds`."""
    deadline = time.monotonic() + seconds
    if seconds:
        _signal_all(process.pid, signal.SIGTERM)
    while time.monotonic() < deadline and _any_left(process):
        time.sleep(0.02)
    # A process may fork while the list of processes is read, so the list is read until it is empty. It is not empty
    # for long: SIGKILL cannot be refused. A process in uninterruptible sleep is left to the kernel.
    deadline = time.monotonic() + KILL_SECONDS
    while _any_left(process) and time.monotonic() < deadline:
        _signal_all(process.pid, signal.SIGKILL)
        time.sleep(0.02)


def _any_left(process: subprocess.Popen[bytes]) -> bool:
    """Return whether the server or a descendant lives. Removes those that are dead from the process table."""
    process.poll()
    with suppress(ChildProcessError):
        # Orphans that this process inherited. The server itself is left to Popen, which needs its exit code.
        while process.returncode is not None and os.waitpid(-1, os.WNOHANG)[0]:
            pass
    if process.returncode is None:
        return True
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, 0)
        return True
    return bool(descendants(os.getpid()))


def _signal_all(group: int, number: int) -> None:
    """Send a signal to the server's process group and to every descendant, wherever it has moved."""
    # Listed before the group dies: elsewhere than on Linux, children of a dead process cannot be found any more.
    others = descendants(os.getpid())
    with suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)
    for pid in others:
        with suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def descendants(pid: int) -> set[int]:
    """Return the living children of a process, their children, and so on."""
    parents = _parents_from_proc() if Path("/proc/self/stat").exists() else _parents_from_ps()
    found = {pid}
    while True:
        more = {child for child, parent in parents.items() if parent in found and child not in found}
        if not more:
            return found - {pid}
        found |= more


def _parents_from_proc() -> dict[int, int]:
    """Return the parent of every process, on Linux. Zombies are left out: they have ended."""
    parents: dict[int, int] = {}
    for folder in os.listdir("/proc"):  # noqa: PTH208 - a Path for each process costs more than the list
        if folder.isdecimal():
            with suppress(OSError, ValueError, IndexError):
                # The name of the program is in brackets and may contain spaces and brackets.
                rest = Path("/proc", folder, "stat").read_bytes().rpartition(b")")[2].split()
                if rest[0] not in (b"Z", b"X"):
                    parents[int(folder)] = int(rest[1])
    return parents


def _parents_from_ps() -> dict[int, int]:
    """Return the parent of every process, on macOS and other systems without /proc."""
    listing = subprocess.run(["ps", "-A", "-o", "pid=,ppid=,stat="], capture_output=True, check=False)  # noqa: S607
    rows = [line.split() for line in listing.stdout.splitlines()]
    return {int(row[0]): int(row[1]) for row in rows if len(row) > 2 and not row[2].startswith(b"Z")}


def _shorten(file: int) -> None:
    """Keep only the end of a log that has become too long. The server goes on at the new end (O_APPEND)."""
    size = os.fstat(file).st_size
    if size > MAX_LOG_BYTES:
        end = os.pread(file, KEEP_LOG_BYTES, size - KEEP_LOG_BYTES)
        os.ftruncate(file, 0)
        os.write(file, b"(assay removed the earlier lines)\n" + end.partition(b"\n")[2])


def _prctl(option: int, value: int) -> None:
    """Set a property of this process, on Linux. Other systems have no such call."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def _report(line: str) -> None:
    with suppress(OSError):  # assay is dead
        os.write(1, line.encode(errors="replace") + b"\n")


if __name__ == "__main__":
    main(int(sys.argv[1]), float(sys.argv[2]), sys.argv[3], sys.argv[4:])
