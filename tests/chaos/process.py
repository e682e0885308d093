"""Starts of assay in copies of a warm process: a copy takes milliseconds, a new interpreter half a second.

    process = start(Job(folder, run, environment), disturbance)
    ended = process.wait()          # code, what was printed, which write point was reached, CPU and memory

The parent has imported everything and has no threads and no event loop, so a copy is as good as a new process.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import resource
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

from chaos.write_points import Disturbance, WritePoints

# A start takes a tenth of a second. One that takes this long is stuck, however busy the machine is.
STUCK_SECONDS = 300.0
CRASHED = 70
"""The exit code of a start that raised an exception which assay did not handle."""
# More than any small run needs, with the pages that a copy shares with its parent.
MAX_MEMORY = 1 << 30


class Job(NamedTuple):
    """What a copy does: `run` returns the exit code. `logs` is a folder for what it prints."""

    folder: Path
    run: Callable[[], int]
    logs: Path
    environment: Mapping[str, str] = {}
    prepare: Callable[[], object] = lambda: None
    """Changes of the copy before it runs, such as another clock."""


class Ended(NamedTuple):
    """How a start ended. `code` is negative for a signal, as subprocess has it."""

    code: int
    out: str
    err: str
    reached: str
    """The write point that was disturbed, such as `17 write out/…/calls.jsonl`. Empty if it was not reached."""
    points: int
    """Write points of the whole start. 0 if it was killed."""
    cpu: float
    memory: int

    @property
    def killed(self) -> bool:
        """Whether `kill -9` ended it, or SIGTERM before the run listened to signals."""
        return self.code in (-signal.SIGKILL, -signal.SIGTERM)

    @property
    def text(self) -> str:
        """All that was printed."""
        return self.out + self.err


class Process:
    """A copy that runs."""

    def __init__(self, pid: int, logs: Path) -> None:
        self.pid = pid
        self._logs = logs
        self._handle = os.pidfd_open(pid)
        self._ended: Ended | None = None

    def wait(self, seconds: float = STUCK_SECONDS, or_readable: int | None = None) -> Ended | None:
        """Wait for the end. Returns None if the descriptor `or_readable` has something to read, or time is over."""
        if self._ended is not None:
            return self._ended
        handles = [self._handle, *([or_readable] if or_readable is not None else [])]
        ready, _, _ = select.select(handles, [], [], seconds)
        if self._handle not in ready:
            return None
        _, status, usage = os.wait4(self.pid, 0)
        os.close(self._handle)
        self._leave_no_helper()
        code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        out, err, report = ((self._logs / name).read_text(errors="replace") for name in ("out", "err", "report"))
        told = {line[0]: line[1:] for line in map(json.loads, report.splitlines()[::-1])}
        reached = " ".join(map(str, told.get("reached", ())))
        cpu, memory = usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024
        self._ended = Ended(code, out, err, reached, told.get("total", [0])[0], cpu, memory)
        return self._ended

    def end(self) -> Ended:
        """Wait for the end. Raises AssertionError if the process is stuck."""
        ended = self.wait()
        if ended is None:
            stack = self._stack()
            os.kill(self.pid, signal.SIGKILL)
            self.wait()
            raise AssertionError(f"stuck for {STUCK_SECONDS:g} s\n{stack}")
        return ended

    def _stack(self) -> str:
        """Return where the process is: it prints its threads to its stderr at SIGUSR1."""
        os.kill(self.pid, signal.SIGUSR1)
        time.sleep(0.5)
        return (self._logs / "err").read_text(errors="replace")[-5000:]

    def _leave_no_helper(self) -> None:
        """End what the process started and left behind, such as workers for code. They are in its group."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)


def start(job: Job, disturbance: Disturbance | None = None, *, count: bool = True) -> Process:
    """Start a copy of this process that runs the job. Without `count` its writes are not numbered."""
    job.logs.mkdir(parents=True, exist_ok=True)
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
    if (pid := os.fork()) == 0:
        _run_copy(job, disturbance or Disturbance(), count=count)
    with contextlib.suppress(PermissionError, ProcessLookupError):  # the copy did it, or is gone already
        os.setpgid(pid, pid)
    return Process(pid, job.logs)


def _run_copy(job: Job, disturbance: Disturbance, *, count: bool) -> None:
    """Run the job and end the process. Never returns."""
    code = CRASHED
    try:
        import faulthandler

        with contextlib.suppress(PermissionError):
            os.setpgid(0, 0)
        end_with_parent()
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for number, name in ((1, "out"), (2, "err")):
            os.dup2(os.open(job.logs / name, os.O_WRONLY | os.O_CREAT | os.O_TRUNC), number)
        sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
        report = os.open(job.logs / "report", os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND)
        faulthandler.register(signal.SIGUSR1, sys.stderr)
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        os.chdir(job.folder)
        os.environ.update(job.environment)
        job.prepare()
        points = WritePoints(str(job.folder), disturbance, report)
        if count:
            points.install()
        code = job.run()
        points.end()
    except BaseException:  # noqa: BLE001 - a traceback is what the parent looks for
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code)


def end_with_parent() -> None:
    """Let the system kill this process when its parent ends, however that happens."""
    ctypes.CDLL(None).prctl(1, signal.SIGKILL)  # PR_SET_PDEATHSIG


def warm_up(jobs: list[Job]) -> None:
    """Import what the jobs import. They run in copies, and tell the names of their modules."""
    known = set(sys.modules)
    names: dict[str, None] = {}
    for job in jobs:
        path = job.logs / "modules"

        def run(job: Job = job, path: Path = path) -> int:
            code = job.run()
            path.write_text(json.dumps([name for name in sys.modules if name not in known]))
            return code

        ended = start(job._replace(run=run), count=False).end()
        assert path.is_file(), ended.text
        names |= dict.fromkeys(json.loads(path.read_text()))
    for name in names:
        with contextlib.suppress(ImportError):  # a module of the data files, or one made at run time
            __import__(name)
