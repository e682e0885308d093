"""Full memory: everything that was said, as one text.

Within `words` words. `keep: tail` keeps the newest, `keep: head` the oldest, as MemEngine does.
"""

from __future__ import annotations

from assay.core.memory import AboutMemory, Around, Found, Query, options_of
from assay.memories.listing.full import TAIL, Full

ABOUT = AboutMemory(
    summary="everything that was said, the newest within a budget of words; the question does not matter",
    bundle=True,
    quick=True,
    options={"words": 50_000, "keep": TAIL},
)


class FullMemory(Full):
    """Every message, in order."""

    def __init__(self, words: int, keep: str) -> None:
        super().__init__(keep)
        self._words = words

    def search(self, query: Query, k: int) -> list[Found]:
        """Everything within the budget, whatever `k` is."""
        return [Found(item, 1.0) for item in self.within(self._words)]


def make(around: Around) -> FullMemory:
    """It needs its options alone."""
    return FullMemory(**options_of(ABOUT, around.options))
