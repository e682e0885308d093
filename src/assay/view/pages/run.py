"""The page of one run: its numbers, what was left out, its distributions, and the table of its rows."""

from __future__ import annotations

import asyncio
import shlex
from collections.abc import Sequence
from pathlib import Path

from aiohttp import web
from msgspec import Struct

from assay.core.error_counts import ErrorCount
from assay.core.errors import UsageError
from assay.core.report import Report
from assay.core.suite_pages import SuitePages
from assay.runner import api
from assay.store.comparison.case_pages import FlippedRows
from assay.store.notes import RunNotes, notes_or_warning
from assay.store.open_run import Distribution, OpenRun, RunProgress
from assay.store.row_table import ROW_STATUSES, RowTable, TableRow
from assay.store.runs import is_locked
from assay.view.flipped import BaseRun, base_runs, compare_address, flipped_rows
from assay.view.live import element_id
from assay.view.pages.case import case_address
from assay.view.pages.run_actions import RunActions, actions_of
from assay.view.row_columns import RowCell, RowColumn, offered_columns, row_cells, shown_columns
from assay.view.row_query import PAGE_ROWS, RowQuery
from assay.view.site import FRAGMENT, SITE, Site

# Choices of a filter. More of them would make the page slow; the address accepts all.
_MAX_CHOICES = 500


class RowLine(Struct, kw_only=True):
    """One line of the table of rows. `cells` has a value for each column: a text, a number or tags; None is a dash."""

    name: str
    part: str
    is_failed: bool
    cells: list[RowCell]
    address: str
    changes: list[str]
    """`worse`, `better` or both, if the rows are compared with another run."""
    compared: str
    """The address of the row beside that of the other run."""


class RowsFragment(Struct, kw_only=True):
    """The table of rows, with the choices of its filters."""

    query: RowQuery
    lines: list[RowLine]
    columns: list[RowColumn]
    offered: list[RowColumn]
    total: int
    all_rows: int
    first: int
    last_page: int
    statuses: list[str]
    subjects: list[str]
    sets: list[str]
    tags: list[str]
    has_repeats: bool
    is_running: bool
    """More rows will come."""
    bases: list[BaseRun] | None = None
    """The runs for `query.against`; None unless they are asked for."""
    problem: str = ""
    """Why the rows cannot be compared with the run `query.against`."""


class DistributionCard(Struct, kw_only=True):
    """A distribution with its name and unit. Without `data`, the value was not measured."""

    title: str
    unit: str
    data: Distribution | None
    links: list[str]
    """The address of the rows of each bar."""


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
    ran_on: str
    """`2 workers of Ray`; empty if all cases ran in the process of the command."""
    state: str
    exit_code: int | None
    report: Report | None
    failures: list[tuple[str, int, str]]
    """Kind, number and first message of the failures of cases."""
    errors: list[ErrorCount]
    """The most frequent errors with their place in the user's code."""
    files: list[str]
    earlier: list[str]
    """A line for each earlier scoring: its folder and its first numbers."""
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
    problem, flipped = "", None
    try:
        flipped = await flipped_rows(site, folder, query)
    except UsageError as error:
        problem = f"The rows cannot be compared with {query.against}: {error}"
    table = RowsReader(query, name, flipped, problem)
    status = 409 if problem else 200
    if request.headers.get(FRAGMENT) == "rows":
        rows = await site.runs.ask(folder, table.read)
        await _offer_bases(site, folder, query, rows)
        return site.render("rows.html", rows, status=status)
    page = await site.runs.ask(folder, lambda run: read_page(run, table))
    await _offer_bases(site, folder, query, page.rows)
    page.actions = await asyncio.to_thread(actions_of, site, folder, page.state)
    return site.render("run.html", page, status=status)


async def _offer_bases(site: Site, folder: Path, query: RowQuery, rows: RowsFragment) -> None:
    if query.bases:
        suite = await site.runs.ask(folder, lambda run: run.info.suite)
        rows.bases = await asyncio.to_thread(base_runs, site, folder, suite)


def read_page(run: OpenRun, rows: RowsReader) -> RunPage:
    """Return everything that the page of a run shows, without its buttons."""
    name = rows.name
    info, summary, state = run.info, run.summary(), run.state()
    is_over = summary is not None and state != "running"
    warnings = summary.reply_problems if summary and is_over else []
    if summary and is_over and summary.exit_reason:
        warnings.insert(0, summary.end_sentence)
    options = info.spec.get("options") or {}
    return RunPage(
        name=name,
        title=str(options.get("name") or run.folder.name) if info.suite == "evaluate" else run.folder.name,
        suite=info.suite,
        model=str(info.spec.get("model") or ""),
        command=shlex.join(info.repeat_command),
        started=info.started,
        seconds=summary.seconds if summary and is_over else None,
        ran_on=summary.ran_on if summary else "",
        state=state,
        exit_code=summary.exit_code if summary and is_over else None,
        report=summary.report if summary and is_over else None,
        failures=[(kind, count, summary.first_failures.get(kind, "")) for kind, count in summary.failures.items()]
        if summary
        else [],
        errors=[error for error in summary.report.errors if error.place] if summary and summary.report else [],
        files=summary.files if summary else [],
        earlier=run.earlier_scorings(),
        notes=notes_or_warning(run.folder, warnings.append),
        warnings=warnings,
        progress=run.progress(),
        live=f"/live?run={name}" if state == "running" else "",
        live_id=element_id(name),
        distributions=_distributions(run, rows.query),
        rows=rows.read(run),
    )


