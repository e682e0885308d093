"""`--watch`: a saved file starts the next round, and only changed requests are sent."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from servers.loopback import LoopbackServer, chat

PATIENCE = 120.0
"""Seconds that a round may take on a machine with other work. Nothing is measured by it."""
PIPELINE = """\
id: p
inputs: [word]
default_testset: tests.jsonl
steps:
  - {id: one, type: prompt, template: "first {{ word }}"}
  - {id: two, type: prompt, template: "then {{ one }}"}
"""
TESTS = """\
{"id": "a", "inputs": {"word": "x"}, "expected_outputs": {"output": "LATER FIRST X"}}
{"id": "b", "inputs": {"word": "y"}, "expected_outputs": {"output": "THEN FIRST Y"}}
"""


def shout(body: dict[str, Any]) -> tuple[int, Any]:
    """Answers in capital letters."""
    return 200, chat(str(body["messages"][-1]["content"]).upper())


class Watching:
    """A command with `--watch`, read round by round."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self._lines: queue.Queue[str | None] = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        assert self.process.stdout is not None
        for line in self.process.stdout:
            self._lines.put(line)
        self._lines.put(None)

    def round(self) -> str:
        """Wait until a round is over and the files are watched. Returns what was printed since the last time."""
        printed = ""
        while True:
            line = self._lines.get(timeout=PATIENCE)
            assert line is not None, printed
            printed += line
            if line.startswith("watching "):
                return printed

    def interrupt(self) -> int:
        """Ctrl-C, as a terminal sends it: to all processes of the group. Returns the exit code."""
        os.killpg(self.process.pid, signal.SIGINT)
        return self.process.wait(PATIENCE)


@contextmanager
def watching(folder: Path, *words: str) -> Iterator[Watching]:
    """Start `assay WORDS… --watch`."""
    process = subprocess.Popen(
        [sys.executable, "-m", "assay", *words, "--watch"],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
        env={**os.environ, "OPENAI_API_KEY": "sk-of-nobody-in-particular"},
    )
    try:
        yield Watching(process)
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """A pipeline of two prompts and two tests."""
    (tmp_path / "p.yaml").write_text(PIPELINE)
    (tmp_path / "tests.jsonl").write_text(TESTS)
    return tmp_path


def test_a_saved_prompt_or_testset_runs_again_and_asks_only_what_changed(project: Path) -> None:
    """The prompt of the second step is edited, then broken, then mended; then an expectation is edited."""
    with LoopbackServer(shout) as server:
        words = ("pipeline", "p.yaml", "--model", "openai/m", "--base-url", server.url, "--output-dir", "out")
        with watching(project, *words) as watch:
            first = watch.round()
            assert "1/2" in first
            assert "p.yaml" in first.splitlines()[-1]
            assert "tests.jsonl" in first.splitlines()[-1]
            assert len(server.bodies) == 4
            (project / "p.yaml").write_text(PIPELINE.replace("then", "later"))
            second = watch.round()
            assert "p.yaml changed" in second
            assert len(server.bodies) == 6, "the first step's replies are those of the first round"
            assert "now passing: 1 (a)" in second
            assert "now failing: 1 (b)" in second
            (project / "p.yaml").write_text("steps: [")
            assert "p.yaml:2: not YAML" in watch.round()
            (project / "p.yaml").write_text(PIPELINE.replace("then", "later"))
            assert "already finished; no requests sent" in watch.round()
            (project / "tests.jsonl").write_text(TESTS.replace("THEN", "LATER"))
            assert "2/2" in watch.round()
            assert len(server.bodies) == 6
            assert watch.interrupt() == 0


FUNCTION = """\
from pathlib import Path

async def hop_ask(session, row):
    status, said = await session.hop_get(Path("prompt.txt").read_text(), {"n": row["n"]}, verifier=None)
    return status, {"said": said}
"""


def test_a_file_that_the_function_reads_itself_is_watched(tmp_path: Path) -> None:
    """The prompt is a text file of the user's own; a new round imports an edited function anew."""
    (tmp_path / "mine.py").write_text(FUNCTION)
    (tmp_path / "prompt.txt").write_text("Say it")
    (tmp_path / "rows.jsonl").write_text('{"id": 1, "tag": "t", "n": 1, "expected_said": "ok"}\n')
    with LoopbackServer(lambda body: (200, chat('{"result": "ok"}'))) as server:
        words = ("hop", "mine.py:hop_ask", "rows.jsonl", "--model", "openai/m", "--base-url", server.url)
        with watching(tmp_path, *words, "--output-dir", "out") as watch:
            watch.round()
            assert "Say it" in str(server.bodies[-1])
            (tmp_path / "prompt.txt").write_text("Sing it")
            second = watch.round()
            assert "prompt.txt changed" in second
            assert "so this is another run" in second
            assert "Sing it" in str(server.bodies[-1])
            (tmp_path / "mine.py").write_text(FUNCTION.replace('{"said": said}', '{"said": "never"}'))
            assert "mine.py changed" in watch.round()
            assert watch.interrupt() == 0


