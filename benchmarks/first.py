"""From the start of `assay task` to its first request, against the bare script.

The endpoint is a socket of this process. When the first byte of a request arrives, the child is killed, and the kernel
says how much CPU it has used. Seconds by the clock depend on what else the machine does; they are a note.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from benchmarks import overhead
from benchmarks.figures import Figure
from benchmarks.measure import environment, hide_uvloop

# A child without a request after so many seconds has failed.
_LONGEST_SECONDS = 60.0


class Start(NamedTuple):
    """What a process used until its first request."""

    cpu: float
    wall: float


def first(folder: Path, questions: int, turns: int) -> Iterator[Figure]:
    """CPU until the first request, without and with uvloop: the best of some turns, taken alternately."""
    work = overhead.one_each(folder, questions)
    blocker = hide_uvloop(folder)
    for uvloop in (False, True):
        env = environment(uvloop=uvloop, blocker=blocker)
        bare, ours = [], []
        # Both once without measuring: Python writes its compiled files.
        for turn in range(4 * turns + 1):
            bare_turn = _start(folder, env, Path(__file__).with_name("bare.py"), work.lines)
            our_turn = _start(folder, env, "assay", work.task)
            if turn:
                bare.append(bare_turn)
                ours.append(our_turn)
        cpu, bare_cpu = min(turn.cpu for turn in ours), min(turn.cpu for turn in bare)
        wall, bare_wall = min(turn.wall for turn in ours), min(turn.wall for turn in bare)
        note = f"{cpu:.3f} s / {bare_cpu:.3f} s; by the clock {wall:.2f} s / {bare_wall:.2f} s"
        loop = "uvloop" if uvloop else "asyncio"
        yield Figure(f"CPU until the first request, {loop}", cpu / bare_cpu, 1.0, "x", note)


def _start(folder: Path, env: dict[str, str], program: Path | str, data: Path) -> Start:
    output = folder / "first"
    shutil.rmtree(output, ignore_errors=True)
    output.mkdir()
    with socket.create_server(("127.0.0.1", 0), backlog=overhead.CONCURRENCY) as server:
        server.settimeout(_LONGEST_SECONDS)
        url = f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        if program == "assay":
            command = ["-m", "assay", "task", data, "--model", "openai/fake", "--base-url", url]
            command += ["--concurrency", overhead.CONCURRENCY, "--output-path", output]
        else:
            command = [program, data, overhead.CONCURRENCY, output / "bare.jsonl", url]
        began = time.perf_counter()
        with (output / "log").open("w", encoding="utf-8") as log:
            child = subprocess.Popen(
                [sys.executable, *map(str, command)], env=env, stdout=log, stderr=subprocess.STDOUT
            )
        try:
            connection, _ = server.accept()
            connection.settimeout(_LONGEST_SECONDS)
            received = connection.recv(1)
            wall = time.perf_counter() - began
        except TimeoutError:
            received, wall = b"", 0.0
        finally:
            child.kill()
            _, status, usage = os.wait4(child.pid, 0)
            child.returncode = os.waitstatus_to_exitcode(status)
        if not received:
            raise SystemExit((output / "log").read_text(encoding="utf-8"))
    return Start(usage.ru_utime + usage.ru_stime, wall)
