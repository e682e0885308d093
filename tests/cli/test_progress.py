"""What a line of progress tells."""

from __future__ import annotations

from pathlib import Path

import pytest

from assay import progress
from assay.core.events import Called, Started
from assay.core.types import Usage
from assay.progress import Progress, ReadingBar


def test_calls_of_long_cases_are_told() -> None:
    """A conversation takes thousands: without them nothing moves until it ends."""
    shown = Progress()
    shown(Started(1, 0))
    for _ in range(10):
        shown(Called(None, failed=False, replayed=False))
    assert shown.line() == "0/1 · 0.0/s"
    shown(Called(Usage(7, 5), failed=False, replayed=False))
    assert shown.line() == "0/1 · 0.0/s · 11 calls · 7 tokens in, 5 out"


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
