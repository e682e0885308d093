"""The size of a memory at the end of its conversations: items, characters, and tokens by estimate."""

from __future__ import annotations

from statistics import fmean

from msgspec import Struct

from assay.core.report import Cell, Table
from assay.suites.memory.conversation import MemorySize

# Rule of thumb for English text. Tokenizers differ by model, and a memory has none.
CHARACTERS_PER_TOKEN = 4


class SizeSummary(Struct, kw_only=True):
    """Means over the conversations whose size is known. None if there is none.

    `unknown` counts the conversations whose memory could not list its items, and `why` has the first reason.
    """

    conversations: int = 0
    unknown: int = 0
    items: float | None = None
    characters: float | None = None
    tokens: float | None = None
    why: str = ""


class SizeTally:
    """Collects the sizes of one memory, conversation by conversation."""

    def __init__(self) -> None:
        self._sizes: list[tuple[int, int]] = []
        self._unknown = 0
        self._why = ""

    def add(self, size: MemorySize | None) -> None:
        """Add the size after a conversation. None: the run was made before sizes were recorded."""
        if size is None or size.items is None or size.characters is None:
            self._unknown += 1
            self._why = self._why or (size.error if size else "the run has no sizes")
        else:
            self._sizes.append((size.items, size.characters))

    def summary(self) -> SizeSummary:
        """Return the means."""
        summary = SizeSummary(conversations=len(self._sizes), unknown=self._unknown, why=self._why)
        if self._sizes:
            summary.items = fmean(items for items, _ in self._sizes)
            summary.characters = fmean(characters for _, characters in self._sizes)
            summary.tokens = summary.characters / CHARACTERS_PER_TOKEN
        return summary


def size_tables(size: SizeSummary | None) -> list[Table]:
    """Return the sizes as a table of one row, or no table if no conversation has been tested."""
    if size is None or not size.conversations + size.unknown:
        return []
    row: list[Cell] = [size.conversations]
    row += [None if value is None else round(value) for value in (size.items, size.characters, size.tokens)]
    columns = ["conversations", "items", "characters", f"tokens (characters / {CHARACTERS_PER_TOKEN})"]
    note = f"size unknown in {size.unknown:,} conversations: {size.why}" if size.unknown else ""
    title = "size of the memory after a conversation, mean"
    return [Table(name="size", title=title, columns=columns, rows=[row], note=note, names=0)]
