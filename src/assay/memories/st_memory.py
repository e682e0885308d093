"""STMemory, short-term memory: returns the last k messages, newest first. It ignores the question."""

from __future__ import annotations

from assay.core.memory import AboutMemory, MemoryContext, Query, SearchHit, options_of
from assay.memories.helpers.messages import MessageList
from assay.memories.helpers.scores import limit

ABOUT = AboutMemory(
    summary="returns the last k messages, newest first, whatever the question is",
    quick=True,
    options={"k": 0},
)


class ShortTermMemory(MessageList):
    """Stores every message, and returns the last ones."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self._k = k

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return the newest messages with the scores 1, 1/2, 1/3 and so on."""
        newest = self._items[::-1][: limit(k, self._k)]
        return [SearchHit(item, 1 / rank) for rank, item in enumerate(newest, 1)]


def make(context: MemoryContext) -> ShortTermMemory:
    """Make an empty memory."""
    return ShortTermMemory(**options_of(ABOUT, context.options))
