"""Lists of unchanged messages, and word budgets for memories that return the conversation as one text."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import msgspec

from assay.core.errors import UsageError
from assay.core.memory import MemoryItem, Message
from assay.memories.helpers.terms import WITHOUT_SPACES

# Values of the option `keep`: which end of a conversation stays if it exceeds the budget.
TAIL, HEAD = "tail", "head"
# In scripts without spaces, such as Chinese, each character counts as a word.
_WORD = re.compile(rf"[{WITHOUT_SPACES}]|[^\s{WITHOUT_SPACES}]+")


class MessageList:
    """Base of memories that store each message as one item. The item has the id of its message."""

    def __init__(self) -> None:
        self._items: list[MemoryItem] = []

    def reset(self) -> None:
        """Remove all items."""
        self._items = []

    def add(self, messages: Sequence[Message]) -> None:
        """Append one item for each message."""
        self._items += map(message_item, messages)

    def items(self) -> list[MemoryItem]:
        """Return the items in the order in which they were stored."""
        return list(self._items)

    def end_session(self) -> None:
        """Do nothing."""


class BoundedMessageList(MessageList):
    """A list of messages that can be cut to a budget of words.

    `keep` is `tail` to keep the newest messages, or `head` to keep the oldest.
    """

    def __init__(self, keep: str) -> None:
        if keep not in (TAIL, HEAD):
            raise UsageError(f"the memory's option keep is {TAIL!r} or {HEAD!r}, not {keep!r}")
        super().__init__()
        self._keep = keep
        self._word_counts: list[int] = []

    def reset(self) -> None:
        super().reset()
        self._word_counts = []

    def add(self, messages: Sequence[Message]) -> None:
        """Append one item for each message, and count its words."""
        super().add(messages)
        self._word_counts += [count_words(message.line) for message in messages]

    def within(self, budget: int) -> list[MemoryItem]:
        """Return the items that fit into a budget of words, in order. The last one that fits in part is cut."""
        step, cut = (-1, last_words) if self._keep == TAIL else (1, first_words)
        result: list[MemoryItem] = []
        for item, count in zip(self._items[::step], self._word_counts[::step], strict=True):
            if count > budget:
                if budget > 0:
                    result.append(msgspec.structs.replace(item, text=cut(item.text, budget)))
                break
            result.append(item)
            budget -= count
        return result[::step]


def message_item(message: Message) -> MemoryItem:
    """Return a message as an item, with its speaker in the text."""
    return MemoryItem(message.id, message.line, message.session, message.date, (message.id,))


def index_text(message: Message, *, date: bool) -> str:
    """Return the text under which a message is indexed: its line, and the session's date if `date` is set."""
    return f"{message.line} {message.date}" if date and message.date else message.line


def count_words(text: str) -> int:
    """Return the number of words of a text."""
    return len(_WORD.findall(text))


def first_words(text: str, limit: int) -> str:
    """Return the beginning of a text with at most `limit` words. White space between them is kept."""
    ends = [word.end() for word in _WORD.finditer(text)]
    if len(ends) <= limit:
        return text
    return text[: ends[limit - 1]] if limit > 0 else ""


def last_words(text: str, limit: int) -> str:
    """Return the end of a text with at most `limit` words."""
    starts = [word.start() for word in _WORD.finditer(text)]
    if len(starts) <= limit:
        return text
    return text[starts[-limit] :] if limit > 0 else ""


def join_newest(texts: Iterable[str], limit: int) -> str:
    """Join texts with line breaks, and keep the last `limit` words."""
    return last_words("\n".join(texts), limit)
