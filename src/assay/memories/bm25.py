"""BM25: the messages that share the question's rare words, as a search engine finds them."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, Around, Found, Message, Query, options_of
from assay.memories.index.postings import Postings
from assay.memories.index.terms import terms
from assay.memories.listing.items import Listed, indexed

ABOUT = AboutMemory(
    summary="finds messages by their words (BM25), dates and speakers included",
    quick=True,
    options={"k1": 1.2, "b": 0.4, "date": True},
)
"""Messages are short, and their length says little: b is below the 0.75 that long documents ask for."""


class Bm25(Listed):
    """A message is found by its words, its speaker's name and, unless `date` is off, its session's date."""

    def __init__(self, k1: float, b: float, *, date: bool) -> None:
        super().__init__()
        self._k1, self._b, self._date = k1, b, date
        self._postings = Postings(k1, b)

    def reset(self) -> None:
        """Hold nothing."""
        super().reset()
        self._postings = Postings(self._k1, self._b)

    def add(self, messages: Sequence[Message]) -> None:
        """One item a message."""
        super().add(messages)
        self._postings.add([terms(indexed(message, date=self._date)) for message in messages])

    def search(self, query: Query, k: int) -> list[Found]:
        """Only messages that share a word with the question; of equal ones the earlier first."""
        return [Found(self._items[place], score) for place, score in self._postings.top(terms(query.text), k)]


def make(around: Around) -> Bm25:
    """It needs nothing from outside."""
    options = options_of(ABOUT, around.options)
    return Bm25(options["k1"], options["b"], date=options["date"])
