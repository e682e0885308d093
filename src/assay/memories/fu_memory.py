"""FUMemory, full memory: returns the whole conversation as one text.

The text has at most `words` words. If the conversation is longer, `keep: tail` keeps its newest messages and
`keep: head` the oldest ones. MemEngine keeps the oldest.
"""

from __future__ import annotations

from assay.core.memory import AboutMemory, MemoryContext, Query, SearchHit, options_of
from assay.memories.helpers.messages import TAIL, BoundedMessageList

ABOUT = AboutMemory(
    summary="returns the whole conversation, cut to the newest 50,000 words, whatever the question is",
    bundle=True,
    quick=True,
    options={"words": 50_000, "keep": TAIL},
)


class FullMemory(BoundedMessageList):
    """Stores every message, in order."""

    def __init__(self, words: int, keep: str) -> None:
        super().__init__(keep)
        self._words = words

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return every message that fits into the budget, whatever `k` is."""
        return [SearchHit(item, 1.0) for item in self.within(self._words)]


def make(context: MemoryContext) -> FullMemory:
    """Make an empty memory."""
    return FullMemory(**options_of(ABOUT, context.options))
