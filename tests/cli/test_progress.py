"""What a line of progress tells."""

from __future__ import annotations

from assay.core.events import Called, Started
from assay.core.types import Usage
from assay.progress import Progress


def test_calls_of_long_cases_are_told() -> None:
    """A conversation takes thousands: without them nothing moves until it ends."""
    shown = Progress()
    shown(Started(1, 0))
    for _ in range(10):
        shown(Called(None, failed=False, replayed=False))
    assert shown.line() == "0/1 · 0.0/s"
    shown(Called(Usage(7, 5), failed=False, replayed=False))
    assert shown.line() == "0/1 · 0.0/s · 11 calls · 7 tokens in, 5 out"
