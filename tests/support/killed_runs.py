"""Small runs of every suite at an endpoint that counts requests; each can be killed and continued.

    runs = KillableRuns(folder, server)
    KillScenario(runs, seed=17).play()      # starts a run, kills it, continues it, compares it with a whole one

A scenario never waits for the clock. The endpoint answers only the first requests, so that the process cannot end before
the kill. The kill comes when a number of requests has arrived: at once, or when all answered ones are logged. Each start
has an API key of its own, so that the endpoint knows which start sent a request.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Mapping
from contextlib import chdir
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import pytest

import assay

from servers.fake_openai import FakeOpenAI
from support.commands import Job, environment
from support.damaged_runs import SMALL_RUNS, Reading, read_cases, read_files, read_report, same

CONCURRENCY = 4
KEY = "OPENAI_API_KEY"
FIRST, SECOND = "key-of-the-killed-start", "key-of-the-second-start"
# A start of Python on a busy machine takes seconds. A process that takes this long is stuck.
_STUCK_SECONDS = 300.0


def _evaluate(**options: Any) -> assay.Run:
    rows = [{"n": n, "answer": str(n % 4)} for n in range(10)]
    return assay.evaluate(rows, prompt="Say {{n}}.", score=["f1"], target="answer", name="sums", quiet=True, **options)


class Killable(NamedTuple):
    """A suite with its files, its start, and the text around the endpoint's answers."""

    suite: str
    files: dict[str, str]
    start: Callable[..., assay.Run]
    options: Mapping[str, Any]
    wrap: str = ""


_OPTIONS: dict[str, dict[str, Any]] = {
    "task": {"model": "openai/fake"},
    "pipeline": {"model": "openai/fake"},
    "hop": {"model": "openai/fake"},
    "memory-test": {"model": "openai/fake", "memory": ["bm25", "dense", "GAMemory"]},
    "memory-eval": {"model": "openai/fake", "baseline": ["bm25", "hybrid"], "judge": "offline"},
    "evaluate": {"model": "openai/fake"},
    "calibration": {"judge": "openai/judge"},
}
_WRAP = {
    "hop": '{"result": "%s"}',
    "memory-eval": '{"answer": "%s", "citations": [1]}',
    "calibration": '{"reason": "%s", "label": "Correct"}',
}
KILLABLE = tuple(
    Killable(
        small.suite,
        small.files,
        _evaluate if small.suite == "evaluate" else small.start,
        _OPTIONS[small.suite],
        _WRAP.get(small.suite, ""),
    )
    for small in SMALL_RUNS
)


class Whole(NamedTuple):
    """A run that was not disturbed: what is read of it, and what it asked."""

    reading: Reading
    requests: Counter[str]

    def check(self, reading: Reading, server: FakeOpenAI, where: str = "", *, in_flight: int = 0) -> None:
        """Raise AssertionError if a run asked for anything else, or if people would see anything else of it.

        At most `in_flight` requests may have come twice: those without an answer when something was lost.
        """
        seen = Counter(request.reply for request in server.stats().requests)
        assert not self.requests - seen, f"{where}: never asked: {self.requests - seen}"
        assert (seen - self.requests).total() <= in_flight, f"{where}: asked again: {seen - self.requests}"
        for name in Reading._fields:
            same(getattr(reading, name), getattr(self.reading, name), f"{where}: {name}")


