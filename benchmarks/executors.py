"""`python -m benchmarks.executors`: what `--executor ray` costs the driver, and what it gains where the work computes.

The cluster has two nodes on this machine and is started before. Costs are differences between two sizes, so that the
start does not count. CPU is that of the driver's process: with `ray` without its workers.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from benchmarks import tasks
from benchmarks.figures import Figure, failed, plain_table
from benchmarks.measure import REPOSITORY, Server, Used, environment, python, server

_COUNTS = (1_000, 10_000)
_COMPUTED = (100, 1_000)
# About 20 ms of pure Python, which holds the interpreter's lock.
_BUSY = """
def answer(prompt, params):
    total = 0
    for number in range(300_000):
        total += number & 3
    return str(total)
"""


class Runs:
    """Starts the same task with one executor or the other."""

    def __init__(self, folder: Path, address: str) -> None:
        self._folder = folder
        self._address = address
        self._number = 0

    def start(self, count: int, model: list[str], *, ray: bool) -> tuple[Used, float]:
        """Return what the driver used, and the seconds on the clock."""
        self._number += 1
        task = self._folder / f"cases_{count}.yaml"
        if not task.exists():
            tasks.task(task, tasks.questions(self._folder / f"{count}.jsonl", range(count)))
        options = [*model, "--concurrency", "64", "--output-path", str(self._folder / f"out{self._number}")]
        if ray:
            options += ["--executor", "ray", "--address", self._address, "--workers", "2"]
        began = time.perf_counter()
        used = python("-m", "assay", "task", task, *options, env=environment(uvloop=True), log=self._folder / "log")
        if used.code != 0:
            raise SystemExit(f"exit code {used.code}:\n{used.output}")
        return used, time.perf_counter() - began


def executors(folder: Path, endpoint: Server, address: str) -> Iterator[Figure]:
    """Compare the two executors."""
    runs = Runs(folder, address)
    asked = ["--model", "openai/fake", "--base-url", endpoint.url]
    used = {(count, ray): runs.start(count, asked, ray=ray)[0] for count in _COUNTS for ray in (False, True)}
    small, large = _COUNTS
    cost = {ray: (used[large, ray].cpu - used[small, ray].cpu) / (large - small) * 1e6 for ray in (False, True)}
    note = f"{cost[True]:.0f} us with ray, {cost[False]:.0f} us here; between {small:,} and {large:,} cases"
    yield Figure("driver's CPU a case that asks once, ray to local", cost[True] / cost[False], 3.0, "x", note)
    start = used[small, True].cpu - used[small, False].cpu
    yield Figure("CPU to start, ray more than local", start, 10.0, "s", "import of Ray, connection, two workers")
    busy = folder / "busy.py"
    busy.write_text(_BUSY, encoding="utf-8")
    model = ["--model", f"python/{busy}:answer"]
    seconds = {(count, ray): runs.start(count, model, ray=ray)[1] for count in _COMPUTED for ray in (False, True)}
    few, many = _COMPUTED
    here, there = ((seconds[many, ray] - seconds[few, ray]) / (many - few) * 1e3 for ray in (False, True))
    note = f"{there:.1f} ms with two workers, {here:.1f} ms in one process; replies of pure Python"
    yield Figure("clock of a reply that computes, ray to local", there / here, 0.7, "x", note)


def main() -> None:
    """Measure and print. The exit code is 1 if a figure is not reached."""
    os.environ |= {"RAY_USAGE_STATS_ENABLED": "0"}
    os.chdir(REPOSITORY)
    from ray.cluster_utils import Cluster

    cluster = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    for _ in range(2):
        cluster.add_node(num_cpus=1)
    cluster.wait_for_nodes()
    try:
        with tempfile.TemporaryDirectory() as folder, server() as endpoint:
            figures = list(executors(Path(folder), endpoint, cluster.address))
    finally:
        cluster.shutdown()
    print(plain_table(figures, judged=True))
    sys.exit(bool(failed(figures, judged=True)))


if __name__ == "__main__":
    main()
