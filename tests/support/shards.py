"""Small runs in shards, and the folders of those shards."""

from __future__ import annotations

from pathlib import Path

from support.damaged_runs import SMALL_RUNS, SmallRun

# A calibration refuses shards.
SHARDABLE = [small for small in SMALL_RUNS if small.suite != "calibration"]


def small_run(suite: str) -> SmallRun:
    """Return the small run of a suite."""
    return next(small for small in SMALL_RUNS if small.suite == suite)


def make_files(small: SmallRun, folder: Path) -> None:
    """Write the data files of a small run."""
    for name, text in small.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
