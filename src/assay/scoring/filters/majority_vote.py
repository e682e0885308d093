"""Filter `majority_vote`: returns the most frequent reply."""

from __future__ import annotations

from collections import Counter

from assay.scoring.filters import Filter


def build() -> Filter:
    """Return the filter. In a tie the earlier reply wins. An "[invalid]" of an earlier filter counts as a vote."""
    return lambda replies: [Counter(replies).most_common(1)[0][0]]
