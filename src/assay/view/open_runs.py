"""The runs that the server has open, and the threads that read them.

    rows = await open_runs.ask(folder, lambda run: run.rows(selection))

Reading never happens in the event loop: a thread reads, and one thread at a time reads a run. The runs that were not
used for longest are closed when the open ones have too many rows for the server's memory.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from assay.core.errors import AssayError
from assay.store.open_run import OpenRun, unread_bytes
from assay.view.index_process import IndexProcess

T = TypeVar("T")

# A row takes about 100 bytes. One larger run alone may stay open.
MAX_ROWS = 1_200_000
MAX_RUNS = 50
# A journal of this size takes about a second to index. A longer time would be felt on the pages of other runs.
MAX_UNREAD = 60_000_000


class RunIsRead(Exception):
    """The index of a large run is being built by another process. `share` of its journal has been read."""

    def __init__(self, folder: Path, share: float) -> None:
        super().__init__(f"{folder.name}: {share:.0%}")
        self.folder = folder
        self.share = share


class _Slot:
    """An open run with its lock."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._stamp = _stamp(folder)
        self._run = OpenRun(folder)
        self.lock = asyncio.Lock()
        self.rows = 0

    def ask(self, question: Callable[[OpenRun], T]) -> T:
        """Answer a question. If another run is in the folder now, it is about that one."""
        stamp = _stamp(self._folder)
        if stamp != self._stamp:
            self._run.close()
            self._run, self._stamp = OpenRun(self._folder), stamp
        answer = question(self._run)
        self._run.release_memory()
        self.rows = self._run.size
        return answer

    def close(self) -> None:
        self._run.close()


def _stamp(folder: Path) -> tuple[int, int]:
    """Return what changes when a folder gets another `run.json`, or loses it."""
    try:
        stat = (folder / "run.json").stat()
    except OSError:
        return 0, 0
    return stat.st_ino, stat.st_mtime_ns


class OpenRuns:
    """Opens runs when they are asked for the first time."""

    def __init__(self, max_unread: int = MAX_UNREAD) -> None:
        self._slots: OrderedDict[Path, _Slot] = OrderedDict()
        self._processes: dict[Path, IndexProcess] = {}
        self._max_unread = max_unread
        self._starting = asyncio.Lock()

    async def ask(self, folder: Path, question: Callable[[OpenRun], T]) -> T:
        """Return the answer to a question about a run, which a thread computes.

        Raises RunIsRead while the first index of a large run is being built.
        """
        slot = self._slots.get(folder)
        if slot is None:
            async with self._starting:  # two requests must not start two processes for one run
                await self._read_first(folder)
            slot = self._slots.setdefault(folder, await asyncio.to_thread(_Slot, folder))
        self._slots.move_to_end(folder)
        async with slot.lock:
            answer = await asyncio.to_thread(slot.ask, question)
        await self._close_unused()
        return answer

    async def wait_for_index(self, folder: Path) -> None:
        """Have the index of a run ready for another reader. Raises RunIsRead while that of a large run is built."""
        if folder not in self._slots:
            async with self._starting:
                await self._read_first(folder)

    async def _read_first(self, folder: Path) -> None:
        """Have another process build the index of a large run. Raises RunIsRead until it is ready."""
        process = self._processes.get(folder)
        if process is None:
            if await asyncio.to_thread(unread_bytes, folder) <= self._max_unread:
                return
            process = self._processes[folder] = await IndexProcess.start(folder)
        if not process.is_over:
            raise RunIsRead(folder, process.share)
        # A folder that cannot be written has no sidecar even now. Then this process reads the journal itself.
        del self._processes[folder]
        if process.error:
            raise AssayError(process.error)

    async def _close_unused(self) -> None:
        while len(self._slots) > 1:
            rows = sum(slot.rows for slot in self._slots.values())
            if rows <= MAX_ROWS and len(self._slots) <= MAX_RUNS:
                return
            folder, slot = next(iter(self._slots.items()))
            if slot.lock.locked():
                return  # in use after all; the next question closes it
            del self._slots[folder]
            slot.close()

    async def close(self) -> None:
        """Close all runs and end the processes that build indexes. They can begin again at any time."""
        for process in self._processes.values():
            await process.stop()
        for slot in self._slots.values():
            slot.close()
        self._slots.clear()
