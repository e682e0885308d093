"""The executor is no part of a run: what one process began, another one finishes, with Ray or without."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import chdir
from pathlib import Path

import pytest

from servers.fake_openai import FakeOpenAI
from support.commands import Job, environment
from support.killed_runs import KILLABLE, KillableRuns, options_of, reading_of
from support.ray_cluster import LocalCluster

(TASK,) = [each for each in KILLABLE if each.suite == "task"]
_STUCK_SECONDS = 300.0
PROGRAM = """
import assay
import helper

def answer(question, ctx):
    return helper.shout(question) + ctx.ask(open("said.txt").read())

def model(prompt):
    return prompt + "!"

if __name__ == "__main__":
    rows = [{"question": f"q{n}", "right": f"Q{n}yes!"} for n in range(4)]
    run = assay.evaluate(
        rows, answer=answer, model=model, score=["exact_match"], target="right", executor="ray", address=ADDRESS, workers=2
    )
    print(run["exact_match"].value, (run.folder / "code_files.jsonl").read_text())
"""


def test_a_run_begun_here_is_finished_on_ray(cluster: LocalCluster, server: FakeOpenAI, tmp_path: Path) -> None:
    runs = KillableRuns(tmp_path, server)
    whole = runs.whole(TASK)
    server.reset()
    with chdir(runs.folder(TASK, "both")):
        options = options_of(TASK, server.url, "out")
        assert TASK.start(**options, max_calls=5).summary.state == "stopped"
        reading = reading_of(TASK.start(**options, executor="ray", workers=2))
    whole.check(reading, server)


def test_a_run_on_ray_whose_driver_is_killed_is_finished_here(
    cluster: LocalCluster, server: FakeOpenAI, tmp_path: Path
) -> None:
    """Six calls are answered and logged, the others wait at the endpoint when the driver is killed."""
    runs = KillableRuns(tmp_path, server)
    whole = runs.whole(TASK)
    server.reset()
    server.behave(held_after=6)
    folder = runs.folder(TASK, "killed")
    job = Job([], folder / "out")
    options = [
        "--model",
        "openai/fake",
        "--base-url",
        server.url,
        "--concurrency",
        "4",
        "--output-dir",
        "out",
    ]
    command = [sys.executable, "-m", "assay", "task", "t.yaml", *options]
    log = (folder / "log").open("wb")
    driver = subprocess.Popen(
        [*command, "--executor", "ray", "--address", cluster.address, "--workers", "2"],
        cwd=folder,
        env=environment(),
        stdout=log,
        stderr=subprocess.STDOUT,
    )
    deadline = time.monotonic() + _STUCK_SECONDS
    while job.count("calls") < 6:
        assert driver.poll() is None, (folder / "log").read_text()
        assert time.monotonic() < deadline
        time.sleep(0.01)
    os.kill(driver.pid, signal.SIGKILL)
    driver.wait()
    log.close()
    server.behave()
    with chdir(folder):
        reading = reading_of(TASK.start(**options_of(TASK, server.url, "out")))
    whole.check(reading, server, in_flight=4)


def test_the_functions_of_a_program_run_on_the_workers(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a module beside the program, a model that is a function, and a file that the function reads."""
    (tmp_path / "program.py").write_text(PROGRAM.replace("ADDRESS", repr(cluster.address)))
    (tmp_path / "helper.py").write_text("def shout(text):\n    return text.upper()\n")
    (tmp_path / "said.txt").write_text("yes")
    done = subprocess.run(
        [sys.executable, "program.py"],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=_STUCK_SECONDS,
    )
    assert done.stdout.startswith("1.0 "), done.stdout + done.stderr
    assert '"path":"said.txt"' in done.stdout, "a change of this file starts another run"
