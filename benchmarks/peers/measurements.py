"""Measures one program: speed, a kill and a second start, faults."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import NamedTuple

from msgspec.structs import replace

from benchmarks import tasks
from benchmarks.peers import process_tree
from benchmarks.peers.endpoint import Behaviour, Endpoint
from benchmarks.peers.peer import Command, Outcome, Peer, Work
from benchmarks.peers.results import Fault, Kill, Speed


class Used(NamedTuple):
    """What process_tree.py reports."""

    started: float
    wall: float
    cpu: float
    memory: float
    code: int
    reason: str


class Bench:
    """The endpoint, a scratch folder, and the time that each program has."""

    def __init__(self, folder: Path, endpoint: Endpoint, seconds: float) -> None:
        self.folder = folder
        self.endpoint = endpoint
        self._left: dict[str, float] = {}
        self._seconds = seconds
        self._works = 0

    def limit(self, peer: Peer, longest: int) -> int:
        """Seconds that the next run of a program may take; 0 if its time is used up."""
        return max(0, min(longest, int(self._left.get(peer.name, self._seconds))))

    def work(self, peer: Peer, count: int, at_once: int, *, killed: bool = False) -> Work:
        """A fresh folder with the questions."""
        self._works += 1
        folder = self.folder / f"{peer.name}-{self._works}"
        folder.mkdir()
        data = tasks.questions(folder / "questions.jsonl", range(count))
        return Work(data, count, at_once, self.endpoint.url, folder, killed)

    def run(self, peer: Peer, work: Work, command: Command, limit: int, *, kill_at: int = 0) -> Used:
        """Run a command to its end, to the limit, or until the endpoint was asked `kill_at` times.

        The program has the last core to itself; the endpoint runs on the first.
        """
        report, log = work.folder / "used.json", work.folder / "log.txt"
        cores = sorted(os.sched_getaffinity(0))
        tree = [sys.executable, process_tree.__file__, str(report), str(limit), str(cores[-1])]
        env = peer.environment(work) | command.variables
        began = time.monotonic()
        with log.open("ab") as file:
            child = subprocess.Popen([*tree, *command.arguments], env=env, cwd=work.folder, stdout=file, stderr=file)
        try:
            while kill_at and child.poll() is None:
                if self.endpoint.stats().asked >= kill_at:
                    child.send_signal(signal.SIGTERM)
                    break
                time.sleep(0.01)
            child.wait()
        finally:
            if child.poll() is None:
                child.terminate()
                child.wait()
            spent = time.monotonic() - began
            self._left[peer.name] = self._left.get(peer.name, self._seconds) - spent
        return Used(**json.loads(report.read_text(encoding="utf-8")))

    def clear(self, work: Work) -> None:
        """Delete what a run wrote, unless BENCH_PEERS_KEEP says otherwise."""
        if not os.environ.get("BENCH_PEERS_KEEP"):
            shutil.rmtree(work.folder, ignore_errors=True)


def measure_speed(
    bench: Bench, peer: Peer, count: int, latency: float, at_once: int, longest: int
) -> tuple[Speed, Work | None]:
    """Run the work once. The folder of a run that ended stays, for the viewer."""
    speed = Speed(peer=peer.name, count=count, latency=latency, at_once=at_once, end="skipped")
    if not (limit := bench.limit(peer, longest)):
        return speed, None
    work = bench.work(peer, count, at_once)
    bench.endpoint.behave(Behaviour(latency))
    used = bench.run(peer, work, peer.start(work), limit)
    stats = bench.endpoint.stats()
    outcome = read_outcome(peer, work)
    speed = replace(
        speed,
        end=used.reason,
        code=used.code,
        wall=used.wall,
        cpu=used.cpu,
        memory=used.memory,
        log=sum(map(size, peer.log(work))),
        first=stats.first - used.started if stats.first else None,
        asked=stats.asked,
        samples=outcome.samples,
        accuracy=outcome.accuracy,
    )
    return speed, work


def measure_kill(bench: Bench, peer: Peer, count: int, latency: float, at_once: int, longest: int) -> Kill:
    """Kill a run when half of the questions were asked, continue it, and count what is asked again."""
    kill = Kill(peer=peer.name, count=count, at_once=at_once, end="skipped")
    if not (limit := bench.limit(peer, longest)):
        return kill
    work = bench.work(peer, count, at_once, killed=True)
    bench.endpoint.behave(Behaviour(latency))
    first = bench.run(peer, work, peer.start(work), limit, kill_at=count // 2)
    if first.reason != "killed":
        return replace(kill, end=f"{first.reason} before the kill")
    bench.endpoint.mark()
    answered = bench.endpoint.stats().answered
    try:
        commands = peer.proceed(work)
    except ValueError as error:  # such as a log that does not exist yet
        return replace(kill, end=f"cannot continue: {error}", answered=answered)
    if not commands:
        return replace(kill, end="cannot", answered=answered)
    for command in commands:
        used = bench.run(peer, work, command, limit)
    outcome = read_outcome(peer, work)
    bench.clear(work)
    return replace(
        kill,
        end=used.reason,
        answered=answered,
        again=bench.endpoint.stats().again,
        code=used.code,
        samples=outcome.samples,
        accuracy=outcome.accuracy,
    )


def measure_faults(
    bench: Bench, peer: Peer, kind: str, count: int, at_once: int, longest: int, usual_code: int | None
) -> Fault:
    """Run the work against an endpoint with faults."""
    fault = Fault(peer=peer.name, kind=kind, count=count, usual_code=usual_code, end="skipped")
    if not (limit := bench.limit(peer, longest)):
        return fault
    work = bench.work(peer, count, at_once)
    bench.endpoint.behave(Behaviour(0.0, kind))
    used = bench.run(peer, work, peer.start(work), limit)
    stats = bench.endpoint.stats()
    outcome = read_outcome(peer, work)
    bench.clear(work)
    return replace(
        fault,
        end=used.reason,
        faults=stats.faults,
        asked=stats.asked,
        code=used.code,
        samples=outcome.samples,
        errors=outcome.errors,
        accuracy=outcome.accuracy,
        wall=used.wall,
    )


def read_outcome(peer: Peer, work: Work) -> Outcome:
    """The program's own result; nothing if it left no file that can be read."""
    try:
        return peer.outcome(work)
    except (OSError, ValueError, KeyError, IndexError, TypeError, subprocess.CalledProcessError) as error:
        print(f"  {peer.name}: no result: {error!r}", flush=True)
        return Outcome(0, 0, None)


def size(path: Path) -> int:
    """Bytes of a file, or of all files below a folder."""
    if path.is_dir():
        return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())
    return path.stat().st_size if path.exists() else 0
