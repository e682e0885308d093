"""The pages of a comparison: the numbers with the cases that changed, and two cases beside each other.

`/compare?run=A&run=B` compares run A with run B, `/compare?run=A` the subjects of one run. RUN@SUBJECT names one
subject. Every further value of the address says which cases are shown.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from aiohttp import web
from msgspec import Struct
from multidict import MultiMapping

from assay.core.errors import UsageError
from assay.core.report import PairedRow
from assay.core.suite import CaseView
from assay.store.comparison import Comparison, Flip
from assay.store.comparison.case_pages import OpenComparison, PairLine, PairPage, PairSelection, Shown
from assay.store.open_run import OpenRun
from assay.store.render.case_diff import TextPair, compare_cases
from assay.store.render.flips import Change, flip_texts, word_changes
from assay.store.render.tables import TextTable
from assay.view.address import read_address, write_address
from assay.view.open_comparisons import RunChoice
from assay.view.pages.case_blocks import CaseBlocks
from assay.view.plots import difference_scale
from assay.view.site import FRAGMENT, SITE, Site
from assay.view.text import TextBlock, preview

PAGE_PAIRS = 25
MAX_RUNS = 12
"""Runs of one comparison. Nobody reads more tables, and each run takes memory."""
# Characters of an answer in the table.
_MAX_ANSWER = 600


class CompareQuery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the page, as it stands in the address."""

    run: list[str] = []
    pair: int = 0
    row: int = 0
    show: Shown = "changed"
    page: int = 1
    at: int | None = None
    """On the page of two cases: the place of the case among those that are shown."""
    case: int | None = None
    part: str = ""
    """Instead of `at`: the number of a case of the new run, and its question or test. It must have flipped."""

    @classmethod
    def parse(cls, query: MultiMapping[str]) -> CompareQuery:
        """Read the state from an address. Raises UsageError for a value of the wrong form."""
        runs = [name for name in query.getall("run", []) if name]
        parsed = read_address(cls, {**query, "run": runs})
        if parsed.page < 1 or (parsed.at is not None and parsed.at < 0):
            raise UsageError("the address has a value that is not valid: pages are numbered from 1")
        if len(parsed.run) > MAX_RUNS:
            raise UsageError(f"at most {MAX_RUNS} runs can be compared at once")
        return parsed

    def address(self, **changes: object) -> str:
        """Return the part of the address after the path, with some values changed. Other filters start at page 1."""
        return write_address(self, **{"page": 1, "at": None, "case": None, "part": "", **changes})

    @property
    def selection(self) -> PairSelection:
        """The cases of this page, or the one of the page of two cases."""
        first, count = ((self.page - 1) * PAGE_PAIRS, PAGE_PAIRS) if self.at is None else (self.at, 1)
        return PairSelection(pair=self.pair, row=self.row, show=self.show, first=first, count=count)


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
    table: list[PairedRow]
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
        await site.runs.ask(choice.folder, OpenRun.state)  # builds the index of a large run with its progress
    try:
        page = await site.comparisons.ask(choices, lambda comparison: _page(comparison, query, sides, names))
    except UsageError as error:
        # The paths of the message are those of the machine; the page names runs by their path below DIR.
        problem = str(error)
        for folder, name in names.items():
            problem = problem.replace(folder, name or folder)
        return site.render("compare.html", ComparePage(sides=sides, query=query, problem=problem), status=409)
    if request.headers.get(FRAGMENT) == "rows" and page.pairs is not None:
        return site.render("compare_rows.html", page.pairs)
    return site.render("compare.html", page)


def _side(site: Site, choice: RunChoice) -> ComparedSide:
    title = f"{choice.folder.name} ({choice.subject})" if choice.subject else choice.folder.name
    return ComparedSide(title=title, address=f"/run/{site.name(choice.folder)}")


def _page(
    comparison: OpenComparison, query: CompareQuery, sides: list[ComparedSide], names: dict[str, str]
) -> ComparePage:
    result = comparison.result
    if not 0 <= query.pair < len(result.comparisons):
        raise UsageError(f"there is no comparison {query.pair}; there are {len(result.comparisons)}")
    chosen = result.comparisons[query.pair]
    base, new = side_names(chosen)
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
        pairs=_pairs(comparison, query, chosen),
    )


def side_names(comparison: Comparison) -> tuple[str, str]:
    """Return short names of both sides: subjects of one run, or runs with their models if these differ."""
    base, new = comparison.base, comparison.new
    if base.folder == new.folder:
        return base.subject, new.subject
    if base.subject != new.subject:
        return base.subject, new.subject
    return base.run, new.run