class KillableRuns:
    """The undisturbed run of each suite, made when it is needed."""

    def __init__(self, root: Path, server: FakeOpenAI) -> None:
        self.root = root
        self.server = server
        self._whole: dict[str, Whole] = {}

    def start(self, killable: Killable, output: str) -> assay.Run:
        """Start or continue the run in the working folder, in this process."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv(KEY, SECOND)
            return killable.start(**options_of(killable, self.server.url, output))

    def whole(self, killable: Killable) -> Whole:
        """Return the undisturbed run of a suite."""
        if killable.suite not in self._whole:
            self.server.behave(wrap=killable.wrap)
            self.server.reset()
            with chdir(self.folder(killable, "whole")):
                run = self.start(killable, "out")
                reading = reading_of(run)
            # Two memories may send equal requests, so they are counted.
            requests = Counter(seen.reply for seen in self.server.stats().requests)
            self._whole[killable.suite] = Whole(reading, requests)
        return self._whole[killable.suite]

    def folder(self, killable: Killable, name: str) -> Path:
        """Make a folder with the files of a suite."""
        folder = self.root / f"{killable.suite}-{name}"
        shutil.rmtree(folder, ignore_errors=True)
        for file, text in killable.files.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text, encoding="utf-8")
        folder.mkdir(exist_ok=True)
        return folder


def options_of(killable: Killable, url: str, output: str) -> dict[str, Any]:
    """Return the options of a start."""
    common = {"base_url": url, "concurrency": CONCURRENCY, "output_dir": output}
    return {**killable.options, **common}


def reading_of(run: assay.Run) -> Reading:
    """Return what people see of a run."""
    assert run.summary.state == "finished", run.reason
    return Reading(read_report(run), read_files(run), read_cases(run.folder))


class KillScenario:
    """One run that is killed once and continued. Everything random in it comes from its seed."""

    def __init__(self, runs: KillableRuns, seed: int) -> None:
        self.seed = seed
        self._runs = runs
        self.killable = KILLABLE[seed % len(KILLABLE)]
        self._random = Random(seed)
        self._what = ""

    def __str__(self) -> str:
        return f"kill {self.seed}: {self.killable.suite}, {self._what}"

    def play(self) -> int:
        """Return how many requests were in flight at the kill. Raises AssertionError if the kill cost anything else."""
        runs, server = self._runs, self._runs.server
        whole = runs.whole(self.killable)
        total = whole.requests.total()
        seen = self._random.randint(1, total - 1)
        answered = min(total - 1, self._random.randint(seen, seen + CONCURRENCY))
        logged_first = self._random.random() < 0.5
        self._what = f"after {seen} of {total} requests, {answered} answered" + ", all logged" * logged_first
        server.reset()
        server.behave(wrap=self.killable.wrap, held_after=answered, latency=0.002, jitter=3.0)
        folder = runs.folder(self.killable, "killed")
        job = Job([], folder / "out")
        with _started(self.killable, server.url, folder) as process:
            try:
                _wait(process, lambda: len(server.stats().requests) >= seen)
                if logged_first:
                    _wait(process, lambda: job.count("calls") >= answered)
            finally:
                process.kill()
                process.communicate()
        logged = Counter(job.replies())
        server.behave(wrap=self.killable.wrap)
        with chdir(folder):
            run = runs.start(self.killable, "out")
            reading = reading_of(run)
        requests = server.stats().requests
        first = Counter(seen.reply for seen in requests if seen.key == FIRST)
        second = Counter(seen.reply for seen in requests if seen.key == SECOND)
        assert first.total() + second.total() == len(requests)
        assert not logged - first, "the log has only what the endpoint answered"
        assert logged + second == whole.requests, (
            "nothing that was logged is asked again, and all the rest is asked once"
        )
        lost = (first - logged).total()
        assert lost <= CONCURRENCY, "only requests in flight are lost"
        if logged_first:
            assert logged.total() == answered
        for name in Reading._fields:
            same(getattr(reading, name), getattr(whole.reading, name), name)
        return lost


def _started(killable: Killable, url: str, folder: Path) -> subprocess.Popen[str]:
    tests = Path(__file__).parents[1]
    env = environment()
    env |= {"PYTHONPATH": os.pathsep.join([env["PYTHONPATH"], str(tests)]), KEY: FIRST}
    command = [sys.executable, __file__, killable.suite, url]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, env=env, cwd=folder, stdout=pipe, stderr=subprocess.STDOUT, text=True)


def _wait(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
    """Wait until the condition is true. Raises AssertionError if the process ends before."""
    deadline = time.monotonic() + _STUCK_SECONDS
    while not condition():
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}: {process.communicate()[0]}")
        if time.monotonic() > deadline:
            raise AssertionError("it is stuck")
        time.sleep(0.002)


def main() -> None:
    """Start the run of a suite in the working folder, to be killed."""
    suite, url = sys.argv[1:]
    (killable,) = [each for each in KILLABLE if each.suite == suite]
    run = killable.start(**options_of(killable, url, "out"))
    sys.stdout.write(json.dumps([run.summary.state, run.reason]))


if __name__ == "__main__":
    main()
