"""Small runs in shards, and merges that are killed.

By hand, in a folder with shards/1 and shards/2: `python tests/support/shards.py 1` kills merges into `merged` at every
step, repeats each, and prints how many were killed. With 4 it does so at every fourth step.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import assay
from assay.journal.run_files import usable_summary

from support.damaged_runs import SMALL_RUNS, SmallRun, read_files, same

# A calibration refuses shards.
SHARDABLE = [small for small in SMALL_RUNS if small.suite != "calibration"]
KILLED_MERGES = str(Path(__file__))
# A merge of two small shards has fewer steps. One with so many never ends.
_MAX_STEPS = 500


def small_run(suite: str) -> SmallRun:
    """Return the small run of a suite."""
    return next(small for small in SMALL_RUNS if small.suite == suite)


def make_files(small: SmallRun, folder: Path) -> None:
    """Write the data files of a small run."""
    for name, text in small.files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def make_shards(small: SmallRun, count: int) -> list[str]:
    """Run all shards of a small run in the working folder. Returns their output folders."""
    outputs = [f"shards/{number}" for number in range(1, count + 1)]
    for number, output in enumerate(outputs, 1):
        small.start(output_dir=output, shard=f"{number}/{count}")
    return outputs


def merge_and_die(step: int) -> None:
    """Merge, and kill this process before the step of this number: a file that is opened, renamed or removed."""
    steps = 0
    events = {"open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.link", "os.truncate"}

    def count_step(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in events and "merged" in str(arguments[0]):
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count_step)
    assay.merge(["shards/1", "shards/2"], "merged")


def kill_merges(stride: int) -> int:
    """Kill a merge at every step of this stride, and repeat it, until one ends by itself. Returns the number of kills.

    Raises AssertionError if a run looks finished and is not, or if the repeated merge makes another run.
    """
    expected = read_files(assay.merge(["shards/1", "shards/2"], "merged"))
    for step in range(1, _MAX_STEPS, stride):
        shutil.rmtree("merged")
        child = os.fork()
        if child == 0:
            merge_and_die(step)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return step // stride
        for folder in Path("merged").glob("assay/*-*"):
            summary = usable_summary(folder)
            if summary is not None and summary.state == "finished":
                same(read_files(assay.load(folder)), expected, f"killed at step {step}")
        run = assay.merge(["shards/1", "shards/2"], "merged")
        same(read_files(run), expected, f"repeated after step {step}")
        assert [path.name for path in Path("merged/assay").iterdir()] == [run.folder.name]
    raise AssertionError(f"{_MAX_STEPS} steps do not end a merge")


if __name__ == "__main__":
    print(kill_merges(int(sys.argv[1])))  # noqa: T201 - the test reads it
