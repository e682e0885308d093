"""A worker whose driver connects again: nothing that the driver must know is lost, and a blocked worker ends."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from pathlib import Path

import pytest

import assay
from assay.core.protocols import Context, Solver
from assay.core.suite import WorkerSolver
from assay.executors.messages import Opened
from assay.executors.plan import WorkerPlan
from assay.executors.worker import CaseWorker
from assay.usercode import opened_files

from support.commands import environment

# The worker is built, then a case blocks its thread for ever, and the driver says hello again.
BLOCKED = """
import asyncio, threading, time
from types import SimpleNamespace

import assay
from assay.core.suite import WorkerSolver
from assay.core.types import Case
from assay.executors import worker
from assay.executors.messages import StartCase
from assay.executors.plan import WorkerPlan

class Blocks:
    async def solve(self, inputs, ctx):
        began.set()
        threading.Event().wait()

def build():
    clock.seconds = 4000.0  # longer than a case may block: weights of a model are hashed
    time.sleep(0.5)
    return WorkerSolver(Blocks(), {})

async def connect_twice():
    plan = WorkerPlan(
        folder=".", output="out", version=assay.__version__, build=build,
        identity={}, roles={}, key_variables=[], models={}, seed=0, timeout=300.0,
    )
    here = worker.CaseWorker(plan)
    hello = await here.hello(1)
    assert not hello.problem, hello
    print("built", flush=True)
    case = Case(0, "key", "set", "subject", "label", {})
    waiting = asyncio.create_task(here.exchange(1, 1, [StartCase(1, case, 1, 0.0)]))
    await asyncio.to_thread(began.wait)
    clock.seconds = 8000.0
    await here.hello(2)

clock = SimpleNamespace(seconds=0.0)
worker.time = SimpleNamespace(monotonic=lambda: clock.seconds)
worker._TURN_SECONDS = 0.1
began = threading.Event()
asyncio.run(connect_twice())
"""


class NoCases(Solver):
    """A solver that is never asked."""

    async def solve(self, inputs: object, ctx: Context) -> None:
        raise AssertionError


def _build() -> WorkerSolver:
    return WorkerSolver(NoCases(), {})


def test_a_driver_that_connects_again_learns_of_all_files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The message about them may have been lost with the connection, and code that kept them opens them no more."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(opened_files, "_open_lists", [])
    read, written = str(tmp_path / "prompt.txt"), str(tmp_path / "cache.txt")
    plan = WorkerPlan(
        folder=str(tmp_path),
        output=str(tmp_path / "out"),
        version=assay.__version__,
        build=_build,
        identity={},
        roles={},
        key_variables=[],
        models={},
        seed=0,
        timeout=300.0,
    )

    async def connect_twice() -> list[tuple[str, bool]]:
        worker = CaseWorker(plan)
        await worker.hello(1)
        opened_files.note_read(read, 3, 7)
        opened_files.note_written(written)
        await worker.hello(2)
        group = await worker.exchange(2, 1, [])
        await worker.close()
        return [(message.file.path, message.file.written) for message in group.messages if isinstance(message, Opened)]

    assert asyncio.run(asyncio.wait_for(connect_twice(), 60)) == [(read, False), (written, True)]


def test_a_worker_whose_cases_block_it_ends_when_the_driver_connects_again(tmp_path: Path) -> None:
    """It would keep the driver waiting for ever. While it builds the suite it may be busy for as long as that takes."""
    done = subprocess.run(
        [sys.executable, "-c", BLOCKED],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )
    assert (done.stdout, done.stderr, done.returncode) == ("built\n", "", 1)
