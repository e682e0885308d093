"""What the pages of HOP tasks share: the task of an address, its tabs, trials, and files that were read already.

task = await open_task(request)             # 404 outside of DIR
state = request.app[HOP]
index = await asyncio.to_thread(state.index, path, task.contract)
"""

from __future__ import annotations

import asyncio
import os
from collections import OrderedDict
from pathlib import Path
from threading import Lock
from typing import TypeVar

from aiohttp import web
from msgspec import Struct

from assay.core.errors import InputError
from assay.suites.hop.contract import Contract
from assay.suites.hop.result_folder import data_store
from assay.suites.hop.store import BaseDataStore
from assay.suites.hop.task_folder import HopTask, is_task, read_task
from assay.view.hop.history import RecordCount, ResultIndex, count_records
from assay.view.hop.trials import Trials
from assay.view.site import SITE, Site
from assay.view.text import plain

TABS = {"run": "Run", "batch": "Batch", "history": "History", "stats": "Stats", "perf": "Perf"}
# Files and stores that are kept. An index has 8 bytes a record; a store has the output fields of all results.
_MAX_INDEXES, _MAX_STORES = 8, 4

T = TypeVar("T")


class TaskHead(Struct, kw_only=True):
    """The top of every page of a task."""

    title: str
    name: str
    """The path of the task below DIR, as it stands in addresses."""
    tab: str
    version: str
    problem: str
    has_code: bool
    can_write: bool
    """Whether this user may write into `TestCases/`."""

    @property
    def can_run(self) -> bool:
        """Whether the task has a function, and a valid contract and settings."""
        return self.has_code and not self.problem

    @property
    def tabs(self) -> list[tuple[str, str, bool]]:
        """Title and address of each tab, and whether it is this one."""
        return [(title, f"/hop/{tab}/{self.name}", tab == self.tab) for tab, title in TABS.items()]


class TaskFile(Struct, frozen=True):
    """A data or result file of a task."""

    path: Path
    count: RecordCount

    @property
    def name(self) -> str:
        """The name of the file."""
        return self.path.name

    @property
    def label(self) -> str:
        """The name with the number of its data records, as HOP's View writes it."""
        return f"{self.name} ({self.count.records:,} record{'' if self.count.records == 1 else 's'})"


class HopState:
    """The trials of a server, and what it has read of result files. Any thread may read."""

    def __init__(self) -> None:
        self.trials = Trials()
        self._indexes: OrderedDict[Path, ResultIndex] = OrderedDict()
        self._stores: OrderedDict[Path, tuple[Contract, BaseDataStore]] = OrderedDict()
        self._lock = Lock()

    def index(self, path: Path, contract: Contract) -> ResultIndex:
        """Return the index of a file. Reads the file if it has changed. Raises InputError if that fails."""
        with self._lock:
            index = self._indexes.get(path)
        if index is None or not index.is_current(contract):
            index = ResultIndex(path, contract)
        self._keep(self._indexes, path, index, _MAX_INDEXES)
        return index

    def store(self, task: HopTask) -> BaseDataStore:
        """Return the store of a task's results, up to date. Raises UsageError without a folder `TestCases/`."""
        with self._lock:
            contract, store = self._stores.get(task.folder, (None, None))
        if store is None or contract != task.contract:
            store = data_store(task.folder)
        self._keep(self._stores, task.folder, (task.contract, store), _MAX_STORES)
        store.load_results()
        return store

    def _keep(self, kept: OrderedDict[Path, T], key: Path, value: T, most: int) -> None:
        with self._lock:
            kept[key] = value
            kept.move_to_end(key)
            while len(kept) > most:
                kept.popitem(last=False)


HOP = web.AppKey("hop", HopState)


async def close_trials(app: web.Application) -> None:
    """End the processes of all trials."""
    await app[HOP].trials.close()


async def open_task(request: web.Request) -> HopTask:
    """Return the task of an address. Raises 404 if there is none, also for links that lead out of DIR."""
    site, name = request.app[SITE], request.match_info["task"]
    return await asyncio.to_thread(_open_task, site, name)


def _open_task(site: Site, name: str) -> HopTask:
    try:
        folder = (site.root / name).resolve()
        if folder.is_relative_to(site.root) and is_task(folder):
            task = read_task(folder)
            parts = (task.folder / "Hoplet" / "Hop.py", task.test_cases)
            if all(part.resolve().is_relative_to(site.root) for part in parts):
                return task
    except (OSError, ValueError):  # a name that no file can have
        pass
    raise web.HTTPNotFound(text=f"There is no HOP task {plain(name)!r} below {site.root}.")


def task_head(site: Site, task: HopTask, tab: str) -> TaskHead:
    """Return the top of a page."""
    return TaskHead(
        title=task.name,
        name=site.name(task.folder) or "",
        tab=tab,
        version=task.contract.version,
        problem=task.problem,
        has_code=task.has_code,
        can_write=may_write(task),
    )


def may_write(task: HopTask) -> bool:
    """Return whether this user may write results of the task."""
    folder = task.test_cases if task.test_cases.is_dir() else task.folder
    return os.access(folder, os.W_OK | os.X_OK)


def task_files(site: Site, task: HopTask) -> list[TaskFile]:
    """Return the data and result files of a task, the newest first: no logs, and no links that lead out of DIR."""
    files = []
    for path in task.data_files:
        if not path.resolve().is_relative_to(site.root):
            continue
        try:
            count = count_records(path)
        except InputError:  # this user may not read it, or it is gone
            continue
        if not count.is_log:
            files.append(TaskFile(path, count))
    return files
