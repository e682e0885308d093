"""Keeps the first reply and drops the list around it."""

from __future__ import annotations

from assay.scoring.filters import Filter


def build() -> Filter:
    """Takes no options."""
    return lambda replies: replies[0]
