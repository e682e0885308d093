"""The pages of memory runs: curves and dimensions of several memories, and what a memory held after each session."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import urlencode
from weakref import WeakKeyDictionary

from aiohttp import web
from msgspec import Struct
from msgspec.structs import replace

from assay.core.case_details import CurveValue, HeldItem, HeldSession
from assay.core.errors import UsageError, unknown
from assay.core.report import Entry, Metric, Point, Report, Table
from assay.runner import api
from assay.store.category_curves import category_curve
from assay.store.open_run import OpenRun
from assay.store.render.flips import Change, word_changes
from assay.store.render.tables import merged_tables
from assay.store.row_table import RowTable
from assay.view.curves import CurveChart, CurveLine
from assay.view.pages.case import same_row
from assay.view.site import SITE

MAX_RUNS = 6
# Conversations in the list at the end of the page.
_MAX_CASES = 200
# Items of a memory on one page. More are shown on demand.
_MAX_ITEMS = 200
# Characters of an item.
_MAX_ITEM_CHARS = 2000


class DimensionRow(Struct, kw_only=True):
    """One dimension with its metric in each memory. None: the memory has no such metric."""

    title: str
    metrics: list[Metric | None]


class CaseLink(Struct, kw_only=True):
    """A conversation or sample with one memory."""

    subject: str
    address: str
    held: str
    """The address of what the memory held; empty if the run does not say it."""


class ConversationRow(Struct, kw_only=True):
    """A conversation or sample of the data, with a link for each memory."""

    title: str
    links: list[CaseLink]


class MemoryRun(Struct, kw_only=True):
    """What one run adds to the page."""

    title: str
    suite: str
    report: Report
    curves: dict[str, CurveChart]
    """By the name of the curve."""
    categories: dict[str, str]
    """Names of the categories with the words to print."""
    dimensions: dict[str, str]
    rows: list[ConversationRow]


class MemoryPage(Struct, kw_only=True):
    """The values of `memory.html`."""

    name: str
    title: str
    others: list[str]
    """The addresses of further runs on the page."""
    problem: str
    curve_names: dict[str, str]
    categories: dict[str, str]
    curve: str
    category: str
    chart: CurveChart
    points: list[tuple[str, list[Metric | None]]]
    """The x values or ranges to print, with the metric of each line at this point."""
    axis: str
    """What the values of the horizontal axis are means of."""
    memories: list[str]
    dimensions: list[DimensionRow]
    tables: list[Table]
    """Stages, retrieval, score against cost, repeats: for each run those of all its memories."""
    rows: list[ConversationRow]
    has_held: bool


async def show(request: web.Request) -> web.StreamResponse:
    """Show the curves and dimensions of a memory run. `?with=RUN` adds the memories of further runs."""
    site = request.app[SITE]
    names = [request.match_info["run"], *request.query.getall("with", [])]
    if len(names) > MAX_RUNS:
        raise UsageError(f"at most {MAX_RUNS} runs can be shown at once")
    curve, category = request.query.get("curve", ""), request.query.get("category", "")
    folders = list(dict.fromkeys(site.folder(name) for name in names))
    runs = []
    for folder in folders:
        name = site.name(folder) or ""
        reader = _RunReader(name, category, with_run=len(folders) > 1)
        runs.append(await site.runs.ask(folder, reader.read))
    page = _page(site.name(folders[0]) or "", runs, curve, category)
    page.others = [site.name(folder) or "" for folder in folders[1:]]
    return site.render("memory.html", page)


class _RunReader:
    """Reads what one run adds to the page. `with_run` puts the name of the run before the names of its memories."""

    def __init__(self, name: str, category: str, *, with_run: bool) -> None:
        self._name = name
        self._category = category
        self._with_run = with_run

    def read(self, run: OpenRun) -> MemoryRun:
        pages = api.suite_pages(run.info.suite)
        summary = run.summary()
        report = summary.report if summary is not None and summary.report is not None else Report()
        categories = {
            each.name: each.title for entry in report.entries for each in entry.slices if each.by == "category"
        }
        charts: dict[str, CurveChart] = {}
        for entry in report.entries:
            for curve in entry.curves:
                shown = curve
                if self._category in categories:
                    # Both curves of a report are over the same scores; only the first has the metric's name.
                    values = _category_values(run).get(entry.subject or entry.name, [])
                    metric = curve.points[0].metric.name if curve.points else curve.name
                    shown = category_curve(values, self._category, metric, curve)
                chart = charts.setdefault(curve.name, CurveChart(curve.title or curve.name, curve.x, []))
                chart.lines.append(CurveLine(self._title(run, entry), shown.points))
        labels = {metric.name: metric.title for _, metric in report.metrics()}
        return MemoryRun(
            title=run.folder.name,
            suite=run.info.suite,
            report=report,
            curves=charts,
            categories=categories,
            dimensions={name: labels[name] for name in pages.dimensions if name in labels},
            rows=self._rows(run),
        )

    def _title(self, run: OpenRun, entry: Entry) -> str:
        return f"{run.folder.name}: {entry.title}" if self._with_run else entry.title

    def _rows(self, run: OpenRun) -> list[ConversationRow]:
        pages = api.suite_pages(run.info.suite)
        if not pages.has_questions:
            return []
        has_sessions = bool(pages.dimensions)
        rows: dict[tuple[str, str], ConversationRow] = {}
        for index in list(dict.fromkeys(run.table().case.tolist()))[:_MAX_CASES]:
            end = run.end(index)
            title = end.label or end.case
            row = rows.setdefault((end.set, end.case), ConversationRow(title=title, links=[]))
            link = CaseLink(subject=end.subject, address=f"/case/{index}/{self._name}", held="")
            if has_sessions:
                link.held = f"/held/{index}/{self._name}"
            row.links.append(link)
        return list(rows.values())


class _KeptValues(NamedTuple):
    table: RowTable
    values: dict[str, list[tuple[int, list[CurveValue]]]]


# Reading every score of a run takes a second or more. The values are kept while the run stays open and unchanged.
_kept: WeakKeyDictionary[OpenRun, _KeptValues] = WeakKeyDictionary()


def _category_values(run: OpenRun) -> dict[str, list[tuple[int, list[CurveValue]]]]:
    """Return the scores of every conversation with test and category, by memory."""
    kept = _kept.get(run)
    table = run.table()
    if kept is None or kept.table is not table:
        pages = api.suite_pages(run.info.suite)
        values: dict[str, list[tuple[int, list[CurveValue]]]] = {}
        for case in run.cases():
            values.setdefault(case.end.subject, []).append((case.end.index, list(pages.curve_values(case))))
        kept = _kept[run] = _KeptValues(table, values)
    return kept.values


def _page(name: str, runs: list[MemoryRun], curve: str, category: str) -> MemoryPage:
    curve_names: dict[str, str] = {}
    categories: dict[str, str] = {}
    dimensions: dict[str, str] = {}
    for run in runs:
        for curve_name, chart in run.curves.items():
            curve_names.setdefault(curve_name, chart.title)
        categories |= run.categories
        dimensions |= run.dimensions
    if curve and curve not in curve_names:
        raise UsageError(unknown("curve", curve, list(curve_names)))
    if category and category not in categories:
        raise UsageError(unknown("category", category, list(categories)))
    curve = curve or next(iter(curve_names), "")
    charts = [run.curves[curve] for run in runs if curve in run.curves]
    lines = [line for chart in charts for line in chart.lines]
    memories, columns = _memories(runs)
    return MemoryPage(
        name=name,
        title=runs[0].title,
        others=[],
        problem=""
        if curve_names or dimensions
        else "This run has no curves and no dimensions: it is not a finished run of a memory suite.",
        curve_names=curve_names,
        categories=categories,
        curve=curve,
        category=category,
        chart=CurveChart(charts[0].title, charts[0].x, lines) if charts else CurveChart("", "", []),
        points=_points(lines),
        axis="the mean of the answers in a range"
        if any(point.span for line in lines for point in line.points)
        else "the mean of the conversations",
        memories=memories,
        dimensions=[
            DimensionRow(title=title, metrics=[entry.metric(metric) for entry in columns])
            for metric, title in dimensions.items()
        ],
        tables=_tables(runs),
        rows=[row for run in runs for row in run.rows],
        has_held=any(link.held for run in runs for row in run.rows for link in row.links),
    )


def _tables(runs: list[MemoryRun]) -> list[Table]:
    """Return the tables of all runs. With several runs, each table names its run."""
    tables: list[Table] = []
    for run in runs:
        for table in merged_tables(run.report):
            title = table.title or table.name
            tables.append(replace(table, title=f"{run.title}: {title}" if len(runs) > 1 else title))
    return tables


def _memories(runs: list[MemoryRun]) -> tuple[list[str], list[Entry]]:
    """Return the names and the entries of all memories that have dimensions."""
    names, entries = [], []
    for run in runs:
        for entry in run.report.entries if run.dimensions else ():
            names.append(f"{run.title}: {entry.title}" if len(runs) > 1 else entry.title)
            entries.append(entry)
    return names, entries


def _points(lines: list[CurveLine]) -> list[tuple[str, list[Metric | None]]]:
    """Return the x values of all lines in order, with the metric of each line that has a point there."""
    columns = [{_place(point): point.metric for point in line.points} for line in lines]
    places = sorted({place for column in columns for place in column})
    return [(place[-1], [column.get(place) for column in columns]) for place in places]


def _place(point: Point) -> tuple[float, str]:
    """Return the key of a point, by which points of several lines share a row, and the text to print."""
    # The mean of a range differs between memories if a conversation failed with one of them.
    return (point.span[0], point.place) if point.span else (point.x, f"{point.x:.1f}")


class ItemLine(Struct, kw_only=True):
    """An item of a memory, with its differing words if the session updated it."""

    item: HeldItem
    text: str
    changes: list[Change]


class HeldPage(Struct, kw_only=True):
    """The values of `held.html`."""

    name: str
    run_title: str
    index: int
    title: str
    subject: str
    others: list[tuple[str, str]]
    """The same sample with the other memories: name and address."""
    sessions: list[HeldSession]
    chosen: HeldSession | None
    most: int
    """The largest number of items after any session."""
    lines: list[ItemLine]
    total: int
    show: str
    whole: str
    """The address that shows all items; empty if they are shown."""
    before: str | None
    after: str | None


async def show_held(request: web.Request) -> web.StreamResponse:
    """Show what a memory held after a session. `?session=ID` names it, `?show=changed` leaves out the other items."""
    site = request.app[SITE]
    folder = site.folder(request.match_info["run"])
    name, index = site.name(folder) or "", int(request.match_info["index"])
    session, show = request.query.get("session", ""), request.query.get("show", "all")
    if show not in ("all", "changed"):
        raise UsageError(unknown("choice", show, ["all", "changed"]))
    everything = request.query.get("items") == "all"

    def read(run: OpenRun) -> HeldPage:
        return _held_page(run, name, index, session, show, everything=everything)

    return site.render("held.html", await site.runs.ask(folder, read))


def _held_page(run: OpenRun, name: str, index: int, session: str, show: str, *, everything: bool) -> HeldPage:
    case = run.case(index)
    sessions = list(api.suite_pages(run.info.suite).held_items(case))
    names = [each.name for each in sessions]
    if session and session not in names:
        raise UsageError(unknown("session", session, names))
    at = names.index(session) if session else len(sessions) - 1
    chosen = sessions[at] if sessions else None
    items = [item for item in chosen.items if show == "all" or item.change] if chosen else []
    here = f"/held/{index}/{name}"
    addresses = [f"{here}?{urlencode({'session': each, 'show': show}, errors='replace')}" for each in names]
    return HeldPage(
        name=name,
        run_title=run.folder.name,
        index=index,
        title=case.end.label or case.end.case,
        subject=case.end.subject,
        others=[(each.end.subject, f"/held/{each.end.index}/{name}") for each in same_row(run, case)],
        sessions=sessions,
        chosen=chosen,
        most=max((each.count for each in sessions), default=0),
        lines=[_item_line(item) for item in (items if everything else items[:_MAX_ITEMS])],
        total=len(items),
        show=show,
        whole=f"{addresses[at]}&items=all" if len(items) > _MAX_ITEMS and not everything else "",
        before=addresses[at - 1] if at > 0 else None,
        after=addresses[at + 1] if 0 <= at < len(sessions) - 1 else None,
    )


def _item_line(item: HeldItem) -> ItemLine:
    text = item.text if len(item.text) <= _MAX_ITEM_CHARS else f"{item.text[:_MAX_ITEM_CHARS]}…"
    changes = word_changes(item.before[:_MAX_ITEM_CHARS], text) if item.before else []
    return ItemLine(item=item, text=text, changes=changes)
