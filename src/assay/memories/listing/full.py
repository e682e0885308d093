"""All messages within a budget of words: the ground of memories that give everything as one text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import msgspec

from assay.core.errors import UsageError
from assay.core.memory import Item, Message
from assay.memories.listing.items import Listed
from assay.memories.listing.words import first_words, last_words, words_in

TAIL, HEAD = "tail", "head"


class Full(Listed):
    """Listed, with what fits into a budget. `keep` says which end stays: the newest, or the oldest."""

    def __init__(self, keep: str) -> None:
        if keep not in (TAIL, HEAD):
            raise UsageError(f"keep is {TAIL!r} or {HEAD!r}, not {keep!r}")
        super().__init__()
        self._keep = keep
        self._counts: list[int] = []

    def reset(self) -> None:
        """Hold nothing."""
        super().reset()
        self._counts = []

    def add(self, messages: Sequence[Message]) -> None:
        """One item a message, and how long it is."""
        super().add(messages)
        self._counts += [words_in(message.line) for message in messages]

    def within(self, budget: int) -> list[Item]:
        """In order. The item at the edge is cut, and keeps its id."""
        step = -1 if self._keep == TAIL else 1
        return list(self._fitting(budget, step))[::step]

    def _fitting(self, left: int, step: int) -> Iterator[Item]:
        cut = last_words if step < 0 else first_words
        for item, count in zip(self._items[::step], self._counts[::step], strict=True):
            if count > left:
                if left > 0:
                    yield msgspec.structs.replace(item, text=cut(item.text, left))
                return
            yield item
            left -= count
