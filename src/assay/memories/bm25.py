"""`bm25`: finds messages that share words with the question; rare words count more, as in a search engine."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, MemoryContext, Message, Query, SearchHit, options_of
from assay.memories.helpers.bm25_index import Bm25Index
from assay.memories.helpers.messages import MessageList, index_text
from assay.memories.helpers.terms import terms

# `b` sets how much a long text is penalised. The usual 0.75 is for long documents. The lengths of chat messages
# say little about their content, so it is lower here.
ABOUT = AboutMemory(
    summary="finds messages by words (BM25), including dates and speakers",
    quick=True,
    options={"k1": 1.2, "b": 0.4, "date": True},
)


class Bm25Memory(MessageList):
    """Searches messages by their words, the speaker's name and, unless `date` is off, the session's date."""

    def __init__(self, k1: float, b: float, *, date: bool) -> None:
        super().__init__()
        self._k1, self._b, self._date = k1, b, date
        self._index = Bm25Index(k1, b)

    def reset(self) -> None:
        super().reset()
        self._index = Bm25Index(self._k1, self._b)

    def add(self, messages: Sequence[Message]) -> None:
        super().add(messages)
        self._index.add([terms(index_text(message, date=self._date)) for message in messages])

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return only messages that share a word with the question. Ties go to the earlier message."""
        best = self._index.search(terms(query.text), k)
        return [SearchHit(self._items[place], score) for place, score in best]


def make(context: MemoryContext) -> Bm25Memory:
    """Make an empty memory."""
    options = options_of(ABOUT, context.options)
    return Bm25Memory(options["k1"], options["b"], date=options["date"])
