"""`none`, an empty memory: a reference that shows what the model answers without a memory."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit

ABOUT = AboutMemory(summary="stores nothing: shows what the model answers without a memory", reference=True, quick=True)


class EmptyMemory:
    """Accepts every message and stores none."""

    def reset(self) -> None:
        """Do nothing."""

    def add(self, messages: Sequence[Message]) -> None:
        """Drop the messages."""

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return an empty list."""
        return []

    def items(self) -> list[MemoryItem]:
        """Return an empty list."""
        return []

    def end_session(self) -> None:
        """Do nothing."""


def make(context: MemoryContext) -> EmptyMemory:
    """Make a memory that stays empty."""
    return EmptyMemory()
