"""The page of all runs below DIR: state, progress, score, model, tags and time."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from assay.core.errors import AssayError, UsageError, unknown
from assay.runner import api
from assay.store.open_run import OpenRun
from assay.store.run_list import ListedRun, RunFilter, list_runs
from assay.view.address import read_address, write_address
from assay.view.live import MAX_RUNS, element_id
from assay.view.open_runs import RunIsRead
from assay.view.pages import start
from assay.view.site import FRAGMENT, SITE, Site

PAGE_RUNS = 100
_LOWEST = float("-inf")
# Columns by which runs can be sorted. A run without the value comes last in descending order.
SORTS: dict[str, Callable[[ListedRun], tuple[float | str, ...]]] = {
    "started": lambda run: (run.started,),
    "name": lambda run: (run.title or run.name,),
    "model": lambda run: (run.model, run.started),
    "suite": lambda run: (run.suite, run.started),
    "state": lambda run: (run.state, run.started),
    "score": lambda run: (run.scores[0].value if run.scores else _LOWEST,),
    "cases": lambda run: (run.total or 0,),
    "seconds": lambda run: (_LOWEST if run.seconds is None else run.seconds,),
    "cost": lambda run: (_LOWEST if run.cost is None else run.cost,),
}


class RunsQuery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the page, as it stands in the address."""

    q: str = ""
    suite: str = ""
    state: str = ""
    tag: str = ""
    sort: str = "started"
    asc: bool = False
    page: int = 1

    def address(self, **changes: object) -> str:
        """Return the address with some values changed. Other filters start at page 1."""
        return "/" + write_address(self, **{"page": 1, **changes})

    def sorted_by(self, column: str) -> str:
        """Return the address that sorts by a column, or turns the order."""
        return self.address(sort=column, asc=self.sort == column and not self.asc)


class RunLine(Struct, kw_only=True):
    """One line of the list."""

    run: ListedRun
    address: str
    live_id: str


class RunsPage(Struct, kw_only=True):
    """The values of `runs.html`."""

    query: RunsQuery
    lines: list[RunLine]
    total: int
    """Runs that the filters let through, on all pages."""
    first: int
    has_next: bool
    is_empty: bool
    """There is no run at all."""
    outside: int
    has_differences: bool
    has_notes: bool
    has_costs: bool
    """Whether an endpoint reported a price in any run that the filters let through."""
    suites: list[str]
    states: list[str]
    tags: list[str]
    live: str
    """The address of the stream of the running runs; empty if none is running."""
    may_start: bool
    """Whether this user may write to DIR."""
    has_model: bool
    """Whether the quickstart can run. Looked up for the empty page only."""


async def show(request: web.Request) -> web.StreamResponse:
    """List the runs."""
    site = request.app[SITE]
    query = read_address(RunsQuery, request.query)
    if query.sort not in SORTS:
        raise UsageError(unknown("column", query.sort, list(SORTS)))
    page = await asyncio.to_thread(_page, site, query)
    # The open run reads only the lines that were written since the last look.
    for line in [line for line in page.lines if line.run.state == "running"][:MAX_RUNS]:
        try:
            folder = await asyncio.to_thread(Path(line.run.folder).resolve)
            progress = await site.runs.ask(folder, OpenRun.progress)
            line.run.done = progress.done
        except (AssayError, RunIsRead):
            line.run.total = None  # a dash: not measured
    is_fragment = request.headers.get(FRAGMENT) == "rows"
    return site.render("runs_list.html" if is_fragment else "runs.html", page)


def _page(site: Site, query: RunsQuery) -> RunsPage:
    names: dict[str, str] = {}
    everything: list[ListedRun] = []
    outside = 0
    for run in list_runs(site.root, RunFilter(), count_running=False):
        name = site.name(Path(run.folder))
        if name is None:
            outside += 1
            continue
        names[run.folder] = name
        everything.append(run)
    chosen = RunFilter(
        suites=(query.suite,) if query.suite else (),
        states=(query.state,) if query.state else (),
        tags=(query.tag,) if query.tag else (),
        search=query.q,
    )
    runs = sorted(filter(chosen.matches, everything), key=SORTS[query.sort], reverse=not query.asc)
    first = (query.page - 1) * PAGE_RUNS
    lines = [
        RunLine(run=run, address=f"/run/{names[run.folder]}", live_id=element_id(names[run.folder]))
        for run in runs[first : first + PAGE_RUNS]
    ]
    running = [names[line.run.folder] for line in lines if line.run.state == "running"][:MAX_RUNS]
    return RunsPage(
        query=query,
        lines=lines,
        total=len(runs),
        first=first,
        has_next=first + PAGE_RUNS < len(runs),
        is_empty=not everything,
        outside=outside,
        has_differences=any(line.run.differs for line in lines),
        has_notes=any(line.run.tags or line.run.notes for line in lines),
        has_costs=any(run.cost is not None for run in runs),
        suites=sorted({run.suite for run in everything}),
        states=sorted({run.state for run in everything}),
        tags=sorted({tag for run in everything for tag in run.tags}),
        may_start=os.access(site.root, os.W_OK),
        has_model=not everything and api.has_model(start.MODEL),
        live="/live?" + "&".join(f"run={name}" for name in running) if running else "",
    )
