"""Short-term memory: the last k messages, newest first."""

from __future__ import annotations

from assay.core.memory import AboutMemory, Around, Found, Query, options_of
from assay.memories.listing.items import Listed
from assay.memories.listing.limits import most

ABOUT = AboutMemory(
    summary="the last k messages, newest first; the question does not matter", quick=True, options={"k": 0}
)


class ShortTerm(Listed):
    """Every message; the last ones are found."""

    def __init__(self, k: int) -> None:
        super().__init__()
        self._k = k

    def search(self, query: Query, k: int) -> list[Found]:
        """Score 1 for the newest, 1/2 for the one before it, and so on."""
        newest = self._items[::-1][: most(k, self._k)]
        return [Found(item, 1 / rank) for rank, item in enumerate(newest, 1)]


def make(around: Around) -> ShortTerm:
    """It needs its options alone."""
    return ShortTerm(**options_of(ABOUT, around.options))
