"""A run folder of somebody who wants harm: every reader, every file, everything that can stand in place of a file.

Reading it executes nothing that it has or names, waits for nobody, and takes bounded memory. The table of readers is
checked against the table of commands, and the pages are those of the server: a new reader is tested too.
"""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from contextvars import copy_context
from pathlib import Path
from urllib.request import urlopen

import click
import pytest
from msgspec.structs import replace

from assay.cli.main import cli
from assay.core.errors import DamagedRun
from assay.journal.earlier import keep_scoring
from assay.journal.run_files import has_own_newest, read_summary
from assay.usercode.named_code import runs_only_named_code

from support.commands import environment
from support.hostile_folders import CODE, ENTRIES, SECRET
from support.runs import Made, passed, run_of
from support.terminal import Terminal
from support.web import serving

# Far more than the readers take. A command that waits for the other end of a pipe is ended by it.
SECONDS = 600


@pytest.mark.parametrize("kind", [*ENTRIES, "code"])
def test_a_hostile_run_folder_is_read_without_harm(kind: str, tmp_path: Path) -> None:
    """Commands in one process for each kind, Python functions, all pages, and the command that continues the run."""
    if kind == "device" and os.geteuid() != 0:
        pytest.skip("only root can make a device")
    places = os.pathsep.join([str(Path(__file__).parents[1]), environment()["PYTHONPATH"]])
    done = subprocess.run(
        [sys.executable, "-m", "support.hostile_folders", kind, str(tmp_path)],
        cwd=tmp_path,
        env=environment() | {"PYTHONPATH": places},
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() == ""


@pytest.fixture
def evil_run(tmp_path: Path) -> Path:
    """A run in the working folder whose suite is a file beside it, which writes `executed`."""
    (tmp_path / "evil.py").write_text(CODE)
    made = Made(tmp_path / "assay" / "run", suite=f"{tmp_path}/evil.py:Evil")
    made.case("a", [passed(1)])
    return made.finish()


def test_processes_run_nothing_that_a_run_names(evil_run: Path, tmp_path: Path) -> None:
    """The commands as people type them: `show` says what to type, and so does the page; `label` shows the answer."""
    words = [sys.executable, "-P", "-m", "assay", "show", str(evil_run)]
    done = subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0
    assert "add --code evil.py" in done.stderr
    with serving(tmp_path) as view, urlopen(f"{view.address}/case/0/assay/run") as page:
        assert "add --code" in page.read().decode()
    with Terminal("label", str(evil_run), cwd=tmp_path) as terminal:
        terminal.wait_for("right?")
        terminal.end("q")
    assert not (tmp_path / "executed").exists()


def test_show_uses_the_suite_of_a_run_that_the_command_line_names(evil_run: Path, tmp_path: Path) -> None:
    words = [sys.executable, "-P", "-m", "assay", "show", str(evil_run), "--code", "evil.py:Evil"]
    subprocess.run(words, cwd=tmp_path, env=environment(), capture_output=True, check=False)
    assert (tmp_path / "executed").exists()


@pytest.mark.parametrize("forged", [{"score": "../../../../outside"}, {"files": ["RUN/../../../outside/own"]}])
def test_a_forged_summary_leads_no_copy_out_of_the_run_folder(
    forged: dict[str, str | list[str]], tmp_path: Path
) -> None:
    """Scoring again keeps the earlier result files below the run folder, whatever the summary calls them."""
    run = run_of(tmp_path / "out" / "assay" / "run", {"a": True})
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "own").write_text(SECRET)
    summary = read_summary(run)
    assert summary is not None
    values = {"files": ["x.jsonl"], "score": "0a"} | forged
    names = [name.replace("RUN", str(run)) for name in values["files"]]
    digests = dict.fromkeys(names, hashlib.sha256(SECRET.encode()).hexdigest())
    with suppress(DamagedRun):
        keep_scoring(run, replace(summary, score=values["score"], files=names, digests=digests))
    assert [path.name for path in (tmp_path / "outside").iterdir()] == ["own"]
    assert {path.name for path in tmp_path.iterdir()} == {"out", "outside"}


def test_the_newest_results_are_never_copied_out_of_the_output_folder(tmp_path: Path) -> None:
    run = run_of(tmp_path / "out" / "assay" / "run", {"a": True})
    summary = read_summary(run)
    assert summary is not None
    assert has_own_newest(run, summary)
    assert has_own_newest(run, replace(summary, newest=f"{tmp_path}/out/parcels"))
    assert not has_own_newest(run, replace(summary, newest=f"{tmp_path}/out/../.ssh"))


@pytest.mark.parametrize(("command", "expected"), [("show", True), ("view", True), ("run", False), ("task", False)])
def test_only_commands_that_read_are_restricted_and_in_every_thread(command: str, expected: bool) -> None:
    def asked_in_another_thread() -> bool:
        context = click.Context(cli)
        context.invoked_subcommand = command
        assert cli.callback is not None
        with context, ThreadPoolExecutor(1) as other_thread:
            context.invoke(cli.callback)
            return other_thread.submit(runs_only_named_code).result()

    assert copy_context().run(asked_in_another_thread) is expected
