"""Reading a run of a million cases: its index, a page of rows, one case, a search; and comparing two such runs."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.figures import Figure
from benchmarks.measure import Used, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

_RUNS = 1000
# Prints the CPU seconds of each part. Texts are read at random places, as a person jumps about in a table.
_READ = """
import sys, time
from pathlib import Path
from assay.store.cases import RunCases
from assay.store.row_table import RowTable
from assay.store.search import search

folder = Path(sys.argv[1])
now = time.process_time
begin = now()
table = RowTable(folder)
print("reopen", now() - begin)
positions = table.sort(table.select(failed=True), "input", descending=True)
table.read(positions[:50])
pages = min(20, len(positions) // 50 - 1)
begin = now()
for page in range(1, pages + 1):
    table.read(positions[50 * page : 50 * page + 50])
print("page", (now() - begin) / pages * 1000)
cases = RunCases(folder)
cases.calls(0)
begin = now()
for number in range(1, 21):
    index = len(table) * number // 21
    assert cases.case(index) is not None and cases.calls(index)
print("case", (now() - begin) / 20 * 1000)
begin = now()
assert not list(search(folder, "zyzzyva"))
print("search", now() - begin)
"""
_BUILD = """
import sys
from pathlib import Path
from assay.journal.columns import RunColumns

assert len(RunColumns.open(Path(sys.argv[1]), "filters").keys) == int(sys.argv[2])
"""


def store(folder: Path, count: int) -> Iterator[Figure]:
    """Two runs of `count` cases, written without running them, and read as people read them."""
    runs = []
    for seed in (1, 2):
        written = _python(
            folder, "-m", "benchmarks.journal_run", folder / f"run{seed}", "--cases", count, "--seed", seed
        )
        runs.append(Path(written.output.strip()))
    empty = _python(folder, "-c", "import numpy, assay.journal.columns")
    built = _python(folder, "-c", _BUILD, runs[0], count)
    yield Figure(f"CPU to build the index of {count:,} cases", built.cpu - empty.cpu, 20.0, "s")
    yield Figure("peak memory while building", built.rss, 150.0, "MB", f"{empty.rss:.0f} MB before")
    read = _python(folder, "-c", _READ, runs[0]).output.split()
    parts = dict(zip(read[::2], map(float, read[1::2]), strict=True))
    yield Figure("CPU to open it again", parts["reopen"], 0.5, "s")
    yield Figure("CPU of a page of 50 rows with texts", parts["page"], 5.0, "ms")
    yield Figure("CPU of one case with its calls", parts["case"], 2.0, "ms")
    yield Figure("CPU to find out that a word is nowhere", parts["search"], 2.0, "s")
    first = _python(folder, "-m", "assay", "compare", *runs)
    second = _python(folder, "-m", "assay", "compare", *runs)
    note = f"{first.cpu:.1f} s the first time, when one of the two has no index yet"
    yield Figure("CPU of assay compare of two such runs", second.cpu, 5.0, "s", note)
    yield from _listed(folder)


def _listed(folder: Path) -> Iterator[Figure]:
    """`assay runs` over many small runs."""
    written = _python(folder, "-m", "benchmarks.journal_run", folder / "many", "--cases", 3)
    first = Path(written.output.strip())
    for number in range(2, _RUNS + 1):  # the first is number 1: its seed
        shutil.copytree(first, first.with_name(f"{first.name[:-4]}{number:04d}"))
    listed = _python(folder, "-m", "assay", "runs", folder / "many")
    yield Figure(f"CPU of assay runs over {_RUNS:,} runs", listed.cpu, 1.0, "s")


def _python(folder: Path, *arguments: object) -> Used:
    used = python(*arguments, env=environment(uvloop=True), log=folder / "log")
    if used.code:
        raise SystemExit(f"exit code {used.code}:\n{used.output}")
    return used
