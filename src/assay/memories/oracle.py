"""The evidence itself: the best that any memory could find."""

from __future__ import annotations

from assay.core.memory import AboutMemory, Around, Found, Query
from assay.memories.listing.items import Listed

ABOUT = AboutMemory(
    summary="gives exactly the evidence of each question, whatever k is",
    reference=True,
    needs_evidence=True,
    quick=True,
)


class Oracle(Listed):
    """Holds every message, and is told which ones to give."""

    def search(self, query: Query, k: int) -> list[Found]:
        """All evidence that was inserted, in the order of the question's own list."""
        known = {item.id: item for item in self.items()}
        return [Found(known[place], 1.0) for place in query.evidence if place in known]


def make(around: Around) -> Oracle:
    """It needs nothing but the places."""
    return Oracle()
