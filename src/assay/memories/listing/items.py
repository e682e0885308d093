"""A list of messages as items: the ground of memories that keep texts as they came."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import Item, Message


class Listed:
    """Every message is an item with the message's own place as its id."""

    def __init__(self) -> None:
        self._items: list[Item] = []

    def reset(self) -> None:
        """Hold nothing."""
        self._items = []

    def add(self, messages: Sequence[Message]) -> None:
        """One item a message."""
        self._items += map(item_of, messages)

    def items(self) -> list[Item]:
        """In the order in which they came."""
        return list(self._items)

    def end_session(self) -> None:
        """Nothing is done then."""


def item_of(message: Message) -> Item:
    """A message as it is, with its speaker."""
    return Item(message.id, message.line, message.session, message.date, (message.id,))


def indexed(message: Message, *, date: bool) -> str:
    """What a message is looked up by: its line, and the date of its session if that is wanted."""
    return f"{message.line} {message.date}" if date and message.date else message.line
