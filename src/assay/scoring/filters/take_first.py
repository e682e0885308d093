"""Filter `take_first`: returns the first reply, not in a list."""

from __future__ import annotations

from assay.scoring.filters import Filter


def build() -> Filter:
    """Return the filter. There are no options."""
    return lambda replies: replies[0]
