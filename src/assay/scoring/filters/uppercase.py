"""Filter `uppercase`: converts replies to upper case."""

from __future__ import annotations

from assay.scoring.filters import Filter


def build() -> Filter:
    """Return the filter. There are no options."""
    return lambda replies: [reply.upper() for reply in replies]
