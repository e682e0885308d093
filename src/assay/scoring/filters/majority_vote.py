"""Keeps the most frequent reply."""

from __future__ import annotations

from collections import Counter

from assay.scoring.filters import Filter


def build() -> Filter:
    """A tie goes to the reply that came first. An "[invalid]" of an earlier filter votes too, and may win."""
    return lambda replies: [Counter(replies).most_common(1)[0][0]]
