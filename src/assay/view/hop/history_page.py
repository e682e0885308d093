"""The History tab: the files of a task, and the records of one of them as cards."""

from __future__ import annotations

import asyncio
from typing import Any
from urllib.parse import urlencode

from aiohttp import web
from msgspec import Struct

from assay.core.errors import UsageError
from assay.suites.hop.task_folder import HopTask
from assay.view.hop.history import HistoryRecord
from assay.view.hop.result_card import ResultCard, card_of_record
from assay.view.hop.site import HOP, HopState, TaskFile, TaskHead, open_task, task_files, task_head
from assay.view.site import SITE, Site
from assay.view.text import TextBlock, as_text, preview

PAGE_RECORDS = 20


class HistoryFile(Struct):
    """A file of the list."""

    name: str
    note: str
    modified: float
    address: str
    is_current: bool


class MetaCard(Struct):
    """The meta line of a profile: each key with its value."""

    title: str
    facts: list[tuple[str, str]]


class HistoryEntry(Struct):
    """A record: a card for a result, its JSON for anything else."""

    number: int
    card: ResultCard | None
    text: TextBlock | None


class HistoryDetail(Struct, kw_only=True):
    """The content of one file."""

    file: str
    records: int
    results: int
    completed: int
    """Results with the status OK."""
    errors: int
    expecting: int
    right: int
    metas: list[MetaCard]
    entries: list[HistoryEntry]
    page: int
    last_page: int
    here: str
    """The part of the address after the path, for this page of the file."""

    def address(self, page: int) -> str:
        """Return the address of another page of the file."""
        return "?" + urlencode({"file": self.file, "page": page}, errors="replace")


class HistoryPage(Struct, kw_only=True):
    """The values of `hop_history.html`."""

    head: TaskHead
    files: list[HistoryFile]
    detail: HistoryDetail | None
    error: str = ""


async def show(request: web.Request) -> web.StreamResponse:
    """Show the files, and with `?file=NAME&page=N` the records of one. `?whole=ID` shows a text that is cut."""
    site, state = request.app[SITE], request.app[HOP]
    task = await open_task(request)
    name, whole = request.query.get("file", ""), request.query.get("whole", "")
    number = request.query.get("page", "1")
    if not (number.isascii() and number.isdigit() and int(number[:9]) > 0):
        raise UsageError(f"pages are numbered from 1; there is no page {number!r}")
    page = await asyncio.to_thread(_page, site, state, task, name, int(number[:9]), whole)
    return site.render("hop_history.html", page)


def _page(site: Site, state: HopState, task: HopTask, name: str, number: int, whole: str) -> HistoryPage:
    files = task_files(site, task)
    page = HistoryPage(
        head=task_head(site, task, "history"),
        files=[_line(file, is_current=file.name == name) for file in files],
        detail=None,
    )
    if name:
        # Names are looked up among the files, never made into a path.
        file = next((file for file in files if file.name == name), None)
        if file is None:
            page.error = f"There is no file {name!r} in TestCases."
        else:
            page.detail = _detail(state, task, file, number, whole)
    return page


def _line(file: TaskFile, *, is_current: bool) -> HistoryFile:
    count = file.count
    note = f"{count.results:,} results" if count.results else f"{count.records:,} records"
    return HistoryFile(
        name=file.name,
        note=note.removesuffix("s") if note.startswith("1 ") else note,
        modified=file.path.stat().st_mtime,
        address="?" + urlencode({"file": file.name}, errors="replace"),
        is_current=is_current,
    )


def _detail(state: HopState, task: HopTask, file: TaskFile, number: int, whole: str) -> HistoryDetail:
    index = state.index(file.path, task.contract)
    last_page = max(1, -(-len(index) // PAGE_RECORDS))
    if number > last_page:
        raise UsageError(f"there is no page {number}: the last page is {last_page}")
    records = index.read((number - 1) * PAGE_RECORDS, PAGE_RECORDS)
    detail = HistoryDetail(
        file=file.name,
        records=len(index),
        results=index.results,
        completed=index.completed,
        errors=index.errors,
        expecting=index.expecting,
        right=index.right,
        metas=[_meta(meta) for meta in index.metas],
        entries=[_entry(record, task, whole) for record in records],
        page=number,
        last_page=last_page,
        here="",
    )
    detail.here = detail.address(number)
    return detail


def _meta(meta: dict[str, Any]) -> MetaCard:
    facts = [(key, as_text(value)) for key, value in meta.items() if key not in ("_type", "profile")]
    return MetaCard(as_text(meta.get("profile", "")), facts)


def _entry(record: HistoryRecord, task: HopTask, whole: str) -> HistoryEntry:
    if record.audit is not None:
        return HistoryEntry(record.number, card_of_record(record, task.contract.outputs, whole), None)
    block_id = f"r{record.number}-raw"
    text = TextBlock(block_id, "", preview(as_text(record.value), whole=whole == block_id))
    return HistoryEntry(record.number, None, text)
