"""A million cases: memory that grows by the index alone, time that grows in a line, kills that cost nothing."""

from __future__ import annotations

import hashlib
import shutil
import signal
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import tasks
from benchmarks.figures import Figure
from benchmarks.measure import Used, environment, python

if TYPE_CHECKING:
    from collections.abc import Iterator

_LEFT = 10
# The index takes 31 bytes a case, its growing arrays leave holes, and the report has 8 bytes a case for the metric.
_MORE_MEMORY = 50.0
_MOST_MEMORY = 120.0
# A run that continues loads the arrays whole, without holes, and looks for no equal rows.
_MORE_MEMORY_CONTINUED = 30.0


class Runs:
    """Starts runs of one size and looks at what they leave."""

    def __init__(self, folder: Path, count: int) -> None:
        self.folder = folder
        self.count = count
        data = tasks.questions(folder / f"{count}.jsonl", range(count))
        self._task = tasks.task(folder / f"cases_{count}.yaml", data)
        self._first = folder / "first"

    def start(self, output: str, *, kill: int = 0) -> Used:
        """The same command every time; `kill` is the call at which the process dies."""
        self._first.unlink(missing_ok=True)
        env = environment(uvloop=True, BENCH_FIRST=str(self._first), BENCH_KILL=str(kill))
        model = f"python/{Path(__file__).with_name('model.py')}:answer"
        options = ["--model", model, "--concurrency", 64, "--output-path", self.folder / output]
        used = python("-m", "assay", "task", self._task, *options, env=env, log=self.folder / "log")
        if used.code != (-signal.SIGKILL if kill else 0):
            raise SystemExit(f"exit code {used.code}:\n{used.output}")
        return used

    def asked(self) -> bool:
        """Whether the last start called the model."""
        return self._first.exists()

    def cpu_before_first_call(self) -> float:
        """Of the last start."""
        return float(self._first.read_text(encoding="utf-8"))

    def accuracy(self, output: str) -> float:
        """Of a finished run."""
        (found,) = tasks.accuracies(self.folder / output)
        return found

    def samples(self, output: str) -> str:
        """The digest of a finished run's samples."""
        (path,) = (self.folder / output).glob("*/samples_*.jsonl")
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    def stamps(self, output: str) -> dict[Path, int]:
        """When each file was last changed."""
        return {path: path.stat().st_mtime_ns for path in (self.folder / output).rglob("*")}

    def remove(self, output: str) -> None:
        """Make room."""
        shutil.rmtree(self.folder / output)


def million(folder: Path, count: int) -> Iterator[Figure]:
    """`count` cases against a tenth of them."""
    small, large = Runs(folder, count // 10), Runs(folder, count)
    tenth = small.start("tenth")
    small.remove("tenth")
    whole = large.start("whole")
    yield from _growth(tenth, whole, count)
    yield Figure("accuracy", large.accuracy("whole"), tasks.ACCURACY, exact=True)
    samples = large.samples("whole")
    large.remove("whole")
    yield from _killed(large, tenth, samples)
    yield from _finished(large)
    large.remove("killed")


def _growth(tenth: Used, whole: Used, count: int) -> Iterator[Figure]:
    note = f"{whole.cpu:.1f} s / {tenth.cpu:.1f} s ({whole.cpu / count * 1e6:.0f} us a case)"
    yield Figure(f"CPU, {count:,} cases to a tenth", whole.cpu / tenth.cpu, 11.0, "x", note)
    note = f"{whole.rss:.1f} MB, a tenth {tenth.rss:.1f} MB"
    yield Figure("more memory than a tenth", whole.rss - tenth.rss, _MORE_MEMORY, "MB", note)
    yield Figure("peak memory", whole.rss, _MOST_MEMORY, "MB")


def _killed(runs: Runs, tenth: Used, samples: str) -> Iterator[Figure]:
    """Killed half way, continued, killed shortly before the end, continued."""
    half = runs.count // 2
    runs.start("killed", kill=half)
    second = runs.start("killed", kill=runs.count - half - _LEFT)
    first_call = runs.cpu_before_first_call()
    note = f"killed half way, continued: {second.rss:.1f} MB"
    yield Figure("more memory when continued", second.rss - tenth.rss, _MORE_MEMORY_CONTINUED, "MB", note)
    yield Figure("CPU to first call, half ended", first_call, 3.0, "s")
    last = runs.start("killed")
    note = f"killed shortly before the end, continued: {last.rss:.1f} MB"
    yield Figure("more memory when continued late", last.rss - tenth.rss, _MORE_MEMORY_CONTINUED, "MB", note)
    yield Figure("CPU to first call, all but a few ended", runs.cpu_before_first_call(), 3.0, "s")
    same = float(runs.samples("killed") == samples)
    yield Figure("samples equal to those of the run that was not killed", same, 1.0, exact=True)


def _finished(runs: Runs) -> Iterator[Figure]:
    """The same command once more."""
    before = runs.stamps("killed")
    again = runs.start("killed")
    changed = sum(1 for path, stamp in runs.stamps("killed").items() if before.get(path) != stamp)
    yield Figure("CPU of the finished run's command", again.cpu, 1.0, "s")
    yield Figure("files it changed", changed, 0.0, exact=True)
    yield Figure("model calls it made", float(runs.asked()), 0.0, exact=True)
