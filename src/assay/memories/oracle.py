"""`oracle`: a reference that returns exactly the evidence of each question, the best possible search result."""

from __future__ import annotations

from assay.core.memory import AboutMemory, MemoryContext, Query, SearchHit
from assay.memories.helpers.messages import MessageList

ABOUT = AboutMemory(
    summary="returns exactly the evidence of each question, whatever k is",
    reference=True,
    needs_evidence=True,
    quick=True,
)


class OracleMemory(MessageList):
    """Stores every message, and returns those that the question names as its evidence."""

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return all evidence that was inserted so far, in the order in which the question lists it."""
        items = {item.id: item for item in self._items}
        return [SearchHit(items[id_], 1.0) for id_ in dict.fromkeys(query.evidence) if id_ in items]


def make(context: MemoryContext) -> OracleMemory:
    """Make an empty memory."""
    return OracleMemory()
