"""`make soak`: one run through Ray on three nodes of this machine, while nodes are removed and added.

    python -m benchmarks.soak [--cases 1000000] [--write]

The nodes are processes with logical resources. Twenty times a node is lost, as by a power cut, and a new one is added.
The run must end with exactly one end for each case, no request may come twice to the endpoint, and the driver's memory
must not grow with the cases.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from benchmarks import tasks
from benchmarks.figures import Figure, failed, plain_table
from benchmarks.measure import REPOSITORY, Server, environment, server

NODES = 3
# One CPU for each worker. They are logical, so that all nodes fit on one machine.
NODE_CPUS = 1
_CASES_PER_CHANGE = 50_000
# The index takes 31 bytes a case, its growing arrays leave holes, and the report has 8 bytes a case for the score.
# Python's allocator keeps some of what it had.
_MORE_MEMORY = 75.0
_POLL_SECONDS = 0.5
_STUCK_SECONDS = 4 * 3600


class Line(msgspec.Struct):
    """What a line of records.jsonl says of its case. It has `end` if it is the last one."""

    index: int = -1
    end: msgspec.Raw = msgspec.Raw()


class Watched:
    """The driver's process: its memory, and how far the run is."""

    def __init__(self, process: subprocess.Popen[bytes], output: Path, cases: int) -> None:
        self._process = process
        self._output = output
        self._cases = cases
        self.memory: list[tuple[float, float]] = []
        """The share of the cases that have ended, and the driver's megabytes."""

    @property
    def runs(self) -> bool:
        """Whether it has not ended."""
        return _runs(self._process.pid)

    def share(self) -> float:
        """Return about how many of the cases have ended, and note the memory. All lines are about equally long."""
        found = list(self._output.glob("assay/[!.]*/records.jsonl"))
        size = found[0].stat().st_size if found else 0
        if not size:
            return 0.0
        with found[0].open("rb") as file:
            lines = file.read(1 << 16).count(b"\n")
        share = min(1.0, size / (min(size, 1 << 16) / max(1, lines)) / self._cases)
        self.memory.append((share, _resident_megabytes(self._process.pid)))
        return share


def soak(folder: Path, cases: int, endpoint: Server) -> Iterator[Figure]:
    """Run `cases` cases on a cluster that changes all the time."""
    from ray.cluster_utils import Cluster

    data = tasks.questions(folder / "cases.jsonl", range(cases))
    task = tasks.task(folder / "cases.yaml", data)
    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    nodes = [cluster.add_node(num_cpus=NODE_CPUS) for _ in range(NODES)]
    cluster.wait_for_nodes()
    output, log = folder / "out", folder / "log"
    options = ["--model", "openai/fake", "--base-url", endpoint.url, "--concurrency", "256"]
    executor = ["--executor", "ray", "--address", cluster.address, "--workers", str(NODES)]
    endpoint.reset()
    began = time.perf_counter()
    with log.open("wb") as file:
        command = [
            sys.executable,
            "-m",
            "assay",
            "task",
            str(task),
            *options,
            *executor,
            "--output-path",
            str(output),
        ]
        process = subprocess.Popen(command, env=environment(uvloop=True), stdout=file, stderr=subprocess.STDOUT)
    watched = Watched(process, output, cases)
    lost, changes = 0, max(2, cases // _CASES_PER_CHANGE)
    try:
        while watched.runs and time.perf_counter() - began < _STUCK_SECONDS:
            time.sleep(_POLL_SECONDS)
            share = watched.share()
            if share > (lost + 1) / (changes + 1) and lost < changes:
                cluster.remove_node(nodes.pop(0), allow_graceful=False)
                nodes.append(cluster.add_node(num_cpus=NODE_CPUS))
                lost += 1
                print(f"{share:.0%} of {cases:,} cases, {lost} nodes lost and replaced", flush=True)
        if _runs(process.pid):
            process.kill()
        code, usage = _ended(process)
    finally:
        cluster.shutdown()
    seconds = time.perf_counter() - began
    if code != 0:
        raise SystemExit(f"exit code {code}:\n{log.read_text(errors='replace')[-2000:]}")
    yield from _counted(output, cases, endpoint)
    yield Figure("nodes lost and replaced while it ran", lost, float(changes), exact=True)
    yield from _memory(watched.memory)
    note = f"{usage:.0f} s of the driver; {seconds / 60:.1f} minutes on {os.cpu_count()} cores, all nodes included"
    yield Figure("driver's CPU a case", usage / cases * 1e6, 2_000.0, "us", note)


def _ended(process: subprocess.Popen[bytes]) -> tuple[int, float]:
    """Return the exit code and the CPU seconds of the driver. The nodes are children of this process too."""
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    return process.returncode, usage.ru_utime + usage.ru_stime


def _counted(output: Path, cases: int, endpoint: Server) -> Iterator[Figure]:
    """One end for each case, and one request."""
    ends = bytearray(cases)
    (records,) = output.glob("assay/[!.]*/records.jsonl")
    decode = msgspec.json.Decoder(Line).decode
    with records.open("rb") as file:
        for raw in file:
            line = decode(raw)
            if line.end:
                ends[line.index] = min(255, ends[line.index] + 1)
    yield Figure("cases with exactly one end", ends.count(1), float(cases), exact=True)
    stats: dict[str, Any] = endpoint.stats()
    yield Figure("requests at the endpoint", float(stats["asked"]), float(cases), exact=True)
    (accuracy,) = tasks.accuracies(output)
    yield Figure("accuracy", accuracy, tasks.ACCURACY, exact=True)


def _memory(memory: list[tuple[float, float]]) -> Iterator[Figure]:
    """How much the driver's memory grows from a tenth of the cases to the end of the last one."""
    early = max((used for share, used in memory if 0.05 <= share <= 0.1), default=memory[0][1])
    late = max(used for share, used in memory if share >= 0.9)
    note = f"{early:.0f} MB with a tenth of the cases, {late:.0f} MB with all"
    yield Figure("more memory of the driver at the end", late - early, _MORE_MEMORY, "MB", note)


def _runs(pid: int) -> bool:
    """Whether a child has not ended. It is not waited for yet, so that its CPU time can be asked afterwards."""
    return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None


def _resident_megabytes(pid: int) -> float:
    try:
        fields = Path(f"/proc/{pid}/statm").read_text().split()
    except OSError:
        return 0.0
    return int(fields[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6 if len(fields) > 1 else 0.0


def main() -> None:
    """Run it and print the figures. The exit code is 1 if one is not reached."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cases", type=int, default=1_000_000)
    given = parser.parse_args()
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}
    os.chdir(REPOSITORY)
    with tempfile.TemporaryDirectory() as folder, server() as endpoint:
        figures = list(soak(Path(folder), given.cases, endpoint))
    print(plain_table(figures, judged=True))
    sys.exit(bool(failed(figures, judged=True)))


if __name__ == "__main__":
    main()
