"""Finds runs on disk and says how they stand."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import InputError, UsageError
from assay.journal.folder import HOME, RunInfo, Summary, read_info, read_summary
from assay.journal.index import RunIndex

# Folders below the one that is named which may hold output folders. A deeper search would walk whole disks.
_DEPTH = 4


class RunState(NamedTuple):
    """One line of `assay runs`."""

    folder: Path
    info: RunInfo
    summary: Summary | None
    state: str
    done: int

    @property
    def headline(self) -> str:
        """The first number of each entry of the report, such as `gsm8k exact_match 0.61`."""
        if self.summary is None or self.summary.report is None:
            return ""
        numbers = []
        for entry in self.summary.report.entries:
            metric = entry.metrics[0] if entry.metrics else None
            if metric is not None and metric.value is not None:
                name = f"{metric.name},{metric.filter}" if metric.filter else metric.name
                numbers.append(f"{entry.name} {name} {metric.value:.4f}")
        return "; ".join(numbers)


def run_folders(root: Path) -> Iterator[Path]:
    """Run folders at or below a folder, oldest name first. Only `assay/*/run.json` counts."""
    if (root / "run.json").is_file():
        yield root
        return
    patterns = ["*/run.json"] if root.name == HOME else []
    patterns += [f"{'*/' * depth}{HOME}/*/run.json" for depth in range(_DEPTH)]
    folders = {path.parent for pattern in patterns for path in root.glob(pattern)}
    yield from sorted(folders, key=lambda folder: folder.name)


def find_run(name: str, other_than: str = "") -> Path:
    """The run that a name means: a run folder, an output folder with one run, or the beginning of its name.

    Runs in an output folder whose name ends with `other_than` (the fingerprint of an ask) do not count.
    """
    path = Path(name)
    if path.is_dir():
        folders = list(run_folders(path))
        if other_than:
            folders = [folder for folder in folders if not folder.name.endswith(other_than)]
        nothing = f"there is no run in {name!r}"
        several = f"{name!r} holds {len(folders)} runs; name one of them:\n"
    else:
        folders = [folder for folder in run_folders(Path()) if folder.name.startswith(name)]
        nothing = f"there is no run {name!r}; `assay runs` lists them"
        several = f"{name!r} could be {len(folders)} runs:\n"
    if not folders:
        raise UsageError(nothing)
    if len(folders) > 1:
        raise UsageError(several + "\n".join(f"  {folder}" for folder in folders[:20]))
    return folders[0]


def states(root: Path, tell: Callable[[str], object] | None = None) -> Iterator[RunState]:
    """Every run below a folder that can be read. `tell` gets the reason why another one cannot."""
    for folder in run_folders(root):
        try:
            yield state_of(folder)
        except (InputError, UsageError) as error:
            if tell is not None:
                tell(str(error))


def state_of(folder: Path) -> RunState:
    """How a run stands: running, finished, incomplete, stopped, or unfinished after a crash."""
    info, summary = read_info(folder), read_summary(folder)
    if _is_locked(folder):
        state = "running"
    elif summary is None:
        state = "unfinished"
    else:
        done = summary.ok + summary.subject_error + summary.infra_error
        return RunState(folder, info, summary, summary.state, done)
    index = RunIndex([])
    index.scan(folder / "records.jsonl")
    done = len(index.ask.codes) - index.ask.codes.count(0)
    return RunState(folder, info, summary, state, done)


def _is_locked(folder: Path) -> bool:
    """Whether a process works on the run. It holds the lock as long as it lives."""
    try:
        fd = os.open(folder / "lock", os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    finally:
        os.close(fd)
    return False
