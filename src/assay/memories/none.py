"""No memory at all: what a model answers without any."""

from __future__ import annotations

from collections.abc import Sequence

from assay.core.memory import AboutMemory, Around, Found, Item, Message, Query

ABOUT = AboutMemory(summary="holds nothing: the answer without a memory", reference=True, quick=True)


class Nothing:
    """Takes everything and keeps nothing."""

    def reset(self) -> None:
        """There is nothing."""

    def add(self, messages: Sequence[Message]) -> None:
        """Forget them."""

    def search(self, query: Query, k: int) -> list[Found]:
        """Nothing."""
        return []

    def items(self) -> list[Item]:
        """Nothing."""
        return []

    def end_session(self) -> None:
        """Nothing ends."""


def make(around: Around) -> Nothing:
    """It needs nothing."""
    return Nothing()
