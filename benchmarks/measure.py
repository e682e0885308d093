"""Starts processes one after the other on a core of their own, and says what each used."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
import time
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterator

REPOSITORY = Path(__file__).resolve().parent.parent
# A million cases on a busy machine take half of this.
LONGEST_SECONDS = 3600.0
_KEPT = ("PATH", "HOME", "LANG", "LC_ALL", "TMPDIR")


class Used(NamedTuple):
    """What one process used: CPU seconds, peak megabytes, and when it began."""

    cpu: float
    rss: float
    started: float
    code: int
    output: str


def environment(*, uvloop: bool, blocker: Path | None = None, **extra: str) -> dict[str, str]:
    """A clean environment with this repository's code. `blocker` is a folder that hides uvloop."""
    path = [REPOSITORY / "src"] if uvloop or blocker is None else [blocker, REPOSITORY / "src"]
    kept = {name: os.environ[name] for name in _KEPT if name in os.environ}
    return kept | {"PYTHONPATH": os.pathsep.join(map(str, path)), "OPENAI_API_KEY": "bench-key"} | extra


def hide_uvloop(folder: Path) -> Path:
    """A folder which makes `import uvloop` fail, as where it is not installed."""
    blocker = folder / "without_uvloop"
    blocker.mkdir()
    (blocker / "uvloop.py").write_text("raise ImportError\n", encoding="utf-8")
    return blocker


def python(*arguments: object, env: dict[str, str], log: Path, interpreter: str = sys.executable) -> Used:
    """Run one Python process to its end; output goes to a file, so it is no terminal."""
    started = time.time()
    with log.open("w", encoding="utf-8") as file:
        command = [interpreter, *map(str, arguments)]
        child = subprocess.Popen(command, env=env, stdout=file, stderr=subprocess.STDOUT)
    limit = threading.Timer(LONGEST_SECONDS, child.kill)
    limit.start()
    try:
        _, status, usage = os.wait4(child.pid, 0)
    except BaseException:
        child.kill()
        raise
    finally:
        limit.cancel()
    child.returncode = os.waitstatus_to_exitcode(status)
    # Linux counts ru_maxrss in KiB. It starts at the parent's own peak, so this process must stay small.
    return Used(
        cpu=usage.ru_utime + usage.ru_stime,
        rss=usage.ru_maxrss * 1024 / 1e6,
        started=started,
        code=child.returncode,
        output=log.read_text(encoding="utf-8", errors="replace"),
    )


class EndpointProcess:
    """An endpoint in a process of its own, seen from the program that measures."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}/v1"
        self._control = f"http://127.0.0.1:{port}/__"

    def call(self, name: str, data: bytes | None) -> Any:
        """Ask or tell the endpoint itself: `GET /__stats`, or `POST /__reset` with data."""
        with urllib.request.urlopen(self._control + name, data, timeout=20) as reply:
            return json.load(reply)


class Server(EndpointProcess):
    """The endpoint, in a process and on a core that no figure counts."""

    def reset(self) -> None:
        """Forget what was asked."""
        self.call("reset", b"{}")

    def stats(self) -> dict[str, Any]:
        """How much was asked, and when the first request came."""
        found: dict[str, Any] = self.call("stats", None)
        return found


@contextmanager
def endpoint_port(module: str, *arguments: object) -> Iterator[int]:
    """Start a module that prints its port, and yield the port. Its standard input ends with this block or process."""
    command = [sys.executable, "-m", module, *map(str, arguments)]
    pipe = subprocess.PIPE
    child = subprocess.Popen(command, cwd=REPOSITORY, stdin=pipe, stdout=pipe, text=True)
    try:
        assert child.stdout is not None
        yield int(child.stdout.readline())
    finally:
        child.communicate(timeout=30)


@contextmanager
def server() -> Iterator[Server]:
    """Start the endpoint on the first core; it ends with this block, or with this process."""
    with endpoint_port("benchmarks.server", "--cpu", min(os.sched_getaffinity(0))) as port:
        yield Server(port)


@contextmanager
def own_core() -> Iterator[None]:
    """Everything started within this runs on the last core, away from the endpoint."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {max(before)})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
