"""The same task with 1,000, 10,000, 100,000 and 1,000,000 cases: ten times the cases cost ten times the CPU.

    python -m benchmarks linear

The cases go to the endpoint of the benchmarks, by HTTP. CPU is counted beyond the start, which is that of a run of five
cases. The runs have no executor; `make soak` measures the memory of a driver on Ray.
"""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

from benchmarks import overhead
from benchmarks.figures import Figure
from benchmarks.measure import Server, environment

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

# The answers to five questions have the accuracy of all.
_FEWEST = 5
# Ten, and a tenth for what differs from minute to minute.
_STEP_CPU = 11.0
# As in `million.py`: 900,000 more cases have 31 bytes of index each.
_STEP_MEMORY = 50.0
# A run of more cases is long enough to be measured once.
_SHORT = 10_000


def linear(folder: Path, endpoint: Server, cases: int, turns: int) -> Iterator[Figure]:
    """A thousandth, a hundredth, a tenth of `cases`, and all of them."""
    start = _best(folder, endpoint, _FEWEST, turns)
    yield Figure("CPU of the start", start.cpu, None, "s", f"{_FEWEST} cases, {start.rss:.1f} MB")
    before = None
    for count in (cases // 1000, cases // 100, cases // 10, cases):
        step = _best(folder, endpoint, count, turns if count <= _SHORT else 1)
        beyond = step.cpu - start.cpu
        note = f"{beyond:.2f} s beyond the start"
        yield Figure(f"{count:,} cases: CPU a case", beyond / count * 1e6, None, "us", note)
        if before is None:
            yield Figure(f"{count:,} cases: peak memory", step.rss, None, "MB")
        else:
            ratio = beyond / (before.cpu - start.cpu)
            yield Figure(f"{count:,} cases: CPU to a tenth", ratio, _STEP_CPU, "x")
            note = f"{step.rss:.1f} MB"
            more = step.rss - before.rss
            yield Figure(f"{count:,} cases: more memory than a tenth", more, _STEP_MEMORY, "MB", note)
        before = step


def _best(folder: Path, endpoint: Server, count: int, turns: int) -> overhead.Turn:
    """Return the turn with the least CPU. Each has asked `count` times and has the right accuracy."""
    work_folder = folder / str(count)
    work_folder.mkdir(exist_ok=True)
    work = overhead.one_each(work_folder, count)
    env = environment(uvloop=True)
    best = min(overhead.assay_turn(work, endpoint, work_folder, env) for _ in range(turns))
    shutil.rmtree(work_folder)  # a million cases take 2 GB
    return best
