"""The page of one run: its numbers, what was left out, its distributions, and the table of its rows."""

from __future__ import annotations

import asyncio
import shlex
from typing import Any

from aiohttp import web
from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.report import Report
from assay.store.cases import answer_preview
from assay.store.notes import RunNotes, notes_or_warning
from assay.store.open_run import Distribution, OpenRun, RunProgress
from assay.store.row_table import TableRow
from assay.view.live import element_id
from assay.view.pages.case import case_address
from assay.view.pages.run_actions import RunActions, actions_of
from assay.view.row_query import PAGE_ROWS, RowQuery
from assay.view.site import FRAGMENT, SITE

# Characters of a reply in the table.
_MAX_PREVIEW = 160
# Metrics that have a column of their own. Suites with rubrics may have hundreds.
_MAX_METRICS = 6
# Choices of a filter. More of them would make the page slow; the address accepts all.
_MAX_CHOICES = 500


class RowLine(Struct, kw_only=True):
    """One line of the table of rows."""

    index: int
    name: str
    part: str
    subject: str
    status: str
    is_failed: bool
    scores: list[float | None]
    seconds: float
    tokens: int | None
    preview: str
    tags: tuple[str, ...]
    address: str


class RowsFragment(Struct, kw_only=True):
    """The table of rows, with the choices of its filters."""

    query: RowQuery
    lines: list[RowLine]
    metrics: list[str]
    total: int
    all_rows: int
    first: int
    last_page: int
    subjects: list[str]
    sets: list[str]
    tags: list[str]


class DistributionCard(Struct):
    """A distribution with its name and unit."""

    title: str
    unit: str
    data: Distribution


class RunPage(Struct, kw_only=True):
    """The values of `run.html`."""

    name: str
    """The path of the run below DIR, as it stands in addresses."""
    title: str
    suite: str
    model: str
    command: str
    started: float
    seconds: float | None
    state: str
    exit_code: int | None
    report: Report | None
    failures: list[tuple[str, int, str]]
    """Kind, number and first message of the failures of cases."""
    files: list[str]
    notes: RunNotes
    warnings: list[str]
    progress: RunProgress
    live: str
    live_id: str
    distributions: list[DistributionCard]
    rows: RowsFragment
    actions: RunActions | None = None
    """The buttons of the run; None in a report."""


async def show(request: web.Request) -> web.StreamResponse:
    """Show a run, or only its table of rows if the script asks for that."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    name = site.name(folder) or ""
    query = RowQuery.parse(request.query)
    if request.headers.get(FRAGMENT) == "rows":
        rows = await site.runs.ask(folder, lambda run: read_rows(run, query, name))
        return site.render("rows.html", rows)
    page = await site.runs.ask(folder, lambda run: read_page(run, query, name))
    page.actions = await asyncio.to_thread(actions_of, site, folder, page.state)
    return site.render("run.html", page)


def read_page(run: OpenRun, query: RowQuery, name: str) -> RunPage:
    """Return everything that the page of a run shows, without its buttons."""
    info, summary, state = run.info, run.summary(), run.state()
    is_over = summary is not None and state != "running"
    warnings: list[str] = []
    options = info.spec.get("options") or {}
    return RunPage(
        name=name,
        title=str(options.get("name") or run.folder.name) if info.suite == "evaluate" else run.folder.name,
        suite=info.suite,
        model=str(info.spec.get("model") or ""),
        command=shlex.join(info.repeat_command),
        started=info.started,
        seconds=summary.seconds if summary and is_over else None,
        state=state,
        exit_code=summary.exit_code if summary and is_over else None,
        report=summary.report if summary and is_over else None,
        failures=[
            (kind, count, summary.first_failures.get(kind, "")) for kind, count in summary.failures.items()
        ]
        if summary
        else [],
        files=summary.files if summary else [],
        notes=notes_or_warning(run.folder, warnings.append),
        warnings=warnings,
        progress=run.progress(),
        live=f"/live?run={name}" if state == "running" else "",
        live_id=element_id(name),
        distributions=_distributions(run),
        rows=read_rows(run, query, name),
    )


def _distributions(run: OpenRun) -> list[DistributionCard]:
    cards = []
    for column, title, unit in (
        ("seconds", "Time of a case", "s"),
        ("input", "Input tokens", "tokens"),
        ("output", "Output tokens", "tokens"),
    ):
        data = run.distribution(column)
        if data is not None and data.largest > 0:
            cards.append(DistributionCard(title, unit, data))
    return cards


def read_rows(run: OpenRun, query: RowQuery, name: str) -> RowsFragment:
    """Return one page of rows. Reads the texts of these rows only."""
    table, order = run.table(), run.rows(query.selection)
    last_page = max(1, -(-len(order) // PAGE_ROWS))
    if query.page > last_page:
        raise UsageError(f"there is no page {query.page}: the last page is {last_page}")
    first = (query.page - 1) * PAGE_ROWS
    positions = order[first : first + PAGE_ROWS]
    metrics = {f"{each.metric},{each.filter}".rstrip(","): column for each, column in table.metrics.items()}
    shown = list(metrics)[:_MAX_METRICS]
    failed = run.failed()
    lines = []
    for position, row in zip(positions.tolist(), table.read(positions), strict=True):
        values = [float(metrics[metric].value[position]) for metric in shown]
        # NaN is the table's word for "not measured".
        scores = [None if value != value else value for value in values]  # noqa: PLR0124
        lines.append(_line(row, scores, name, query, is_failed=bool(failed[position])))
    return RowsFragment(
        query=query,
        lines=lines,
        metrics=shown,
        total=len(order),
        all_rows=len(table),
        first=first,
        last_page=last_page,
        subjects=table.subjects[:_MAX_CHOICES],
        sets=table.sets[:_MAX_CHOICES],
        tags=table.tags[:_MAX_CHOICES],
    )


def _line(row: TableRow, scores: list[Any], name: str, query: RowQuery, *, is_failed: bool) -> RowLine:
    end = row.end
    return RowLine(
        index=end.index,
        name=row.label or end.label or end.case,
        part=row.part,
        subject=end.subject,
        status=end.status,
        is_failed=is_failed,
        scores=scores,
        seconds=end.seconds,
        tokens=end.usage.output if end.usage else None,
        preview=answer_preview(end.failure, row.records, _MAX_PREVIEW),
        tags=row.tags,
        address=case_address(name, end.index, query, row.part),
    )
