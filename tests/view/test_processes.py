"""Runs that a page starts: real child processes of `assay`, which the server only hands over, stops and finds again."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from msgspec.structs import replace

from assay.core.errors import UsageError
from assay.journal.run_files import read_summary, write_summary
from assay.runner.continue_command import continue_command
from assay.store.runs import is_locked, last_owner, run_folders, state_of
from assay.view.processes import LOG, STATE, Processes

from support.runs import run_of
from support.waiting_task import WORDS, waiting_task

PATIENCE = 60.0
"""Seconds that a slow machine may take for what takes one."""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    with waiting_task(tmp_path / "work") as folder:
        yield folder


async def until(condition: Callable[[], bool]) -> None:
    """Wait until something is true."""

    async def wait() -> None:
        while not condition():  # noqa: ASYNC110 - the other side is another process
            await asyncio.sleep(0.02)

    await asyncio.wait_for(wait(), PATIENCE)


def test_a_started_run_is_handed_over_stopped_and_continued(folder: Path) -> None:
    async def act() -> None:
        processes = Processes(folder)
        start = await processes.start(WORDS)
        assert await start.is_handed_over(PATIENCE)
        run = start.run
        assert run is not None
        owner = last_owner(run)
        assert owner is not None
        assert owner.folder == str(folder)
        # In a session of its own, no signal of the server's terminal reaches it.
        assert os.getsid(owner.process) == owner.process
        assert (run / LOG).is_file()
        assert not (folder / STATE).exists()
        await until(lambda: state_of(run).done == 3)
        await processes.stop(run)
        assert is_locked(run)  # it waits for the open requests
        await processes.stop(run)
        await until(lambda: not is_locked(run))
        assert state_of(run).state == "stopped"
        await until(lambda: "Continue with: assay task" in (run / LOG).read_text())
        (folder / "go").touch()
        again = await processes.resume(run)
        assert await again.is_handed_over(PATIENCE)
        assert again.run == run
        await until(lambda: state_of(run).state == "finished")
        assert list(run_folders(folder)) == [run]
        # The same command for a finished run leads to the run. It locks nothing and sends nothing.
        shown = await processes.start(WORDS)
        assert await shown.is_handed_over(PATIENCE)
        assert shown.run == run
        await processes.close()

    asyncio.run(act())


def test_a_command_that_fails_before_its_run_is_told_with_its_message(folder: Path) -> None:
    async def act() -> None:
        processes = Processes(folder)
        start = await processes.start(["task", "missing.yaml", "--model", "python/model.py:answer"])
        assert await start.is_handed_over(PATIENCE)
        assert (start.run, start.exit_code) == (None, 2)
        assert "missing.yaml" in start.output
        assert not (folder / STATE).exists()
        fine, text = await processes.plan(WORDS)
        assert fine
        assert "6 of 6 documents" in text
        fine, text = await processes.plan(["task", "missing.yaml"])
        assert not fine
        assert "missing.yaml" in text
        assert not (folder / "results").exists()

    asyncio.run(act())


def test_a_run_that_ignores_two_signals_is_killed_by_the_third(folder: Path) -> None:
    (folder / "stubborn").touch()

    async def act() -> None:
        processes = Processes(folder)
        start = await processes.start(WORDS)
        assert await start.is_handed_over(PATIENCE)
        run = start.run
        assert run is not None
        await until((folder / "deaf").exists)
        await processes.stop(run)
        await processes.stop(run)
        assert processes.times_stopped(run) == 2
        # Another view knows nothing of these signals. Its own first one is kind, too.
        other = Processes(folder)
        await other.stop(run)
        await other.close()
        assert is_locked(run)
        await processes.stop(run)
        await until(lambda: not is_locked(run))
        await until(lambda: not processes.times_stopped(run))
        await processes.stop(run)  # nothing is left to stop
        await processes.close()

    asyncio.run(act())


def test_a_killed_view_leaves_its_runs_and_another_view_stops_them(folder: Path) -> None:
    starter = (
        "import asyncio, sys, pathlib\n"
        "from assay.view.processes import Processes\n"
        "async def act():\n"
        "    start = await Processes(pathlib.Path()).start(sys.argv[1:])\n"
        "    assert await start.is_handed_over(60)\n"
        "    print(start.run, flush=True)\n"
        "    await asyncio.sleep(60)\n"
        "asyncio.run(act())\n"
    )
    view = subprocess.Popen([sys.executable, "-c", starter, *WORDS], cwd=folder, stdout=subprocess.PIPE)
    with view:
        assert view.stdout is not None
        run = folder / view.stdout.readline().decode().strip()
        view.send_signal(signal.SIGKILL)
    assert is_locked(run)

    async def act() -> None:
        processes = Processes(folder)
        await until(lambda: state_of(run).done == 3)
        await processes.stop(run)
        await processes.stop(run)
        await until(lambda: not is_locked(run))
        await processes.close()

    asyncio.run(act())
    assert state_of(run).state == "stopped"


def test_only_the_command_of_the_own_suite_continues_a_run(folder: Path) -> None:
    subprocess.run(
        [sys.executable, "-m", "assay", *WORDS, "--max-calls", "2", "--quiet", "--fresh"],
        cwd=folder,
        check=False,
        capture_output=True,
    )
    (run,) = run_folders(folder)
    assert continue_command(run) == ([*WORDS, "--max-calls", "2", "--quiet"], folder)
    # A run folder that was copied from elsewhere must not start another run under its name.
    moved = folder / "elsewhere" / run.name
    moved.parent.mkdir()
    run.rename(moved)
    assert "moved" in continue_command(moved)


def test_a_folder_that_cannot_be_written_starts_nothing(folder: Path) -> None:
    (folder / STATE).write_text("a file in the place of the folder")

    async def act() -> None:
        with pytest.raises(UsageError, match="nothing can be started here"):
            await Processes(folder).start(WORDS)

    asyncio.run(act())


def test_a_run_of_which_only_bad_data_is_left_is_not_continued(tmp_path: Path) -> None:
    """Its command would end with exit code 2 and the same sentence, and corrected data make another run."""
    run = run_of(tmp_path / "out" / "assay" / "run", {"a": True})
    summary = read_summary(run)
    assert summary is not None
    why = "1 of 9 cases cannot be asked because of bad data: no label (rows.jsonl:3)"
    write_summary(run, replace(summary, state="incomplete", exit_code=2, exit_reason=why))

    async def act() -> None:
        with pytest.raises(UsageError, match=r"bad data: no label \(rows.jsonl:3\). Correct the task or its data"):
            await Processes(tmp_path).resume(run)

    asyncio.run(act())
    assert not (tmp_path / STATE).exists()
