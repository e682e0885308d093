"""Finds runs on disk and says how they stand."""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from assay.core.errors import InputError, UsageError
from assay.journal.folder import HOME, RunInfo, Summary, read_info, read_summary
from assay.journal.index import Index

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
        """The first number of each entry, such as `gsm8k exact_match 0.61`."""
        if self.summary is None:
            return ""
        parts = []
        for entry in self.summary.report.entries if self.summary.report else ():
            if entry.metrics and entry.metrics[0].value is not None:
                first = entry.metrics[0]
                named = ",".join(filter(None, (first.name, first.filter)))
                parts.append(f"{entry.name} {named} {first.value:.4f}")
        for name, found in self.summary.results.items():
            best = found["metrics"][0] if found.get("metrics") else None
            if best and best["value"] is not None:
                named = ",".join(filter(None, (best["metric"], best["filter"])))
                parts.append(f"{name} {named} {best['value']:.4f}")
        return "; ".join(parts)


def run_folders(root: Path) -> Iterator[Path]:
    """Run folders at or below a folder, oldest name first. Only `assay/*/run.json` counts."""
    if (root / "run.json").is_file():
        yield root
        return
    patterns = ["*/run.json"] if root.name == HOME else []
    patterns += [f"{'*/' * depth}{HOME}/*/run.json" for depth in range(_DEPTH)]
    yield from sorted(
        {path.parent for pattern in patterns for path in root.glob(pattern)}, key=lambda p: p.name
    )


def find_run(name: str, other_than: str = "") -> Path:
    """A run folder, an output folder with one run (of another ask), or the beginning of a run's name."""
    path = Path(name)
    if path.is_dir():
        found = [
            folder for folder in run_folders(path) if not other_than or not folder.name.endswith(other_than)
        ]
        if len(found) == 1:
            return found[0]
        if not found:
            raise UsageError(f"there is no run in {name!r}")
        raise UsageError(f"{name!r} holds {len(found)} runs; name one of them:\n" + _listed(found))
    found = [folder for folder in run_folders(Path()) if folder.name.startswith(name)]
    if len(found) == 1:
        return found[0]
    if not found:
        raise UsageError(f"there is no run {name!r}; `assay runs` lists them")
    raise UsageError(f"{name!r} could be {len(found)} runs:\n" + _listed(found))


def _listed(found: list[Path]) -> str:
    return "\n".join(f"  {folder}" for folder in found[:20])


def states(root: Path) -> Iterator[RunState]:
    """Every readable run below a folder; one that cannot be read does not hide the others."""
    for folder in run_folders(root):
        try:
            yield state_of(folder)
        except (InputError, UsageError):
            continue


def state_of(folder: Path) -> RunState:
    """How a run stands: running, finished, incomplete, stopped, or unfinished after a crash."""
    info, summary = read_info(folder), read_summary(folder)
    if _locked(folder):
        return RunState(folder, info, summary, "running", _done(folder))
    if summary is None:
        return RunState(folder, info, None, "unfinished", _done(folder))
    return RunState(
        folder, info, summary, summary.state, summary.ok + summary.subject_error + summary.infra_error
    )


def _done(folder: Path) -> int:
    index = Index([])
    index.scan(folder / "records.jsonl")
    codes = index.ask.codes
    return len(codes) - codes.count(0)


def _locked(folder: Path) -> bool:
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
