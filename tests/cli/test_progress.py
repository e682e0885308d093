"""What a line of progress tells."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from assay.core.events import Called, Computing, Started, Waiting
from assay.core.types import Usage
from assay.runner import progress
from assay.runner.progress import Progress, ReadingBar

from servers.fake_openai import FakeOpenAI
from support.commands import task_job
from support.tasks import question, write_task


def test_calls_of_long_cases_are_told() -> None:
    """A conversation takes thousands: without them nothing moves until it ends."""
    shown = Progress()
    shown(Started(1, 0))
    for _ in range(10):
        shown(Called(None, failed=False, replayed=False))
    assert shown.line() == "0/1 · 0.0/s"
    shown(Called(Usage(7, 5), failed=False, replayed=False))
    assert shown.line() == "0/1 · 0.0/s · 11 calls · 7 tokens in, 5 out"


def test_tokens_of_open_replies_are_told() -> None:
    """A model inside this process reads its prompt first. A reply that ended is counted with the others."""
    shown = Progress()
    shown(Started(6, 0))
    shown(Computing(256, 1300, 0, 0.0))
    assert shown.line() == "0/6 · 0.0/s · reading 256 of 1,300 tokens"
    shown(Computing(1300, 1300, 212, 18.4))
    assert shown.line() == "0/6 · 0.0/s · 212 tokens so far · 18 tokens/s"
    shown(Computing(0, 0, 0, 0.0))
    shown(Called(Usage(1300, 250), failed=False, replayed=False))
    assert shown.line() == "0/6 · 0.0/s · 1,300 tokens in, 250 out"


def test_open_requests_are_told_when_nothing_ends() -> None:
    shown = Progress()
    shown(Started(6, 0))
    shown(Waiting(16, 0, 4.0))
    assert shown.line() == "0/6 · 0.0/s"
    shown(Waiting(16, 1, 45.0))
    assert shown.line() == "0/6 · 0.0/s · waiting for 16 requests, 45.0 s · 1 request to be repeated"


def test_a_log_has_lines_although_nothing_ends(tmp_path: Path) -> None:
    """One request hangs, and the other shall be repeated in 25 seconds. Neither ends, and the log says so."""
    task = write_task(tmp_path, 2)
    faults = {question(0): "hang", question(1): "429"}
    limits = ["--timeout", "25", "--max-retries", "1"]  # only for a run that prints no such line
    with (
        FakeOpenAI(always=faults, retry_after=25) as server,
        task_job(task, server, tmp_path / "out", *limits).started() as run,
    ):
        assert run.process.stderr is not None
        line = next(line for line in run.process.stderr if "waiting for" in line)
    assert re.fullmatch(r"0/2 · 0.0/s · 1 retry · waiting for 1 request, \d+\.\d s · 1 request to be repeated\n", line)


def test_the_cost_of_this_start_is_told_without_replayed_calls() -> None:
    shown = Progress()
    shown(Started(3, 0))
    shown(Called(Usage(7, 5), failed=False, replayed=False))
    assert "$" not in shown.line()
    for cost, replayed in ((0.01, False), (0.5, True), (0.0023, False)):
        shown(Called(None, failed=False, replayed=replayed, cost=cost))
    assert shown.line() == "0/3 · 0.0/s · 7 tokens in, 5 out · $0.0123"


def test_reading_a_large_run_is_told_and_wiped_at_the_end(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    bar = ReadingBar()
    bar(Path("runs/a"), 0.1)
    bar(Path("runs/a"), 1.0)
    assert capsys.readouterr().err == ""  # it took less than a second
    monkeypatch.setattr(progress, "READING_SECONDS", 0)
    monkeypatch.setattr(progress, "BAR_SECONDS", 0)
    bar = ReadingBar()
    bar(Path("runs/a"), 0.25)
    bar(Path("runs/a"), 1.0)
    # On a terminal, escape sequences clear the line; click removes them elsewhere.
    assert capsys.readouterr().err == "\rreading a, once: 25%\r"


def test_a_continued_run_says_how_much_is_done(capsys: pytest.CaptureFixture[str]) -> None:
    for total, done in ((1, 1), (3, 1)):
        Progress()(Started(total, done))
    assert capsys.readouterr().err == "continuing: 1 of 1 case done\ncontinuing: 1 of 3 cases done\n"
