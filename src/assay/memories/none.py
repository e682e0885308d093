"""No memory at all. It shows what a model answers without any."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, MemoryContext, MemoryItem, Message, Query, SearchHit

ABOUT = AboutMemory(summary="holds nothing: the answer without a memory", reference=True, quick=True)


class EmptyMemory:
    """Takes every message and stores none."""

    def reset(self) -> None:
        """Do nothing."""

    def add(self, messages: Sequence[Message]) -> None:
        """Drop the messages."""

    def search(self, query: Query, k: int) -> list[SearchHit]:
        """Return nothing."""
        return []

    def items(self) -> list[MemoryItem]:
        """Return nothing."""
        return []

    def end_session(self) -> None:
        """Do nothing."""


def make(context: MemoryContext) -> EmptyMemory:
    """Make an empty memory, which stays empty."""
    return EmptyMemory()
