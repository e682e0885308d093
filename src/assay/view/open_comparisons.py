"""The comparisons that the server has open, and the threads that compute them.

    page = await comparisons.ask([str(before), str(after)], lambda comparison: comparison.page(selection))

Pairing two runs of a million cases takes seconds, so a comparison is kept while its runs do not change. The ones that
were not used for longest are closed when there are too many of them.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from assay.store.comparison.case_pages import OpenComparison

T = TypeVar("T")

# A paired score takes about 100 bytes. One larger comparison alone may stay open.
MAX_SCORES = 500_000
MAX_COMPARISONS = 8


class RunChoice(NamedTuple):
    """One run of a comparison: its folder, and one of its subjects or an empty text for all."""

    folder: Path
    subject: str

    @property
    def name(self) -> str:
        """The run as `assay compare` names it."""
        return f"{self.folder}@{self.subject}" if self.subject else str(self.folder)


class _OpenPair:
    """An open comparison with its lock."""

    def __init__(self, comparison: OpenComparison) -> None:
        self.comparison = comparison
        self.lock = asyncio.Lock()


class OpenComparisons:
    """Computes comparisons when they are asked for the first time."""

    def __init__(self) -> None:
        self._slots: OrderedDict[tuple[object, ...], _OpenPair] = OrderedDict()
        # One at a time: a comparison of large runs uses much memory while it is made.
        self._making = asyncio.Lock()

    async def ask(self, choices: Sequence[RunChoice], question: Callable[[OpenComparison], T]) -> T:
        """Return the answer to a question about a comparison, which a thread computes.

        Raises UsageError for runs that cannot be compared.
        """
        # A run that is continued or scored again has a new summary.
        stamps = [_written(choice.folder / "summary.json") for choice in choices]
        key = (*(choice.name for choice in choices), *stamps)
        async with self._making:
            slot = self._slots.get(key)
            if slot is None:
                names = [choice.name for choice in choices]
                slot = self._slots[key] = _OpenPair(await asyncio.to_thread(OpenComparison, names))
            self._slots.move_to_end(key)
            self._close_unused()
        async with slot.lock:
            return await asyncio.to_thread(question, slot.comparison)

    def _close_unused(self) -> None:
        while len(self._slots) > 1:
            scores = sum(slot.comparison.size for slot in self._slots.values())
            if scores <= MAX_SCORES and len(self._slots) <= MAX_COMPARISONS:
                return
            key, slot = next(iter(self._slots.items()))
            if slot.lock.locked():
                return  # in use after all; the next question closes it
            del self._slots[key]
            slot.comparison.close()

    def close(self) -> None:
        """Close all comparisons."""
        for slot in self._slots.values():
            slot.comparison.close()
        self._slots.clear()


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
