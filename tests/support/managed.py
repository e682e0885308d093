"""Programs on PATH that stand in for model servers, and what became of their processes."""

from __future__ import annotations

import json
import os
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

SERVERS = Path(__file__).parents[1] / "servers"
STAND_IN = SERVERS / "stand_in.py"
LLAMA_HTTP = SERVERS / "llama_http.py"
# A condition that is not true after this long will not become true. Nothing waits this long in a good run.
PATIENCE = 60.0


class StandInPrograms:
    """A folder with `vllm`, `sglang` and `llama-server`, which are all `stand_in.py`, and what they recorded."""

    def __init__(self, folder: Path) -> None:
        self.bin = folder / "bin"
        self.records = folder / "records"
        for each in (self.bin, self.records):
            each.mkdir()
        for name in ("vllm", "sglang", "llama-server"):
            write_program(self.bin / name, [sys.executable, "-S", str(STAND_IN), str(self.records)])

    @property
    def serve(self) -> str:
        """The stand-in as a command for --serve."""
        return f"{sys.executable} -S {STAND_IN} {self.records} --model {{model}} --port {{port}}"

    def behave(self, words: str) -> None:
        """Say what the next start does."""
        (self.records / "behaviour").write_text(words)

    def starts(self) -> list[dict[str, Any]]:
        """Arguments, environment and process of each start, in order."""
        files = sorted(self.records.glob("start-*.json"), key=lambda file: int(file.stem.partition("-")[2]))
        return [json.loads(file.read_text()) for file in files]

    def requests(self) -> list[dict[str, Any]]:
        """The completions that were asked for, in order of arrival."""
        file = self.records / "requests.jsonl"
        return [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []

    def left_behind(self, name: str) -> int:
        """The process that a start left in a session of its own."""
        return int((self.records / name).read_text())

    def alive(self) -> list[int]:
        """The processes of all starts that still run."""
        pids = [start["pid"] for start in self.starts()]
        pids += [
            int(file.read_text()) for name in ("worker", "helper", "occupant") if (file := self.records / name).exists()
        ]
        return [pid for pid in pids if is_alive(pid)]


def write_program(path: Path, command: list[str]) -> None:
    """Write a program that runs a command with further arguments, in the same process."""
    quoted = " ".join(f"'{word}'" for word in command)
    path.write_text(f'#!/bin/sh\nexec {quoted} "$@"\n')
    path.chmod(path.stat().st_mode | stat.S_IXUSR)


def is_alive(pid: int) -> bool:
    """Whether a process runs. A zombie has ended."""
    if Path("/proc/self/stat").exists():
        try:
            return Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0] not in (b"Z", b"X")
        except OSError:
            return False
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return bool(state.stdout.strip()) and not state.stdout.startswith("Z")


def wait_until(condition: Callable[[], bool]) -> None:
    """Wait for a condition of another process. Fails after PATIENCE."""
    end = time.monotonic() + PATIENCE
    while not condition():
        assert time.monotonic() < end, "the condition did not become true"
        time.sleep(0.02)


def kill(pid: int) -> None:
    """Kill a process that a test started, by kill -9."""
    os.kill(pid, signal.SIGKILL)
