"""Kills `assay rescore`, and the run's own command after an edit of its metric, at every step that changes a file.

    python -m support.killed_rescores run 10        # every tenth step; prints the number of kills

The working folder gets a small task run. Each kill begins with a copy of it, in a process of its own.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
from pathlib import Path
from typing import Any

import assay
from assay.runner.rescore import rescore
from assay.store.check import check_run
from assay.store.gate import gate

from support.damaged_runs import read_file, read_files, read_report, same
from support.view_runs import task_run

_MAX_STEPS = 5_000
_EVENTS = {"open", "os.rename", "os.mkdir", "os.rmdir", "os.remove", "os.link", "os.truncate", "os.utime"}


def score_again(how: str) -> assay.Run:
    """Score the run again, with the task file of now: by `assay rescore`, or by the run's own command."""
    if how == "rescore":
        return rescore("lab/out")
    model = "python/lab/model.py:answer"
    return assay.run(assay.spec("task", tasks=["lab/numbers.yaml"], model=model, output_dir="lab/out"))


def die_at(step: int) -> None:
    """Kill this process before the step of this number: a file that is opened, renamed or removed."""
    steps = 0

    def count_step(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal steps
        if event in _EVENTS and "lab/out" in str(arguments[0]):
            steps += 1
            if steps == step:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(count_step)


def check_earlier(run: assay.Run, files: dict[str, Any]) -> None:
    """Every kept scoring is a finished one with all of its files, as they were."""
    for scoring in run.earlier:
        assert scoring.summary.state == "finished"
        same([read_file(Path(name)) for name in scoring.summary.files], list(files.values()))


def kill_rescores(how: str, stride: int) -> int:
    """Kill a scoring at every step of this stride, and repeat it, until one ends by itself. Returns the number of kills.

    Raises AssertionError if the run has at any time another result than the earlier scoring or the new one.
    """
    Path("lab").mkdir()
    task_run(Path("lab"))
    before = assay.load("lab/out")
    old = read_report(before), read_files(before)
    edited = Path("lab/numbers.yaml").read_text().replace("([0-9])", "([0-1])")
    shutil.copytree("lab", "begin")
    Path("begin/numbers.yaml").write_text(edited)
    shutil.rmtree("lab")
    shutil.copytree("begin", "lab")
    after = score_again(how)
    new = read_report(after), read_files(after)
    assert new[0] != old[0]
    check_earlier(after, old[1])
    for step in range(1, _MAX_STEPS, stride):
        shutil.rmtree("lab")
        shutil.copytree("begin", "lab")
        child = os.fork()
        if child == 0:
            die_at(step)
            score_again(how)
            os._exit(0)
        if os.waitpid(child, 0)[1] == 0:
            return step // stride
        killed = assay.load("lab/out")
        assert killed.summary.state == "finished", f"killed at step {step}"
        found = read_report(killed), read_files(killed)
        assert found in (old, new), f"killed at step {step}"
        assert gate("lab/out", ["exact_match,first >= 0"]).verdict == "pass"
        problems = [problem for problem in check_run(killed.folder).problems if problem.level == "error"]
        assert problems == [], f"killed at step {step}"
        check_earlier(killed, old[1])
        run = score_again(how)
        same((read_report(run), read_files(run)), new, f"repeated after step {step}")
        assert [scoring.summary.score for scoring in run.earlier] == [before.summary.score]
        check_earlier(run, old[1])
    raise AssertionError(f"{_MAX_STEPS} steps do not end a scoring")


if __name__ == "__main__":
    print(kill_rescores(sys.argv[1], int(sys.argv[2])))  # noqa: T201 - the test reads it