def _distributions(run: OpenRun, query: RowQuery) -> list[DistributionCard]:
    cards = []
    for column, title, unit in (
        ("seconds", "Time of a case", "s"),
        ("input", "Input tokens of a case", "tokens"),
        ("output", "Output tokens of a case", "tokens"),
        ("cost", "Cost of a case", "dollars"),
    ):
        data = run.distribution(column)
        if data is None or data.largest <= 0:
            if column == "cost" and data is None and len(run.table()):
                cards.append(DistributionCard(title=title, unit=unit, data=None, links=[]))
            continue
        links = []
        for number, edge in enumerate(data.edges[:-1]):
            below = data.edges[number + 1] if number + 1 < len(data.counts) else None
            links.append(query.address(value=column, least=edge, most=None, below=below) + "#rows")
        cards.append(DistributionCard(title=title, unit=unit, data=data, links=links))
    return cards


class RowsReader:
    """Reads one page of the table of rows. `name` is the path of the run as it stands in addresses."""

    def __init__(self, query: RowQuery, name: str, flipped: FlippedRows | None = None, problem: str = "") -> None:
        self.query = query
        self.name = name
        self._flipped = flipped
        self._problem = problem

    def read(self, run: OpenRun) -> RowsFragment:
        """Return the page. Reads the texts of its rows only."""
        query, table, failed = self.query, run.table(), run.failed()
        offered = offered_columns(run)
        columns = shown_columns(offered, query.columns)
        order = run.rows(query.selection, self._flipped)
        if self._problem:
            order = order[:0]  # all rows would look as if all of them had flipped
        last_page = max(1, -(-len(order) // PAGE_ROWS))
        if query.page > last_page:
            raise UsageError(f"there is no page {query.page}: the last page is {last_page}")
        first = (query.page - 1) * PAGE_ROWS
        positions = order[first : first + PAGE_ROWS]
        rows = table.read(positions)
        are_failed = failed[positions].tolist()
        pages = api.suite_pages(run.info.suite)
        cells = row_cells(pages, table, positions, rows, columns, are_failed)
        names = _question_names(pages, table, rows)
        lines = [self._line(*line) for line in zip(rows, names, cells, are_failed, strict=True)]
        return RowsFragment(
            query=query,
            lines=lines,
            columns=columns,
            offered=offered,
            total=len(order),
            all_rows=len(table),
            first=first,
            last_page=last_page,
            statuses=list(ROW_STATUSES),
            subjects=table.subjects[:_MAX_CHOICES],
            sets=table.sets[:_MAX_CHOICES],
            tags=table.tags[:_MAX_CHOICES],
            has_repeats=table.has_repeats,
            is_running=is_locked(run.folder),
            problem=self._problem,
        )

    def _line(self, row: TableRow, question: str, cells: list[RowCell], is_failed: bool) -> RowLine:
        end, changes = row.end, []
        if self._flipped is not None:
            changes = self._flipped.changes(end.index, row.part)
        return RowLine(
            name=question or row.label or end.label or end.case,
            # The text of a question does not say which conversation it is about.
            part=f"{end.label} {row.part}".strip() if question else row.part,
            is_failed=is_failed,
            cells=cells,
            address=case_address(self.name, end.index, self.query, row.part),
            changes=changes,
            compared=compare_address(self.query, self.name, end.index, row.part) if changes else "",
        )


def _question_names(pages: SuitePages, table: RowTable, rows: Sequence[TableRow]) -> list[str]:
    """Return the text of each row's question; empty texts in a suite without questions.

    A memory is asked the same question in many tests, and only the last one has its text.
    """
    if not pages.has_questions:
        return [""] * len(rows)
    texts: dict[int, dict[str, str]] = {}
    for row in rows:
        if row.part and not row.label and row.end.index not in texts:
            labels = table.final_labels(row.end.index)
            texts[row.end.index] = {pages.question_of(part): label for part, label in labels.items()}
    return [
        row.label or texts.get(row.end.index, {}).get(pages.question_of(row.part), "") if row.part else ""
        for row in rows
    ]