def _pairs(comparison: OpenComparison, query: CompareQuery, chosen: Comparison) -> PairsFragment:
    page = comparison.page(query.selection)
    last_page = max(1, -(-page.total // PAGE_PAIRS))
    if query.page > last_page:
        raise UsageError(f"there is no page {query.page}: the last page is {last_page}")
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
    expected, base, new = (_cut(text) for text in (texts.expected, texts.base, texts.new))
    return PairRow(
        line=line,
        address=address,
        part=_part(flip),
        values=(flip.base.value, flip.new.value),
        place=texts.place,
        expected=expected,
        base=base,
        new=new,
        changes=word_changes(base, new) if base and new else [],
        reasons=[(name, _cut(reason) or "") for name, reason in texts.reasons],
    )


def _part(flip: Flip) -> str:
    return flip.part if flip.id is None else f"{flip.id} {flip.part}".strip()


def _cut(text: str | None) -> str | None:
    return text if text is None or len(text) <= _MAX_ANSWER else f"{text[:_MAX_ANSWER]}…"


class DiffBlock(Struct, kw_only=True):
    """One text of both cases: equal, or with its differing words or lines, or whole beside each other."""

    pair: TextPair
    changes: list[Change]
    by_line: bool
    left: TextBlock | None
    right: TextBlock | None


class CompareCasePage(Struct, kw_only=True):
    """The values of `compare_case.html`."""

    query: CompareQuery
    title: str
    base: str
    new: str
    base_address: str
    new_address: str
    different: list[DiffBlock]
    same: list[DiffBlock]
    scores: TextTable
    up: str
    """The address of the page of the table that has this case."""
    here: str
    before: str | None
    after: str | None


async def show_case(request: web.Request) -> web.StreamResponse:
    """Show two cases beside each other: every text with its differing words, and their scores."""
    site = request.app[SITE]
    query = CompareQuery.parse(request.query)
    choices = [site.choice(name) for name in query.run]
    if choices and query.case is not None:
        # The table of a run knows the number of the case, but not its place among the cases that changed.
        number = query.case
        place = await site.comparisons.ask(choices, lambda comparison: comparison.find(number, query.part))
        raise web.HTTPSeeOther(
            "/compare/case" + query.address(pair=place.pair, row=place.row, show=place.show, at=place.first)
        )
    if not choices or query.at is None:
        raise UsageError("the address names no case of a comparison")

    def find(comparison: OpenComparison) -> tuple[PairPage, Comparison]:
        page = comparison.page(query.selection)
        if not page.lines:
            raise UsageError(f"there is no case {query.at}: {page.total} are shown")
        return page, comparison.result.comparisons[query.pair]

    pairs, chosen = await site.comparisons.ask(choices, find)
    (line,) = pairs.lines
    folders = {str(choice.folder): choice.folder for choice in choices}
    views: list[CaseView | None] = []
    addresses = []
    for side, index in ((chosen.base, line.base_index), (chosen.new, line.new_index)):
        folder = folders[side.folder]
        addresses.append("" if index is None else f"/case/{index}/{site.name(folder)}")
        part = line.flip.part if line.flip is not None else ""
        views.append(None if index is None else await site.runs.ask(folder, partial(_side_view, index, part)))
    base, new = side_names(chosen)
    blocks = _diff_blocks(views, CaseBlocks(request.query.get("whole", "")))
    page = CompareCasePage(
        query=query,
        title=line.name,
        base=base,
        new=new,
        base_address=addresses[0],
        new_address=addresses[1],
        different=[block for block in blocks if not block.pair.same],
        same=[block for block in blocks if block.pair.same],
        scores=compare_cases(views[0], views[1]).scores if views[0] and views[1] else TextTable([], []),
        up=query.address(page=query.at // PAGE_PAIRS + 1),
        here=query.address(at=query.at),
        before=query.address(at=query.at - 1) if query.at else None,
        after=query.address(at=query.at + 1) if query.at + 1 < pairs.total else None,
    )
    return site.render("compare_case.html", page)


def _side_view(index: int, part: str, run: OpenRun) -> CaseView:
    """Return a case, or what it has of one test or question if its parts are rows."""
    case = run.case(index)
    if not part or run.info.score_parts != "rows":
        return case
    scores = [score for score in case.scores if score.part == part]
    records = [each for each in case.records if each.part == part or each.part.startswith(f"{part}/")]
    calls = case.calls
    if len({score.part for score in case.scores}) > 1:
        # A call does not name its question, but its prompt has the text of it.
        texts = [score.label for score in scores if score.label and score.label != part]
        calls = [call for call in calls if texts and texts[0] in CaseBlocks.prompt_text(call, case.calls)]
        # The same question is asked again in later tests. The last prompts are those of the last test.
        calls = calls[-1:]
    return case._replace(scores=scores, records=records, calls=calls)


def _diff_blocks(views: Sequence[CaseView | None], blocks: CaseBlocks) -> list[DiffBlock]:
    """Return the texts of both cases. A case without a partner has its own texts only."""
    one = views[0] or views[1]
    assert one is not None
    is_one_sided = views[0] is None or views[1] is None
    pairs = compare_cases(views[0] or one, views[1] or one).texts
    result = []
    for pair in pairs:
        if is_one_sided:
            sides = (pair.left, None) if views[1] is None else (None, pair.right)
            pair = TextPair(pair.name, *sides)  # noqa: PLW2901 - the same text, on one side only
        # The difference is made of what is shown: comparing megabytes would take minutes.
        short = TextPair(pair.name, *(None if text is None else preview(text).text for text in pair[1:]))
        by_line = not pair.same and short.by_line and None not in pair[1:]
        changes = [] if pair.same or None in pair[1:] else short.lines if by_line else short.words
        left = blocks.block("base", pair.left) if pair.left is not None and not changes else None
        right = blocks.block("new", pair.right, "reply") if pair.right is not None and not changes else None
        result.append(DiffBlock(pair=pair, changes=changes, by_line=by_line, left=left, right=right))
    return result
