"""Plays scenarios: `make chaos`, `make chaos SEED=17`, `make chaos CHAOS_SCENARIOS=500`.

    python -m chaos --scenarios 10000    # seeds 0 to 9,999, on all cores
    python -m chaos 17 18                # these seeds, with all that happened

A failing seed is printed with the command that plays it again. The exit code is 1 if a scenario failed.
"""

from __future__ import annotations

import argparse
import os
import selectors
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from chaos.configuration import CONFIGURATIONS
from chaos.process import end_with_parent
from chaos.scenario import TABLES, Result, Scenario
from chaos.stage import Executor, Lab

# Failures after which the rest is not worth the time.
_MAX_FAILURES = 50
_PROGRESS_SECONDS = 10.0


def main() -> int:
    """Play the scenarios that the command line names."""
    parser = argparse.ArgumentParser(prog="python -m chaos", description=__doc__)
    parser.add_argument("seeds", nargs="*", type=int, help="seeds to play, with all that happened")
    parser.add_argument("--scenarios", type=int, default=10_000, help="how many seeds to play, from 0 on")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--workers", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--executor", choices=list(TABLES), default="local", help="where the cases run")
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the workers, and removes their folders
    # One cluster for all: it has processes enough for every core.
    workers = 1 if given.executor == "ray" else given.workers
    target = "chaos-ray" if given.executor == "ray" else "chaos"
    seeds: Sequence[int] = given.seeds or range(given.first, given.first + given.scenarios)
    table = Table(len(seeds), list(TABLES[given.executor]))
    for result in _played(seeds, min(workers, len(seeds)), given.executor):
        table.add(result)
        if given.seeds:
            say(result.what)
        if result.failure:
            say(f"FAILED {result.what}\n  {result.failure}\n  replay: make {target} SEED={result.seed}\n")
        if table.failures >= _MAX_FAILURES:
            say(f"stopped after {table.failures} failures")
            break
    say(str(table))
    return 1 if table.failures or table.count < len(seeds) else 0


def say(text: str) -> None:
    """Print a line at once."""
    sys.stdout.write(text + "\n")
    sys.stdout.flush()


def _played(seeds: Sequence[int], workers: int, executor: Executor) -> Iterator[Result]:
    """Play the seeds in several processes, each with an endpoint of its own. Yields results as they come."""
    base = Path("/dev/shm") if os.access("/dev/shm", os.W_OK) else None
    root = Path(tempfile.mkdtemp(prefix="assay-chaos-", dir=base))
    pids, streams = [], selectors.DefaultSelector()
    try:
        for worker in range(workers):
            read, write = os.pipe()
            if (pid := os.fork()) == 0:
                os.close(read)
                _work(seeds[worker::workers], root / f"worker-{worker}", write, executor)
            os.close(write)
            pids.append(pid)
            streams.register(os.fdopen(read, "rb"), selectors.EVENT_READ)
        while streams.get_map():
            for key, _ in streams.select():
                line = key.fileobj.readline()  # type: ignore[union-attr]
                if line:
                    yield msgspec.json.decode(line, type=Result)
                else:
                    streams.unregister(key.fileobj)
    finally:
        for pid in pids:
            with suppress(ProcessLookupError):
                os.kill(pid, 15)
            os.waitpid(pid, 0)
        shutil.rmtree(root, ignore_errors=True)


def _work(seeds: Sequence[int], root: Path, pipe: int, executor: Executor) -> None:
    """Play seeds in this process, and write the results to a pipe. Never returns."""
    code = 1
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    end_with_parent()
    try:
        with Lab(root, executor) as lab:
            for seed in seeds:
                result = Scenario.of(seed, executor).play(lab)
                os.write(pipe, msgspec.json.encode(result) + b"\n")
        code = 0
    except BaseException:  # noqa: BLE001 - shown here, because the parent sees only that the results end
        import traceback

        traceback.print_exc()
    finally:
        os._exit(code)


class Table:
    """Counts scenarios by fault and suite, and shows progress."""

    def __init__(self, total: int, faults: Sequence[str]) -> None:
        self._total = total
        self._faults = faults
        self.count = self.failures = 0
        self._cells: Counter[tuple[str, str]] = Counter()
        self._failed: Counter[str] = Counter()
        self._cpu = self._seconds = 0.0
        self._started = self._shown = time.monotonic()

    def add(self, result: Result) -> None:
        """Count a scenario: in the line of its first fault."""
        self.count += 1
        self._cells[result.faults[0], result.suite] += 1
        self._cpu += result.cpu
        if result.failure:
            self.failures += 1
            self._failed[result.faults[0]] += 1
        if time.monotonic() - self._shown > _PROGRESS_SECONDS:
            self._shown = time.monotonic()
            passed = self._shown - self._started
            left = passed / self.count * (self._total - self.count)
            say(f"{self.count:,} of {self._total:,} scenarios, {self.failures} failed, {left / 60:.0f} minutes left")

    def __str__(self) -> str:
        suites = list(CONFIGURATIONS)
        lines = [f"{'first fault':18}" + "".join(f"{suite:>13}" for suite in suites) + f"{'failed':>9}"]
        for fault in self._faults:
            row = "".join(f"{self._cells[fault, suite]:13,}" for suite in suites)
            lines.append(f"{fault:18}{row}{self._failed[fault]:9,}")
        passed = time.monotonic() - self._started
        mean = self._cpu / max(1, self.count)
        lines.append(
            f"{self.count:,} scenarios, {self.failures} failed; {passed:.0f} s, {mean:.2f} s of CPU for each "
            "(without the endpoint)"
        )
        return "\n".join(lines)


if __name__ == "__main__":
    sys.exit(main())
