"""A worker that is lost costs nothing that was answered, at whichever message it is lost."""

from __future__ import annotations

import os
from contextlib import chdir
from pathlib import Path

import pytest

import assay

from servers.fake_openai import FakeOpenAI
from support.killed_runs import KILLABLE, Killable, KillableRuns, options_of, reading_of
from support.lost_workers import killed_at
from support.ray_cluster import LocalCluster

# All suites and all messages take minutes: `make test-ray RAY_SUITES=task,hop,…`.
SUITES = os.environ.get("RAY_SUITES", "pipeline").split(",")
STEP = 1 if "RAY_SUITES" in os.environ else 5
DEADLY = """
import os, signal

import time

def hop(n, session):
    if n == 2:
        time.sleep(0.5)  # the others have begun
        os.kill(os.getpid(), signal.SIGKILL)
    return "OK", {"answer": n}
"""
WAITING = """
import os, pathlib, time

def who(n, session):
    pathlib.Path(f"{os.getpid()}.pid").touch()
    while len(list(pathlib.Path().glob("*.pid"))) < 4:
        time.sleep(0.05)
    return "OK", {"pid": os.getpid()}
"""
COUNTED = """
def echo(prompt, params):
    with open("asked.txt", "a") as file:
        file.write(prompt.splitlines()[-1] + "\\n")
    return prompt.splitlines()[-1]
"""


@pytest.mark.parametrize("killable", [each for each in KILLABLE if each.suite in SUITES], ids=lambda each: each.suite)
def test_a_worker_killed_at_any_message_costs_nothing(
    killable: Killable,
    cluster: LocalCluster,
    server: FakeOpenAI,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The endpoint gets every request once, and reports, files and cases are those of a local run."""
    monkeypatch.setenv("ASSAY_DATA", "calibrations")
    limited = killable._replace(options={**killable.options, "limit": 2})
    runs = KillableRuns(tmp_path, server)
    whole = runs.whole(limited)
    server.behave(wrap=limited.wrap, latency=0.003, jitter=3.0)
    number, total = 0, 0
    while number <= total:
        server.reset()
        with chdir(runs.folder(limited, "ray")), killed_at(number) as messages:
            run = limited.start(**options_of(limited, server.url, "out"), executor="ray", workers=2)
            reading = reading_of(run)
        if number == 0:
            total = messages.count
        assert bool(messages.killed) == (number > 0)
        whole.check(reading, server, f"killed at message {number} of {total}")
        number += STEP
    print(f"{limited.suite}: a worker killed at every {STEP}. of {total} messages")  # noqa: T201 - shown with -rP


def test_a_case_that_ends_three_workers_is_an_infra_error(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The other rows have their answers, also those that ran beside it: after a loss each case runs alone."""
    monkeypatch.chdir(tmp_path)
    Path("deadly.py").write_text(DEADLY)
    Path("rows.jsonl").write_text("".join(f'{{"id": {n}, "n": {n}}}\n' for n in range(6)))
    run = assay.run(
        assay.spec("hop", target="deadly.py:hop", data="rows.jsonl", executor="ray", workers=3, output_dir="out")
    )
    assert run.exit_code == 3
    assert run.summary.failures == {"worker_lost": 1}
    assert "3 workers were lost while they ran this case" in run.summary.first_failures["worker_lost"]
    assert run.summary.ok == 5


def test_cases_are_spread_over_all_workers(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each case waits until all four workers have one, so none gets more than its share of the open cases."""
    monkeypatch.chdir(tmp_path)
    Path("who.py").write_text(WAITING)
    Path("rows.jsonl").write_text("".join(f'{{"id": {n}, "n": {n}}}\n' for n in range(8)))
    run = assay.run(
        assay.spec("hop", target="who.py:who", data="rows.jsonl", executor="ray", workers=8, output_dir="out")
    )
    assert run.summary.ok == 8


def test_only_a_reply_that_had_not_arrived_is_computed_again(
    cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The model computes in the workers, and one of them is lost."""
    (task,) = [each for each in KILLABLE if each.suite == "task"]
    for file, text in {**task.files, "model.py": COUNTED}.items():
        (tmp_path / file).write_text(text)
    monkeypatch.chdir(tmp_path)
    options = {"tasks": ["t.yaml"], "model": "python/model.py:echo", "output_dir": "out", "concurrency": 4}
    with killed_at(12) as messages:
        run = assay.run(assay.spec("task", **options, executor="ray", workers=2))
    assert messages.killed
    assert run.summary.state == "finished"
    assert run.summary.spent.calls == messages.replies == 16, "eight documents, twice each"
    assert 16 <= len(Path("asked.txt").read_text().split()) <= 16 + 4, "at most what was in flight comes again"


def test_a_run_goes_on_when_a_node_is_lost(
    cluster: LocalCluster, server: FakeOpenAI, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All requests of the lost node's cases are in flight when it goes."""
    (task,) = [each for each in KILLABLE if each.suite == "task"]
    runs = KillableRuns(tmp_path, server)
    whole = runs.whole(task)
    server.reset()
    server.behave(held_after=6)
    lost = []

    def lose_node(event: object) -> None:
        # Five calls have ended, four more wait at the endpoint.
        lost.append(event)
        if len([each for each in lost if type(each).__name__ == "Called"]) == 5 and len(cluster.nodes) == 2:
            cluster.remove_node(cluster.nodes[0])
            server.behave()

    with chdir(runs.folder(task, "ray")):
        run = task.start([lose_node], **options_of(task, server.url, "out"), executor="ray", workers=4)
        reading = reading_of(run)
    cluster.add_node()
    cluster.settle()
    whole.check(reading, server)