def test_the_results_of_a_finished_run_are_not_watched(project: Path) -> None:
    """The command is typed a second time: it reads the files that it wrote, and a round writes them again."""
    with LoopbackServer(shout) as server:
        words = ("pipeline", "p.yaml", "--model", "openai/m", "--base-url", server.url, "--output-dir", "out")
        for _ in range(2):
            with watching(project, *words) as watch:
                shown = watch.round().splitlines()[-1]
                assert "p.yaml" in shown
                assert "out" not in shown
                assert watch.interrupt() == 1


def test_a_failed_round_is_the_exit_code_of_the_watch(project: Path) -> None:
    """Ctrl-C between two rounds: 1, because a check failed in the last one."""
    with LoopbackServer(shout) as server:
        words = ("pipeline", "p.yaml", "--model", "openai/m", "--base-url", server.url, "--output-dir", "out")
        with watching(project, *words) as watch:
            watch.round()
            assert watch.interrupt() == 1


def test_a_round_whose_process_is_killed_is_told_and_the_next_one_goes_on(project: Path) -> None:
    """As by the system when memory is short."""
    deadly = "import os, signal\n\ndef f(prompt, params):\n    os.kill(os.getpid(), signal.SIGKILL)\n"
    (project / "m.py").write_text("def f(prompt, params):\n    return 'THEN FIRST Y'\n")
    with watching(project, "pipeline", "p.yaml", "--model", "python/m.py:f", "--output-dir", "out") as watch:
        watch.round()
        (project / "m.py").write_text(deadly)
        assert "ended with signal 9" in watch.round()
        (project / "m.py").write_text("def f(prompt, params):\n    return 'LATER FIRST X'\n")
        assert "1/2" in watch.round()
        assert watch.interrupt() == 1


def test_watch_and_dry_run_exclude_each_other(project: Path) -> None:
    """Exit code 2 with a sentence."""
    command = [sys.executable, "-m", "assay", "pipeline", "p.yaml", "--watch", "--dry-run"]
    done = subprocess.run(command, cwd=project, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    assert "--watch and --dry-run exclude each other" in done.stderr


CODE_PIPELINE = """\
inputs: [word]
default_testset: tests.jsonl
steps:
  - {id: read, type: code, code: "def main(word): return open('prompt.txt').read() + word"}
"""


def test_a_file_that_the_code_of_a_pipeline_reads_is_watched(tmp_path: Path) -> None:
    """The code has a process of its own."""
    (tmp_path / "p.yaml").write_text(CODE_PIPELINE)
    (tmp_path / "prompt.txt").write_text("Say ")
    (tmp_path / "tests.jsonl").write_text('{"id": "a", "word": "x", "expected_output": "Sing x"}\n')
    with watching(tmp_path, "pipeline", "p.yaml", "--output-dir", "out") as watch:
        assert "0/1" in watch.round()
        (tmp_path / "prompt.txt").write_text("Sing ")
        second = watch.round()
        assert "prompt.txt changed" in second
        assert "1/1" in second
        assert watch.interrupt() == 0


def test_an_interrupt_that_only_the_watching_process_gets_ends_it_after_the_round(project: Path) -> None:
    """As `kill -INT` sends it while a round waits for the model. The round keeps its result."""
    asked, release = threading.Event(), threading.Event()

    def slow(body: dict[str, Any]) -> tuple[int, Any]:
        asked.set()
        release.wait(PATIENCE)
        return shout(body)

    with LoopbackServer(slow) as server:
        words = ("pipeline", "p.yaml", "--model", "openai/m", "--base-url", server.url, "--output-dir", "out")
        with watching(project, *words) as watch:
            assert asked.wait(PATIENCE)
            os.kill(watch.process.pid, signal.SIGINT)
            release.set()
            assert watch.process.wait(PATIENCE) == 1, "the exit code of the round"
        assert len(server.bodies) == 4


def test_files_below_a_folder_called_assay_are_watched(tmp_path: Path) -> None:
    """The folder of all runs has this name as well."""
    project = tmp_path / "assay"
    project.mkdir()
    (project / "p.yaml").write_text(CODE_PIPELINE)
    (project / "prompt.txt").write_text("Say ")
    (project / "tests.jsonl").write_text('{"id": "a", "word": "x", "expected_output": "Sing x"}\n')
    with watching(project, "pipeline", "p.yaml", "--output-dir", "out") as watch:
        names = watch.round().splitlines()[-1]
        assert "p.yaml" in names
        assert "run.json" not in names
        assert watch.interrupt() == 1
