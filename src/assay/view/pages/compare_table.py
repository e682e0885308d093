"""The comparison of three or more runs or subjects: one table of numbers, and one row a case with a cell for each.

The first run is the base. Every other run is marked where it differs from it.
"""

from __future__ import annotations

from urllib.parse import unquote

from msgspec import Struct

from assay.core.report import PairedMetric
from assay.store.comparison import Comparison, Cost, Side
from assay.store.comparison.case_pages import ComparedGroup, ComparisonOverview
from assay.store.comparison.case_table import TableCell, TableLine, TablePage
from assay.store.render.flips import Change, FlipTexts, answer_text, flip_texts, word_changes
from assay.view.pages.compare_query import (
    PAGE_PAIRS,
    CompareQuery,
    cut_answer,
    group_titles,
    last_page_of,
    part_title,
)


class SeveralColumn(Struct, kw_only=True):
    """A run or subject: the base, or one that is compared with it."""

    letter: str
    """`A` is the base."""
    title: str
    side: Side
    cost: Cost
    name: str
    """The path of the run below DIR, as it stands in addresses."""
    alone: str
    """The address that compares this one alone with the base; empty for the base."""


class MetricLine(Struct, kw_only=True):
    """A metric with its value in the base and its comparison with each other run. None: no case has it on both sides.

    The means of the base may differ a little from run to run, if runs lack some of its cases. `base` is the first one.
    """

    name: str
    higher_is_better: bool
    base: float | None
    compared: list[PairedMetric | None]


class SeveralCell(Struct, kw_only=True):
    """A case in one run. `changes` are the words that differ from the base."""

    address: str
    value: float | None
    change: str
    text: str | None
    changes: list[Change]
    place: str
    remark: str
    reason: str


class SeveralLine(Struct, kw_only=True):
    """One case: its name, the expected value, and a cell for each run, the base first."""

    name: str
    part: str
    address: str
    expected: str | None
    is_worse: bool
    cells: list[SeveralCell]


class SeveralPage(Struct, kw_only=True):
    """The values of `compare_several.html` and, for the script, of its table `compare_table.html`."""

    query: CompareQuery
    groups: list[tuple[str, str]]
    """Names and addresses of all groups, if there are several: subjects that two or more runs have."""
    suite: str
    columns: list[SeveralColumn]
    metrics: list[MetricLine]
    notes: list[str]
    lines: list[SeveralLine]
    counts: dict[str, int]
    total: int
    first: int
    last_page: int


def several_page(
    overview: ComparisonOverview, query: CompareQuery, page: TablePage, names: dict[str, str]
) -> SeveralPage:
    """Return the page of a group. `names` are the addresses of run folders."""
    _, group = query.group(overview)
    comparisons = [overview.result.comparisons[number] for number in group.pairs]
    columns = _columns(comparisons, names)
    last_page = last_page_of(query, page.total)
    first = (query.page - 1) * PAGE_PAIRS
    notes = [*overview.result.notes, *(note for each in comparisons for note in each.notes)]
    return SeveralPage(
        query=query,
        groups=[_group_link(overview, each, query) for each in overview.groups] if len(overview.groups) > 1 else [],
        suite=comparisons[0].base.suite,
        columns=columns,
        metrics=_metrics(group, comparisons),
        notes=list(dict.fromkeys(notes)),
        lines=[_line(line, query, first + number, columns) for number, line in enumerate(page.lines)],
        counts=page.counts,
        total=page.total,
        first=first,
        last_page=last_page,
    )


def _group_link(overview: ComparisonOverview, group: ComparedGroup, query: CompareQuery) -> tuple[str, str]:
    base = overview.result.comparisons[group.pairs[0]].base
    return f"{base.run} {base.subject}", "/compare" + query.address(pair=group.pairs[0], row=0, only=0)


def _columns(comparisons: list[Comparison], names: dict[str, str]) -> list[SeveralColumn]:
    base = comparisons[0]
    sides = [(base.base, base.cost["base"]), *((each.new, each.cost["new"]) for each in comparisons)]
    columns = []
    for number, (title, (side, cost)) in enumerate(zip(group_titles(comparisons), sides, strict=True)):
        pair = CompareQuery(run=[f"{unquote(names.get(each.folder, ''))}@{each.subject}" for each in (base.base, side)])
        columns.append(
            SeveralColumn(
                letter=chr(ord("A") + number),
                title=title,
                side=side,
                cost=cost,
                name=names.get(side.folder, ""),
                alone="/compare" + pair.address() if number else "",
            )
        )
    return columns


def _metrics(group: ComparedGroup, comparisons: list[Comparison]) -> list[MetricLine]:
    lines = []
    for row in group.rows:
        compared = [
            None if place is None else comparison.rows[place]
            for comparison, place in zip(comparisons, row.places, strict=True)
        ]
        base = next((each.base for each in compared if each is not None and each.base is not None), None)
        lines.append(MetricLine(name=row.name, higher_is_better=row.higher_is_better, base=base, compared=compared))
    return lines


def _line(line: TableLine, query: CompareQuery, at: int, columns: list[SeveralColumn]) -> SeveralLine:
    texts = [None if cell.flip is None else flip_texts(cell.flip) for cell in line.cells]
    # The base is shown as the first run that changed sees it: that one's check may be about another field than others.
    shown = [each for each, cell in zip(texts, line.cells, strict=True) if each is not None and cell.change]
    shown = shown or [each for each in texts if each is not None]
    base = line.base.side
    base_cell = SeveralCell(
        address=f"/case/{line.base_index}/{columns[0].name}",
        value=None if base is None else base.value,
        change="",
        text=cut_answer(shown[0].base if shown else answer_text(base.answer) if base is not None else None),
        changes=[],
        place=shown[0].place if shown else "",
        remark="no score" if base is None else "",
        reason=cut_answer(base.reason) or "" if base is not None else "",
    )
    cells = [_cell(*each) for each in zip(line.cells, texts, columns[1:], strict=True)]
    return SeveralLine(
        name=line.name,
        part=part_title(line.base.part, line.base.id),
        address="/compare/case" + query.address(at=at),
        expected=next((cut_answer(each.expected) for each in shown if each.expected is not None), None),
        is_worse=any(cell.change == "worse" for cell in cells),
        cells=[base_cell, *cells],
    )


def _cell(cell: TableCell, texts: FlipTexts | None, column: SeveralColumn) -> SeveralCell:
    address = "" if cell.index is None else f"/case/{cell.index}/{column.name}"
    if cell.flip is None or texts is None:
        return SeveralCell(
            address=address,
            value=None,
            change="",
            text=None,
            changes=[],
            place="",
            remark=cell.remark,
            reason="",
        )
    base, new = cut_answer(texts.base), cut_answer(texts.new)
    return SeveralCell(
        address=address,
        value=cell.flip.new.value,
        change=cell.change,
        text=new,
        changes=word_changes(base, new) if base and new else [],
        place=texts.place,
        remark="",
        reason=cut_answer(cell.flip.new.reason) or "",
    )
