"""Ctrl-C and SIGTERM before the workers are ready: the user is told at once, and nothing is left behind."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from uuid import uuid4

import pytest

import assay
from assay.core.events import Event, Noted

from support.commands import environment
from support.ray_cluster import LocalCluster

_STUCK_SECONDS = 300.0
MARK = "ASSAY_TEST_RUN"
HOP = """
import sys, time

if "default_worker" in sys.argv[0]:
    time.sleep(3600)  # a worker that is never ready

def hop(n, session):
    return "OK", {"answer": n}
"""
COMMAND = [
    *(sys.executable, "-m", "assay", "hop", "hop.py:hop", "rows.jsonl"),
    *("--executor", "ray", "--workers", "1", "--output-dir", "out"),
]


@pytest.fixture(autouse=True)
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    Path("hop.py").write_text(HOP)
    Path("rows.jsonl").write_text('{"id": 1, "n": 1, "tag": "a"}\n')


def _processes_with(mark: str) -> list[int]:
    """Return the processes that a command with this mark in its environment has started, or is."""
    marked = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdecimal() and f"{MARK}={mark}\0".encode() in (entry / "environ").read_bytes():
                marked.append(int(entry.name))
        except OSError:
            continue  # it has ended, or is not ours
    return marked


def _interrupted(line: str, number: signal.Signals, *flags: str) -> list[str]:
    """Start a run, send a signal as soon as it prints `line`, and return what it prints after that."""
    mark = uuid4().hex
    with subprocess.Popen(
        [*COMMAND, *flags],
        env=environment() | {MARK: mark},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    ) as process:
        assert process.stdout is not None
        for printed in process.stdout:
            if line in printed:
                break
        process.send_signal(number)
        lines = [each.strip() for each in process.stdout]
    assert process.returncode == 130, lines
    deadline = time.monotonic() + _STUCK_SECONDS
    while left := _processes_with(mark):
        assert time.monotonic() < deadline, f"processes of Ray are left: {left}"
        time.sleep(0.05)
    assert not Path("out").exists(), "nothing is left that looks like a run"
    return lines


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=lambda number: number.name)
def test_while_a_cluster_of_its_own_starts(number: signal.Signals, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAY_ADDRESS", raising=False)
    lines = _interrupted("starting a Ray cluster", number)
    assert lines[0].startswith("Stopping before a case has run.")
    assert lines[1:] == ["interrupted"]


def test_while_workers_start(cluster: LocalCluster) -> None:
    lines = _interrupted("starting 1 worker", signal.SIGINT, "--address", cluster.address)
    assert lines[0].startswith("Stopping before a case has run.")
    assert lines[1:] == ["interrupted"]


def test_a_cancelled_coroutine_leaves_no_run(cluster: LocalCluster) -> None:
    """`assay.arun` raises the cancellation of its caller, not a KeyboardInterrupt."""

    async def cancel_at_start() -> None:
        spec = assay.spec("hop", target="hop.py:hop", data="rows.jsonl", executor="ray", workers=1, output_dir="out")
        starting = asyncio.Event()

        def watch(event: Event) -> None:
            if isinstance(event, Noted) and event.text.startswith("starting 1 worker"):
                starting.set()

        run = asyncio.create_task(assay.arun(spec, [watch]))
        await starting.wait()
        run.cancel()
        with pytest.raises(asyncio.CancelledError):
            await run

    asyncio.run(cancel_at_start())
    assert not Path("out").exists()
