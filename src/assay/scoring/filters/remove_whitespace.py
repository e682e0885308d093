"""Filter `remove_whitespace`: removes white space at both ends of a reply."""

from __future__ import annotations

from assay.scoring.filters import Filter


def build() -> Filter:
    """Return the filter. There are no options."""
    return lambda replies: [reply.strip() for reply in replies]
