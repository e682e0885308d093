"""The comparisons that the server has open, and the threads and processes that compute them.

    overview = await comparisons.overview([RunChoice(before, ""), RunChoice(after, "")])
    page = await comparisons.page(choices, PairSelection(show="worse"))

Pairing two runs of a million cases takes seconds, so a comparison is kept while its runs do not change. Large runs are
compared in a process of their own, of which one is open at a time: it takes some hundred megabytes. Small ones are
compared in a thread.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple, TypeVar

from assay.store.comparison.case_pages import (
    ComparedCases,
    ComparisonOverview,
    FlippedRows,
    OpenComparison,
    PackedFlips,
    PairPage,
    PairSelection,
)
from assay.store.comparison.case_table import TablePage, TableSelection
from assay.store.open_run import column_bytes
from assay.view.compare_process import (
    CasesQuestion,
    ComparisonProcess,
    FindQuestion,
    FlippedQuestion,
    OverviewQuestion,
    Question,
    answer,
)

T = TypeVar("T")

MAX_COMPARISONS = 8
MAX_COLUMNS = 8_000_000
"""Bytes of the columns of all compared runs, about 80,000 cases. More of them are compared in a process."""
IDLE_SECONDS = 900.0
"""A process that was not asked for so long is ended, because of its memory."""


class RunChoice(NamedTuple):
    """One run of a comparison: its folder, and one of its subjects or an empty text for all."""

    folder: Path
    subject: str

    @property
    def name(self) -> str:
        """The run as `assay compare` names it."""
        return f"{self.folder}@{self.subject}" if self.subject else str(self.folder)


class OpenComparisons:
    """Computes comparisons when they are asked for the first time."""

    def __init__(self, max_columns: int = MAX_COLUMNS) -> None:
        self._slots: OrderedDict[tuple[object, ...], _ThreadSlot | _ProcessSlot] = OrderedDict()
        self._max_columns = max_columns

    async def overview(self, choices: Sequence[RunChoice]) -> ComparisonOverview:
        """Return all numbers. Raises UsageError for runs that cannot be compared, as all methods do."""
        return await self._ask(choices, OverviewQuestion(), ComparisonOverview)

    async def page(self, choices: Sequence[RunChoice], selection: PairSelection) -> PairPage:
        """Return some cases of two runs."""
        return await self._ask(choices, selection, PairPage)

    async def table(self, choices: Sequence[RunChoice], selection: TableSelection) -> TablePage:
        """Return some cases of several runs."""
        return await self._ask(choices, selection, TablePage)

    async def cases(self, choices: Sequence[RunChoice], selection: PairSelection | TableSelection) -> ComparedCases:
        """Return all texts of the first selected case."""
        return await self._ask(choices, CasesQuestion(selection), ComparedCases)

    async def find(self, choices: Sequence[RunChoice], index: int, part: str) -> PairSelection:
        """Return where a row that flipped is among the cases that changed."""
        return await self._ask(choices, FindQuestion(index, part), PairSelection)

    async def flipped(self, choices: Sequence[RunChoice]) -> FlippedRows:
        """Return the rows that flipped. It is the same object every time: selections of rows are kept by it."""
        slot = await self._slot(choices)
        if slot.flipped is None:
            packed = await self._ask(choices, FlippedQuestion(), PackedFlips)
            slot.flipped = slot.flipped or FlippedRows.unpack(packed)
        return slot.flipped

    async def _ask(self, choices: Sequence[RunChoice], question: Question, kind: type[T]) -> T:
        slot = await self._slot(choices)
        try:
            return await slot.ask(question, kind)
        finally:
            await self._close_unused()

    async def _slot(self, choices: Sequence[RunChoice]) -> _ThreadSlot | _ProcessSlot:
        """Return the comparison of these runs. It is opened when it is asked."""
        # A run that is continued or scored again has a new summary.
        stamps = [_written(choice.folder / "summary.json") for choice in choices]
        key = (*(choice.name for choice in choices), *stamps)
        slot = self._slots.get(key)
        if slot is None or slot.has_ended:
            names = [choice.name for choice in choices]
            size = sum(column_bytes(folder) for folder in {choice.folder for choice in choices})
            slot = _ThreadSlot(names, size) if size <= self._max_columns else _ProcessSlot(names)
            replaced = [self._slots.pop(key)] if key in self._slots else []
            if isinstance(slot, _ProcessSlot):
                # One process at a time. Whoever waits for an answer of the other one is told to load the page again.
                others = [each for each, open_slot in self._slots.items() if isinstance(open_slot, _ProcessSlot)]
                replaced += [self._slots.pop(other) for other in others]
            self._slots[key] = slot
            for each in replaced:
                await each.close()
        else:
            self._slots.move_to_end(key)
        return slot

    async def _close_unused(self) -> None:
        while len(self._slots) > 1:
            size = sum(slot.size for slot in self._slots.values())
            if size <= self._max_columns and len(self._slots) <= MAX_COMPARISONS:
                return
            key, slot = next(iter(self._slots.items()))
            if slot.lock.locked():
                return  # in use after all; the next question closes it
            del self._slots[key]
            await slot.close()

    async def close(self) -> None:
        """Close all comparisons and end their processes."""
        while self._slots:
            await self._slots.popitem()[1].close()


class _ThreadSlot:
    """A comparison in this process. Threads compute its answers, one at a time."""

    has_ended = False

    def __init__(self, names: Sequence[str], size: int) -> None:
        self.size = size
        self.lock = asyncio.Lock()
        self.flipped: FlippedRows | None = None
        self._names = names
        self._comparison: OpenComparison | None = None

    async def ask(self, question: Question, kind: type[T]) -> T:
        async with self.lock:
            result = await asyncio.to_thread(self._answer, question)
        assert isinstance(result, kind)
        return result

    def _answer(self, question: Question) -> object:
        if self._comparison is None:
            self._comparison = OpenComparison(self._names)
        return answer(self._comparison, question)

    async def close(self) -> None:
        if self._comparison is not None:
            self._comparison.close()


class _ProcessSlot:
    """A comparison in a process of its own, which is ended when nothing has been asked for a while."""

    size = 0  # it takes no memory of this process

    def __init__(self, names: Sequence[str]) -> None:
        self.lock = asyncio.Lock()
        self.flipped: FlippedRows | None = None
        self._names = names
        self._process: ComparisonProcess | None = None
        self._is_closed = False
        self._idle: asyncio.TimerHandle | None = None
        self._closing: asyncio.Future[None] | None = None

    @property
    def has_ended(self) -> bool:
        return self._is_closed or (self._process is not None and self._process.has_ended)

    async def ask(self, question: Question, kind: type[T]) -> T:
        # A request that is cancelled must not leave its answer in the pipe for the next one.
        return await asyncio.shield(asyncio.ensure_future(self._ask(question, kind)))

    async def _ask(self, question: Question, kind: type[T]) -> T:
        async with self.lock:
            if self._process is None:
                self._process = await ComparisonProcess.start(self._names)
            if self._is_closed:
                await self._process.end()  # closed while it started, or while this question waited for others
            if self._idle is not None:
                self._idle.cancel()
            try:
                return await self._process.ask(question, kind)
            finally:
                self._idle = asyncio.get_running_loop().call_later(IDLE_SECONDS, self._close_idle)

    def _close_idle(self) -> None:
        self._closing = asyncio.ensure_future(self.close())

    async def close(self) -> None:
        self._is_closed = True
        if self._idle is not None:
            self._idle.cancel()
        if self._process is not None:
            await self._process.end()


def _written(path: Path) -> int:
    try:
        return path.stat().st_mtime_ns
    except OSError:
        return 0
