"""Lower-cases replies."""

from __future__ import annotations

from assay.scoring.filters import Filter


def build() -> Filter:
    """Takes no options."""
    return lambda replies: [reply.lower() for reply in replies]
