"""One case in all compared runs or subjects: its texts beside each other with the differences, and its scores."""

from __future__ import annotations

from aiohttp import web
from msgspec import Struct

from assay.core.errors import UsageError
from assay.store.comparison.case_pages import ComparedCases, PairSelection
from assay.store.render.case_diff import TextPair
from assay.store.render.flips import Change
from assay.view.pages.case_blocks import CaseBlocks
from assay.view.pages.compare_query import PAGE_PAIRS, CompareQuery, group_titles
from assay.view.site import SITE
from assay.view.text import TextBlock, preview


class CaseSide(Struct, kw_only=True):
    """A run or subject. `address` is empty if it does not have the case."""

    heading: str
    """`base` and `new`, or the letters of the table: `A, base`, `B`."""
    title: str
    address: str


class TextColumn(Struct, kw_only=True):
    """A text as one side has it: whole, or with the words or lines that differ from the base, or none."""

    heading: str
    block: TextBlock | None = None
    changes: list[Change] = []
    marks: tuple[str, ...] = ()
    """Which changes are shown: `removed`, `added`."""
    by_line: bool = False
    remark: str = ""


class TextRow(Struct, kw_only=True):
    """One text of all sides."""

    name: str
    is_same: bool
    columns: list[TextColumn]


class CompareCasePage(Struct, kw_only=True):
    """The values of `compare_case.html`."""

    query: CompareQuery
    title: str
    sides: list[CaseSide]
    different: list[TextRow]
    same: list[TextRow]
    scores: list[list[str]]
    up: str
    """The address of the page of the table that has this case."""
    here: str
    before: str | None
    after: str | None


async def show(request: web.Request) -> web.StreamResponse:
    """Show a case in all runs of a comparison. `?whole=ID` shows a text that is cut by default."""
    site = request.app[SITE]
    query = CompareQuery.parse(request.query)
    choices = [site.choice(name) for name in query.run]
    if not choices or (query.at is None and query.case is None):
        raise UsageError("the address names no case of a comparison")
    for choice in choices:
        await site.runs.wait_for_index(choice.folder)
    if query.at is None:
        # The table of a run knows the number of the case, but not its place among the cases that changed.
        place = await site.comparisons.find(choices, query.case or 0, query.part)
        raise web.HTTPSeeOther(
            "/compare/case" + query.address(pair=place.pair, row=place.row, show=place.show, at=place.first)
        )
    overview = await site.comparisons.overview(choices)
    selection = query.selection(overview)
    cases = await site.comparisons.cases(choices, selection)
    comparisons = [overview.result.comparisons[number] for number in query.group(overview)[1].pairs]
    is_pair = isinstance(selection, PairSelection)
    folders = [comparisons[0].base.folder, *(each.new.folder for each in comparisons)]
    names = {str(choice.folder): site.name(choice.folder) or "" for choice in choices}
    sides = []
    for number, title in enumerate(group_titles(comparisons)):
        heading = ("base", "new")[number] if is_pair else chr(ord("A") + number) + ", base" * (not number)
        case = cases.sides[number]
        address = f"/case/{case.index}/{names[folders[number]]}" if case is not None else ""
        sides.append(CaseSide(heading=heading, title=title, address=address))
    rows = _text_rows(cases, sides, CaseBlocks(request.query.get("whole", "")))
    page = CompareCasePage(
        query=query,
        title=cases.name,
        sides=sides,
        different=[row for row in rows if not row.is_same],
        same=[row for row in rows if row.is_same],
        scores=cases.scores,
        up=query.address(page=query.at // PAGE_PAIRS + 1),
        here=query.address(at=query.at),
        before=query.address(at=query.at - 1) if query.at else None,
        after=query.address(at=query.at + 1) if query.at + 1 < cases.total else None,
    )
    return site.render("compare_case.html", page)


def _text_rows(cases: ComparedCases, sides: list[CaseSide], blocks: CaseBlocks) -> list[TextRow]:
    """Return the texts of all sides by name. A text that all cases have alike has one column."""
    names = dict.fromkeys(name for case in cases.sides if case is not None for name in case.texts)
    rows = []
    for name in names:
        texts = [None if case is None else case.texts.get(name) for case in cases.sides]
        is_same = len(set(texts)) == 1
        if is_same:
            columns = [_whole(sides[0].heading, texts[0], blocks)]
        elif len(sides) == 2:
            columns = _two_columns(sides, texts, blocks)
        else:
            columns = [_whole(sides[0].heading, texts[0], blocks)]
            columns += [
                _against_base(side.heading, texts[0], text, blocks)
                for side, text in zip(sides[1:], texts[1:], strict=True)
            ]
        rows.append(TextRow(name=name, is_same=is_same, columns=columns))
    return rows


def _two_columns(sides: list[CaseSide], texts: list[str | None], blocks: CaseBlocks) -> list[TextColumn]:
    """Return both texts, each with its own words marked. Long texts of many lines are one column of lines."""
    by_line, changes = _changes(texts[0], texts[1])
    if by_line:
        return [TextColumn(heading="", changes=changes, marks=("removed", "added"), by_line=True)]
    if not changes:
        return [_whole(side.heading, text, blocks) for side, text in zip(sides, texts, strict=True)]
    return [
        TextColumn(heading=side.heading, changes=changes, marks=(mark,))
        for side, mark in zip(sides, ("removed", "added"), strict=True)
    ]


def _against_base(heading: str, base: str | None, text: str | None, blocks: CaseBlocks) -> TextColumn:
    """Return a text with what it has instead of the base's."""
    if text is not None and text == base:
        return TextColumn(heading=heading, remark="is the same as the base")
    by_line, changes = _changes(base, text)
    if not changes:
        return _whole(heading, text, blocks)
    return TextColumn(heading=heading, changes=changes, marks=("removed", "added"), by_line=by_line)


def _changes(base: str | None, new: str | None) -> tuple[bool, list[Change]]:
    """Return whether lines are compared, and the changes; none if the texts have too little in common."""
    if base is None or new is None:
        return False, []
    # The difference is made of what is shown: comparing megabytes would take minutes.
    pair = TextPair("", preview(base).text, preview(new).text)
    return pair.by_line, pair.lines if pair.by_line else pair.words


def _whole(heading: str, text: str | None, blocks: CaseBlocks) -> TextColumn:
    if text is None:
        return TextColumn(heading=heading, remark="has no such text")
    return TextColumn(heading=heading, block=blocks.block(heading, text))
