"""Strips white space at both ends."""

from __future__ import annotations

from assay.scoring.filters import Filter


def build() -> Filter:
    """Takes no options."""
    return lambda replies: [reply.strip() for reply in replies]
