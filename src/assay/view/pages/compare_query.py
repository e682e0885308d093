"""What the pages of a comparison share: their state in the address, and the names of sides and parts."""

from __future__ import annotations

from typing import cast

from msgspec import Struct
from multidict import MultiMapping

from assay.core.errors import UsageError
from assay.store.comparison import Comparison
from assay.store.comparison.case_pages import ComparedGroup, ComparisonOverview, PairSelection, Shown
from assay.store.comparison.case_table import TableSelection, TableShown
from assay.view.address import read_address, write_address

PAGE_PAIRS = 25
MAX_RUNS = 12
"""Runs of one comparison. Nobody reads more columns, and each run takes memory."""
# Characters of an answer in a table.
_MAX_ANSWER = 600


class CompareQuery(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The state of the page, as it stands in the address."""

    run: list[str] = []
    pair: int = 0
    row: int = 0
    show: Shown = "changed"
    only: int = 0
    """With several runs: only what changed in this one, counted from 1."""
    page: int = 1
    at: int | None = None
    """On the page of one case: the place of the case among those that are shown."""
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

    def selection(self, overview: ComparisonOverview) -> PairSelection | TableSelection:
        """Return the cases of this page, or the one of the page of a case.

        Raises UsageError for a comparison that does not exist.
        """
        first, count = ((self.page - 1) * PAGE_PAIRS, PAGE_PAIRS) if self.at is None else (self.at, 1)
        number, group = self.group(overview)
        if len(group.pairs) == 1:
            return PairSelection(pair=self.pair, row=self.row, show=self.show, first=first, count=count)
        if self.show in ("only_base", "only_new"):
            raise UsageError("cases of one side are shown by a comparison of two runs")
        show = cast("TableShown", self.show)
        return TableSelection(group=number, row=self.row, show=show, only=self.only, first=first, count=count)

    def group(self, overview: ComparisonOverview) -> tuple[int, ComparedGroup]:
        """Return the comparisons that share the base of the chosen one, with their number."""
        for number, group in enumerate(overview.groups):
            if self.pair in group.pairs:
                return number, group
        raise UsageError(f"there is no comparison {self.pair}; there are {len(overview.result.comparisons)}")


def group_titles(comparisons: list[Comparison]) -> list[str]:
    """Return short names of the base and of each other side: subjects if these differ, else runs."""
    sides = [comparisons[0].base, *(each.new for each in comparisons)]
    subjects = [side.subject for side in sides]
    if len(set(subjects)) == len(subjects):
        return subjects
    if len({side.run for side in sides}) == len(sides):
        return [side.run for side in sides]
    return [f"{side.run} {side.subject}" for side in sides]


def last_page_of(query: CompareQuery, total: int) -> int:
    """Return the number of the last page. Raises UsageError if the page of the address comes after it."""
    last_page = max(1, -(-total // PAGE_PAIRS))
    if query.page > last_page:
        raise UsageError(f"there is no page {query.page}: the last page is {last_page}")
    return last_page


def part_title(part: str, row_id: object) -> str:
    """Return the part of a score, after the id of its row in the data if the scores have one."""
    return part if row_id is None else f"{row_id} {part}".strip()


def cut_answer(text: str | None) -> str | None:
    """Return the beginning of an answer, for a cell of a table."""
    return text if text is None or len(text) <= _MAX_ANSWER else f"{text[:_MAX_ANSWER]}…"
