"""Starts assay, mostly as a process of its own, and reads what it left behind."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

import assay
from assay.cli.main import main

from servers.fake_openai import FakeOpenAI

TIMEOUT = 300.0
CHAIN = Path(__file__).parents[1] / "suites" / "chain.py"


class Finished(NamedTuple):
    """How a process ended and what it said."""

    code: int
    out: str
    err: str


def environment() -> dict[str, str]:
    """This process's, with the package under test, without anybody's endpoint, and with buffered streams."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
    # Containers and CI often set it. Then Python drops what cannot be written, and a full disk looks harmless.
    kept.pop("PYTHONUNBUFFERED", None)
    return kept | {"PYTHONPATH": str(Path(assay.__file__).parents[1])}


class Job:
    """A command with its output folder: started, killed, started again."""

    def __init__(self, command: list[str], out: Path) -> None:
        self.command = [sys.executable, *command]
        self.out = out

    @contextmanager
    def started(self, *flags: str, before: Callable[[], None] | None = None) -> Iterator[Started]:
        """The running process; killed at the end of the block if it is still there."""
        with subprocess.Popen(
            [*self.command, *flags],
            env=environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=before,  # noqa: PLW1509 - limits of the child; no thread runs here
        ) as process:
            try:
                yield Started(process, self)
            finally:
                process.kill()

    def run(self, *flags: str, before: Callable[[], None] | None = None) -> Finished:
        """The command from start to end. `assay …` without limits of its own runs in this process, which is quicker."""
        if before is None and self.command[1:3] == ["-m", "assay"]:
            done = run_here([*self.command[3:], *flags], Path.cwd())
            return Finished(done.returncode, done.stdout, done.stderr)
        with self.started(*flags, before=before) as started:
            return started.end()

    @property
    def folder(self) -> Path:
        """The one run folder below the output folder."""
        (found,) = self.out.glob("assay/[!.]*/run.json")
        return found.parent

    def count(self, name: str) -> int:
        """How many whole lines a journal file has after its first."""
        found = list(self.out.glob(f"assay/[!.]*/{name}.jsonl"))
        return max(0, found[0].read_bytes().count(b"\n") - 1) if found else 0

    def lines(self, name: str) -> list[dict[str, Any]]:
        """The whole lines of a journal file after its first, as they are on disk now."""
        found = list(self.out.glob(f"assay/[!.]*/{name}.jsonl"))
        whole = found[0].read_bytes().rpartition(b"\n")[0] if found else b""
        return [json.loads(line) for line in whole.split(b"\n")[1:]]

    def replies(self) -> list[str]:
        """The text of every good reply in the log, in order of arrival."""
        return [line["response"]["text"] for line in self.lines("calls") if "response" in line]

    def ends(self) -> list[dict[str, Any]]:
        """Every end of asking, in order of completion."""
        return [_ended(line) for line in self.lines("records") if "end" in line or line["type"] == "end"]

    def file(self, pattern: str) -> Path:
        """The one final file of this name, not that of an earlier scoring."""
        (found,) = (path for path in self.out.rglob(pattern) if "earlier" not in path.parts)
        return found

    def samples(self) -> bytes:
        """The samples file as it is."""
        return self.file("samples_*.jsonl").read_bytes()

    def rows(self) -> list[dict[str, Any]]:
        """The samples file, parsed."""
        return [json.loads(line) for line in self.samples().splitlines()]

    def results(self) -> dict[str, Any]:
        """The results file without what differs between two runs of the same."""
        value: dict[str, Any] = json.loads(self.file("results_*.json").read_text())
        return {key: value[key] for key in value if key not in ("date", "total_evaluation_time_seconds")}

    def summary(self) -> dict[str, Any]:
        """The run's own summary."""
        value: dict[str, Any] = json.loads((self.folder / "summary.json").read_text())
        return value


def typed(*words: str) -> int:
    """The exit code of a command in this process."""
    with pytest.raises(SystemExit) as left:
        main(list(words))
    assert isinstance(left.value.code, int)
    return left.value.code


def run_here(words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    """Type `assay ...` in a folder, in this process: a new one takes half a second.

    tests/cli/test_startup.py, tests/test_docs.py and tests/test_install.py start processes.
    """
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8", write_through=True) for _ in range(2))
    with pytest.MonkeyPatch.context() as patch, redirect_stdout(out), redirect_stderr(err):
        patch.chdir(cwd)
        # As `python -m assay` has it; messages that say what to type read it.
        patch.setattr(sys, "argv", [str(Path(assay.__file__).with_name("__main__.py")), *words])
        for name in os.environ.keys() - environment().keys():
            patch.delenv(name)
        code = typed(*words)
    out.seek(0)
    err.seek(0)
    return subprocess.CompletedProcess(words, code, out.read(), err.read())


def _ended(line: dict[str, Any]) -> dict[str, Any]:
    """How a case ended: mostly said on its last record, else on a line of its own."""
    return {**line, "try": 1, "status": "ok", **line["end"]} if "end" in line else line


class Started(NamedTuple):
    """A process that runs."""

    process: subprocess.Popen[str]
    job: Job

    def end(self) -> Finished:
        """Wait for it. A process that does not end is killed, and fails the test with what it has printed."""
        try:
            out, err = self.process.communicate(timeout=TIMEOUT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            words = " ".join(map(str, self.job.command))
            raise AssertionError(f"after {TIMEOUT:g} s it still runs: {words}\n{out}\n{err}") from None
        return Finished(self.process.returncode, out, err)

    def wait_for(self, condition: Callable[[], bool]) -> bool:
        """Whether the condition came true while the process was running."""
        deadline = time.monotonic() + TIMEOUT
        while time.monotonic() < deadline:
            if condition():
                return True
            if self.process.poll() is not None:
                return False
            time.sleep(0.002)
        raise TimeoutError(f"waited {TIMEOUT:g} s for {self.job.command}")

    def kill(self) -> None:
        """As kill -9 does; wait until it is gone."""
        self.process.kill()
        self.process.communicate(timeout=TIMEOUT)


def task_job(task: Path, server: FakeOpenAI, out: Path, *flags: str) -> Job:
    """`assay task` with eight calls in flight."""
    model = ["--model", "openai/fake", "--base-url", server.url, "--concurrency", "8"]
    return Job(["-m", "assay", "task", str(task), *model, "--output-dir", str(out), *flags], out)


def chain_job(server: FakeOpenAI, out: Path, *options: str) -> Job:
    """The suite in tests/suites/chain.py, through the Python interface, with eight calls in flight."""
    return Job([str(CHAIN), f"base_url={server.url}", f"output_dir={out}", *options], out)
