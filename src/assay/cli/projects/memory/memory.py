"""A memory of your own: `--memory memory.py:make` uses it.

assay inserts a conversation two messages at a time and asks the memory for the messages that answer a question. This
memory keeps every message and returns those that share the most words with the question. Replace the two methods
`add` and `search` by your own system.
"""

import re
from typing import Any

from assay import AboutMemory, MemoryItem, Message, Query, SearchHit, options_of

# `options` are the settings of the memory with their defaults. `--memory-args min_letters=3` changes one.
ABOUT = AboutMemory(summary="messages that share words with the question", options={"min_letters": 4})


class WordMemory:
    """Keeps messages and finds them by common words. Every method may be `async`."""

    def __init__(self, min_letters: int) -> None:
        self._min_letters = min_letters
        self._items: list[MemoryItem] = []

    def reset(self) -> None:
        """Forget everything. assay calls it before each conversation."""
        self._items = []

    def add(self, messages: list[Message]) -> None:
        """Insert new messages.

        `sources` names the messages that an item is made of. assay uses it to measure whether the search returns
        the evidence of a question. An item with a summary of several messages lists all of them.
        """
        for message in messages:
            text = f"{message.speaker}: {message.text}"
            self._items.append(MemoryItem(message.id, text, message.session, message.date, sources=(message.id,)))

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return at most `k` items, the best one first."""
        wanted = self._words(query.text)
        hits = []
        for item in self._items:
            common = len(wanted & self._words(item.text))
            if common:
                hits.append(SearchHit(item, float(common)))
        return sorted(hits, key=lambda hit: -hit.score)[:k]

    def items(self) -> list[MemoryItem]:
        """Return a list of all items that later messages do not change."""
        return list(self._items)

    def end_session(self) -> None:
        """Nothing to do. A memory that summarises could do it here, at the end of each session."""

    def _words(self, text: str) -> set[str]:
        # Short words such as "the" are in every message and would decide the order.
        return {word for word in re.findall(r"\w+", text.lower()) if len(word) >= self._min_letters}


def make(context: Any) -> WordMemory:
    """Build the memory for one conversation. `context.ask` calls the model of the run, `context.embed` embeds texts."""
    return WordMemory(**options_of(ABOUT, context.options))
