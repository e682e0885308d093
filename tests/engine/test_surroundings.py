"""Closed and full streams, read-only disks, links, and user code that meddles with the process."""

from __future__ import annotations

import functools
import json
import subprocess
import sys
from pathlib import Path

import pytest

from support.commands import TIMEOUT, environment
from support.small_files import ECHO_PIPELINE, small_task

MODEL = '''
import asyncio
import os

calls = 0


def second():
    global calls
    calls += 1
    return calls == 2


def plain(prompt, params):
    return "x"


async def cancels(prompt, params):
    """Cancels every task that it can see."""
    if second():
        for task in asyncio.all_tasks():
            task.cancel()
    await asyncio.sleep(0)
    return "x"


async def cancels_itself(prompt, params):
    if second():
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
    return "x"


async def cancels_itself_and_returns(prompt, params):
    """The cancellation comes at the next await, which is the loop's own."""
    if second():
        asyncio.current_task().cancel()
    return "x"


async def stops(prompt, params):
    if second():
        asyncio.get_running_loop().stop()
    return "x"


def forks(prompt, params):
    """Both processes return from here."""
    if second():
        os.fork()
    return "x"


async def forks_in_the_loop(prompt, params):
    if second():
        os.fork()
    await asyncio.sleep(0)
    return "x"


async def forks_after_an_error(prompt, params):
    """The step in which both processes return began with an exception."""
    try:
        async with asyncio.timeout(0):
            await asyncio.sleep(1)
    except TimeoutError:
        if second():
            os.fork()
    return "x"
'''
TASK = small_task("short", "docs.jsonl", target="x") + "metric_list: [{metric: exact_match}]\n"
TEST = {"id": "a", "inputs": {"text": "?"}, "expected_outputs": {"said": "x"}}
READ_ONLY = 'mount --bind "$0" "$0" && mount -o remount,ro,bind "$0" && exec "$@"'


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A task of six documents, a pipeline of one test, and models that meddle at their second call."""
    (tmp_path / "model.py").write_text(MODEL)
    (tmp_path / "short.yaml").write_text(TASK)
    (tmp_path / "docs.jsonl").write_text("".join(f'{{"question": "{n}?"}}\n' for n in range(6)))
    (tmp_path / "p.yaml").write_text(ECHO_PIPELINE)
    (tmp_path / "tests.jsonl").write_text(json.dumps(TEST) + "\n")
    return tmp_path


def assay_by_shell(folder: Path, words: str, redirection: str = "") -> subprocess.CompletedProcess[str]:
    """Type a command in a shell, with redirections of its streams."""
    return run_in(folder, "sh", "-c", f'exec "$0" -m assay {words} {redirection}', sys.executable)


def run_in(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    """Run a command in a folder."""
    return subprocess.run(
        command,
        cwd=folder,
        env=environment(),
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
    )


def short(function: str) -> str:
    return f"task short.yaml --model python/model.py:{function} --output-dir out"


def counts(folder: Path) -> tuple[int, int]:
    """Return how many cases of the run have a score, and how many failed in user code."""
    (summary,) = (folder / "out").glob("assay/*/summary.json")
    value = json.loads(summary.read_text())
    assert value["state"] == "finished"
    return value["ok"], value["subject_error"]


def test_a_command_whose_streams_are_closed_does_its_work(folder: Path) -> None:
    """No file of the run gets the number of a closed stream."""
    done = assay_by_shell(folder, short("plain"), "<&- >&- 2>&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert counts(folder) == (6, 0)


def test_a_report_that_cannot_be_printed_is_told_in_a_sentence(folder: Path) -> None:
    """The run is finished, and the exit code says that the command is to be repeated."""
    done = assay_by_shell(folder, short("plain"), ">/dev/full")
    assert done.returncode == 3
    assert "cannot print the report: No space left on device. The files of the run are complete" in done.stderr
    assert "Traceback" not in done.stderr
    assert counts(folder) == (6, 0)
    listed = assay_by_shell(folder, "runs out", ">/dev/full")
    assert (listed.returncode, listed.stderr) == (3, "cannot write the output: No space left on device\n")
    assert assay_by_shell(folder, "task --no-such-flag", "2>/dev/full").returncode == 2


@functools.cache
def can_mount(folder: Path) -> bool:
    try:
        done = subprocess.run(
            ["unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, str(folder), "true"],
            capture_output=True,
            check=False,
        )
    except FileNotFoundError:
        return False
    return done.returncode == 0


def test_a_finished_run_is_shown_on_a_read_only_disk(folder: Path) -> None:
    """Nothing is to be written if its result files are up to date, else it says which are not. A new run cannot start."""
    words = "pipeline p.yaml --testset tests.jsonl --model python/model.py:plain --output-dir out"
    first = assay_by_shell(folder, words)
    assert first.returncode == 0
    if not can_mount(folder / "out"):
        pytest.skip("this machine forbids mounts in a namespace of their own")

    unshare = ["unshare", "--map-root-user", "--mount", "sh", "-c", READ_ONLY, "out"]

    def read_only(command: str) -> subprocess.CompletedProcess[str]:
        return run_in(folder, *unshare, sys.executable, "-m", "assay", *command.split())

    done = read_only(words)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.split("\n\n")[0] == first.stdout.split("\n\n")[0]
    (folder / "out" / "p" / "results.csv").write_text("of another run")
    done = read_only(words)
    assert done.returncode == 0
    assert "out/p is not up to date: [Errno 30] Read-only file system" in " ".join(done.stderr.split())
    assert done.stdout.split("\n\n")[0] == first.stdout.split("\n\n")[0]
    done = read_only(short("plain"))
    assert done.returncode == 3
    assert (
        "Read-only file system. All replies so far are saved. Make the folder writable and run the same command again"
        in " ".join(done.stderr.split())
    )
    assert "Traceback" not in done.stderr


def test_the_observers_file_follows_no_link(folder: Path) -> None:
    """A link could name any file of the user. The run says that its trace is missing."""
    hoplet = folder / "Check" / "Hoplet"
    hoplet.mkdir(parents=True)
    (hoplet / "Hop.py").write_text("def hop_check(session, fields):\n    return {'said': fields['text']}\n")
    (folder / "rows.jsonl").write_text('{"id": 1, "text": "?"}\n')
    (folder / "precious").write_text("mine\n")
    (folder / "out").mkdir()
    (folder / "out" / "observer.jsonl").symlink_to(folder / "precious")
    done = assay_by_shell(folder, "hop Check rows.jsonl --model python/model.py:plain --output-dir out")
    assert done.returncode == 0
    assert "it is a symbolic link, which assay does not follow" in done.stderr
    assert (folder / "precious").read_text() == "mine\n"


@pytest.mark.parametrize(
    ("function", "failed"),
    [
        ("cancels", 0),
        ("cancels_itself", 1),
        ("stops", 1),
        ("forks", 0),
        ("forks_in_the_loop", 0),
        ("forks_after_an_error", 0),
    ],
)
def test_user_code_that_meddles_costs_its_case_at_most(folder: Path, function: str, failed: int) -> None:
    """The other cases are answered once, and no copy of the process stays: the pipes of its output would be open."""
    done = assay_by_shell(folder, short(function))
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert counts(folder) == (6 - failed, failed)
    calls = next((folder / "out").glob("assay/*/calls.jsonl")).read_text().splitlines()
    cases = [json.loads(line)["index"] for line in calls[1:]]
    assert len(cases) == len(set(cases))
    assert len(list((folder / "out").glob("assay/*/run.json"))) == 1


def test_a_model_that_cancels_its_task_and_returns_does_not_end_the_only_worker(folder: Path) -> None:
    """The cancellation is raised at the next await of the worker, between two cases."""
    done = assay_by_shell(folder, f"{short('cancels_itself_and_returns')} --concurrency 1")
    assert done.returncode == 0
    assert counts(folder) == (6, 0)


HOPS = '''
import asyncio
import os


async def cancels(session, fields):
    """Cancels every task that it can see, while other rows wait."""
    if fields["text"] == "5?":
        for task in asyncio.all_tasks():
            task.cancel()
    await asyncio.sleep(0.1)
    return {"said": "x"}


async def cancels_itself(session, fields):
    if fields["text"] == "5?":
        asyncio.current_task().cancel()
        await asyncio.sleep(0)
    return {"said": "x"}


async def stops(session, fields):
    if fields["text"] == "5?":
        asyncio.get_running_loop().stop()
    return {"said": "x"}


def forks(session, fields):
    if fields["text"] == "5?":
        os.fork()
    return {"said": "x"}


async def forks_in_the_loop(session, fields):
    if fields["text"] == "5?":
        os.fork()
    return {"said": "x"}


async def forks_after_an_error(session, fields):
    """The step in which both processes return began with an exception."""
    try:
        async with asyncio.timeout(0):
            await asyncio.sleep(1)
    except TimeoutError:
        if fields["text"] == "5?":
            os.fork()
    return {"said": "x"}
'''


@pytest.mark.parametrize(
    ("function", "failed", "message"),
    [
        ("cancels", 0, ""),
        ("cancels_itself", 1, "[CancelledError] it cancelled its own task"),
        ("stops", 1, "[RuntimeError] code of a case cannot stop the event loop of the run"),
    ],
)
def test_a_hop_function_that_meddles_costs_its_row_at_most(
    folder: Path, function: str, failed: int, message: str
) -> None:
    """A function has a task of its own, unlike a model."""
    (folder / "hop.py").write_text(HOPS)
    (folder / "rows.jsonl").write_text("".join(f'{{"id": {n}, "text": "{n}?"}}\n' for n in range(6)))
    words = f"hop hop.py:{function} rows.jsonl --workers 6 --model python/model.py:plain --output-dir out"
    done = assay_by_shell(folder, words)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert counts(folder) == (6 - failed, failed)
    assert message in next((folder / "out").glob("rows_*.jsonl")).read_text()


@pytest.mark.parametrize("function", ["forks", "forks_in_the_loop", "forks_after_an_error"])
def test_a_copy_of_the_process_that_a_hop_function_makes_writes_nothing(folder: Path, function: str) -> None:
    """Although no further step of user code comes after that of the last row."""
    (folder / "hop.py").write_text(HOPS)
    (folder / "rows.jsonl").write_text("".join(f'{{"id": {n}, "text": "{n}?"}}\n' for n in range(6)))
    words = f"hop hop.py:{function} rows.jsonl --workers 1 --model python/model.py:plain --output-dir out"
    done = assay_by_shell(folder, words)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0
    assert counts(folder) == (6, 0)
    records = next((folder / "out").glob("assay/*/records.jsonl")).read_text().splitlines()
    assert len(records) == len(set(records)) == 1 + 6


@pytest.mark.parametrize(
    "name", ["../other.right", "/tmp/other.right", "..other.right", "sub/other.right", "sub\\other.right"]
)
def test_a_function_of_a_task_is_named_by_its_module_and_not_by_a_path(folder: Path, name: str) -> None:
    """Nothing outside of the folder of the task file is imported."""
    inner = folder / "inner"
    inner.mkdir()
    (inner / "docs.jsonl").write_text('{"question": "?"}\n')
    (folder / "other.py").write_text("open('imported', 'w')\ndef right(doc):\n    return 'x'\n")
    (inner / "short.yaml").write_text(TASK.replace('"x"', f"!function {name}"))
    done = assay_by_shell(folder, "task inner/short.yaml --model python/model.py:plain --output-dir out")
    assert done.returncode == 2
    assert f"!function {name}: a path is not allowed" in done.stderr
    assert not (folder / "imported").exists()
