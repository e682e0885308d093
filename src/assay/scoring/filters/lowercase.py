"""Filter `lowercase`: converts replies to lower case."""

from __future__ import annotations

from assay.scoring.filters import Filter


def build() -> Filter:
    """Return the filter. There are no options."""
    return lambda replies: [reply.lower() for reply in replies]
