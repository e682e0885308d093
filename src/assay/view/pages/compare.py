"""The page of a comparison: its numbers, and the cases that changed.

`/compare?run=A&run=B` compares run A with run B, `/compare?run=A` the subjects of one run. RUN@SUBJECT names one
subject. Every further value of the address says which cases are shown. Three or more runs or subjects share a table of
cases, see `compare_table.py`; the texts of one case beside each other are in `compare_case.py`.
"""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.report import PairedMetric
from assay.store.comparison import Comparison
from assay.store.comparison.case_pages import ComparisonOverview, PairLine, PairPage
from assay.store.comparison.case_table import TableSelection
from assay.store.render.flips import Change, flip_texts, word_changes
from assay.view.open_comparisons import RunChoice
from assay.view.pages.compare_query import (
    PAGE_PAIRS,
    CompareQuery,
    cut_answer,
    group_titles,
    last_page_of,
    part_title,
)
from assay.view.pages.compare_table import several_page
from assay.view.plots import difference_scale
from assay.view.site import FRAGMENT, SITE, Site


class ComparedSide(Struct, kw_only=True):
    """A chosen run, with its address."""

    title: str
    address: str


class PairRow(Struct, kw_only=True):
    """One case of the table. Without `flip` it does not count, or has no partner."""

    line: PairLine
    address: str
    part: str
    values: tuple[float, float] | None
    place: str
    expected: str | None
    base: str | None
    new: str | None
    changes: list[Change]
    reasons: list[tuple[str, str]]


class PairsFragment(Struct, kw_only=True):
    """The table of cases."""

    query: CompareQuery
    rows: list[PairRow]
    table: list[PairedMetric]
    counts: dict[str, int]
    total: int
    first: int
    last_page: int


class ComparePage(Struct, kw_only=True):
    """The values of `compare.html`. With a `problem`, the runs cannot be compared."""

    sides: list[ComparedSide]
    problem: str = ""
    query: CompareQuery
    comparisons: list[Comparison] = []
    chosen: Comparison | None = None
    scale: float = 1.0
    base: str = ""
    new: str = ""
    """Names of the two sides of the chosen comparison, and their addresses."""
    base_address: str = ""
    new_address: str = ""
    notes: list[str] = []
    pairs: PairsFragment | None = None


async def show(request: web.Request) -> web.StreamResponse:
    """Compare the chosen runs. Runs that cannot be compared give a page with a sentence."""
    site = request.app[SITE]
    query = CompareQuery.parse(request.query)
    choices = [site.choice(name) for name in query.run]
    sides = [_side(site, choice) for choice in choices]
    if not choices:
        problem = "Choose two or more runs in the list of runs, or open a run that has several subjects."
        return site.render("compare.html", ComparePage(sides=sides, query=query, problem=problem))
    if request.query.get("order") == "started":
        # The list of runs may be in any order. The oldest of the chosen runs is the base.
        started = [await site.runs.ask(choice.folder, lambda run: run.info.started) for choice in choices]
        order = sorted(range(len(choices)), key=lambda number: (started[number], query.run[number]))
        raise web.HTTPSeeOther("/compare" + query.address(run=[query.run[number] for number in order]))
    names = {str(choice.folder): site.name(choice.folder) or "" for choice in choices}
    for choice in choices:
        await site.runs.wait_for_index(choice.folder)  # shows the progress for a large run
    is_fragment = request.headers.get(FRAGMENT) == "rows"
    try:
        overview = await site.comparisons.overview(choices)
        selection = query.selection(overview)
        if isinstance(selection, TableSelection):
            cases = await site.comparisons.table(choices, selection)
            table_page = several_page(overview, query, cases, names)
            return site.render("compare_table.html" if is_fragment else "compare_several.html", table_page)
        pairs = await site.comparisons.page(choices, selection)
        page = _page(overview, query, pairs, sides, names)
    except UsageError as error:
        # The paths of the message are those of the machine; the page names runs by their path below DIR.
        problem = str(error)
        for folder, name in names.items():
            problem = problem.replace(folder, name or folder)
        return site.render("compare.html", ComparePage(sides=sides, query=query, problem=problem), status=409)
    if is_fragment and page.pairs is not None:
        return site.render("compare_rows.html", page.pairs)
    return site.render("compare.html", page)


def _side(site: Site, choice: RunChoice) -> ComparedSide:
    title = f"{choice.folder.name} ({choice.subject})" if choice.subject else choice.folder.name
    return ComparedSide(title=title, address=f"/run/{site.name(choice.folder)}")


def _page(
    overview: ComparisonOverview,
    query: CompareQuery,
    pairs: PairPage,
    sides: list[ComparedSide],
    names: dict[str, str],
) -> ComparePage:
    result = overview.result
    chosen = result.comparisons[query.pair]
    base, new = group_titles([chosen])
    return ComparePage(
        sides=sides,
        query=query,
        comparisons=result.comparisons,
        chosen=chosen,
        scale=difference_scale(chosen.rows),
        base=base,
        new=new,
        base_address=f"/run/{names.get(chosen.base.folder, '')}",
        new_address=f"/run/{names.get(chosen.new.folder, '')}",
        notes=[*result.notes, *chosen.notes],
        pairs=_pairs(pairs, query, chosen),
    )


def _pairs(page: PairPage, query: CompareQuery, chosen: Comparison) -> PairsFragment:
    last_page = last_page_of(query, page.total)
    first = (query.page - 1) * PAGE_PAIRS
    return PairsFragment(
        query=query,
        rows=[_row(line, query, first + number) for number, line in enumerate(page.lines)],
        table=chosen.rows,
        counts=page.counts,
        total=page.total,
        first=first,
        last_page=last_page,
    )


def _row(line: PairLine, query: CompareQuery, at: int) -> PairRow:
    flip = line.flip
    address = "/compare/case" + query.address(at=at)
    if flip is None:
        return PairRow(
            line=line,
            address=address,
            part="",
            values=None,
            place="",
            expected=None,
            base=None,
            new=None,
            changes=[],
            reasons=[],
        )
    texts = flip_texts(flip)
    expected, base, new = (cut_answer(text) for text in (texts.expected, texts.base, texts.new))
    return PairRow(
        line=line,
        address=address,
        part=part_title(flip.part, flip.id),
        values=(flip.base.value, flip.new.value),
        place=texts.place,
        expected=expected,
        base=base,
        new=new,
        changes=word_changes(base, new) if base and new else [],
        reasons=[(name, cut_answer(reason) or "") for name, reason in texts.reasons],
    )
