"""A comparison that stays open, and shows the paired cases page by page.

    comparison = OpenComparison([str(before), str(after)])
    page = comparison.page(PairSelection(show="worse"))
    page.total, page.lines[0].new.answer

The pairs are arrays in memory. Only the texts of the cases on a page are read from the journal. Pairs with the same
base are a group. A group of several pairs has a table with one row a case, see `case_table.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from msgspec import Struct

from assay.core.errors import UsageError
from assay.core.report import PairedMetric
from assay.core.suite_pages import StoredCase
from assay.journal.columns import SCORED, score_part_digest
from assay.store.comparison.case_table import CaseTable, GroupRow, TablePage, TableSelection
from assay.store.comparison.columns import STATES
from assay.store.comparison.compare import ComparisonResult, SubjectPair
from assay.store.comparison.flips import Flip, flipped_pairs
from assay.store.comparison.paired_metrics import OTHER_GOLD
from assay.store.comparison.selection import RunSelection
from assay.store.render.case_diff import case_texts, prompt_text, score_rows
from assay.store.row_table import CaseParts

if TYPE_CHECKING:
    from numpy.typing import NDArray

Shown = Literal["changed", "worse", "better", "all", "left_out", "only_base", "only_new"]


class PairSelection(Struct, frozen=True, kw_only=True, tag=True):
    """Which cases of a comparison: the number of the pair of subjects, the row of its table, and what changed."""

    pair: int = 0
    row: int = 0
    show: Shown = "changed"
    first: int = 0
    count: int = 50


class PairLine(Struct, kw_only=True):
    """One pair of cases, or of parts of cases. A case without a partner has only one side."""

    name: str
    base_index: int | None = None
    new_index: int | None = None
    change: str = ""
    """`better`, `worse`, or empty for equal values and for pairs that do not count."""
    flip: Flip | None = None
    """Values, answers and reasons of both sides; None for pairs that do not count."""
    remark: str = ""
    """Why the pair does not count."""


class PairPage(Struct, kw_only=True):
    """The lines of a page. `counts` has the number of lines for each choice of `PairSelection.show`."""

    lines: list[PairLine]
    total: int
    counts: dict[str, int]


class FlippedRows:
    """The rows of the new runs whose verdict differs from that of the base: right before and wrong now, or reverse."""

    def __init__(self, worse: CaseParts, better: CaseParts, score_parts: str) -> None:
        """Both are sorted by case."""
        self.worse, self.better = worse, better
        self._score_parts = score_parts

    def changes(self, index: int, part: str) -> list[str]:
        """Return how a row changed: `worse`, `better`, both if it has several metrics, or neither."""
        import numpy as np

        digest = score_part_digest(self._score_parts, 0, part)
        changes = []
        for name, parts in (("worse", self.worse), ("better", self.better)):
            # Of their own type: numpy would convert all cases to another one first.
            bounds = np.array([index, index + 1], dtype=parts.case.dtype)
            first, last = np.searchsorted(parts.case, bounds).tolist()
            if first < last and (self._score_parts != "rows" or digest in parts.part[first:last]):
                changes.append(name)
        return changes

    def pack(self) -> PackedFlips:
        """Return the rows in a form that another process can read."""
        worse, better = ((each.case.tobytes(), each.part.tobytes()) for each in (self.worse, self.better))
        return PackedFlips(worse=worse, better=better, score_parts=self._score_parts)

    @classmethod
    def unpack(cls, packed: PackedFlips) -> Self:
        """Return the rows that were packed."""
        import numpy as np

        worse, better = (
            CaseParts(np.frombuffer(case, dtype=np.int32), np.frombuffer(part, dtype=np.uint64))
            for case, part in (packed.worse, packed.better)
        )
        return cls(worse, better, packed.score_parts)


class PackedFlips(Struct, kw_only=True):
    """`FlippedRows` as bytes: cases and parts of the rows that became worse, and of those that became better."""

    worse: tuple[bytes, bytes]
    better: tuple[bytes, bytes]
    score_parts: str


class ComparedGroup(Struct, kw_only=True):
    """The comparisons that have the same base, by number. `rows` are their metrics if there are several of them."""

    pairs: list[int]
    rows: list[GroupRow]


class ComparisonOverview(Struct, kw_only=True):
    """All numbers of a comparison."""

    result: ComparisonResult
    groups: list[ComparedGroup]


class CaseTexts(Struct, kw_only=True):
    """The texts of one case by name, see `case_texts`."""

    index: int
    texts: dict[str, str]


class ComparedCases(Struct, kw_only=True):
    """One line of a page with all texts and scores. A run that does not have the case has None in `sides`.

    `sides` begins with the base. A row of `scores` is the name of a score and its value in each side. `total` is the
    number of lines of all pages.
    """

    name: str
    sides: list[CaseTexts | None]
    scores: list[list[str]]
    total: int


class OpenComparison:
    """The comparison of some runs or subjects, with its files open. For one thread at a time."""

    def __init__(self, names: Sequence[str]) -> None:
        """`names` are as for `compare`. Raises UsageError for runs that cannot be compared."""
        self._selection = RunSelection(names)
        try:
            numbers = self._selection.numbers
            self._pairs = [SubjectPair(base, new, numbers) for base, new in self._selection.pairs()]
            comparisons = [pair.compare(flips=0) for pair in self._pairs]
        except BaseException:
            self._selection.close()
            raise
        by_base: dict[tuple[str, str], list[int]] = {}
        for number, comparison in enumerate(comparisons):
            by_base.setdefault((comparison.base.folder, comparison.base.subject), []).append(number)
        self._tables = [CaseTable([self._pairs[number] for number in group]) for group in by_base.values()]
        self.overview = ComparisonOverview(
            result=ComparisonResult(comparisons=comparisons, notes=self._selection.notes),
            groups=[
                ComparedGroup(pairs=group, rows=table.rows)
                for group, table in zip(by_base.values(), self._tables, strict=True)
            ],
        )

    def flipped(self) -> FlippedRows:
        """Return the rows of the new runs that flipped. Raises UsageError if no metric tells right from wrong."""
        if not any(row.right_wrong for pair in self._pairs for row, _ in pair.table):
            raise UsageError("these runs have no metric that tells right from wrong, so no row can flip")
        worse, better = self._flips(worse=True), self._flips(worse=False)
        return FlippedRows(worse, better, self._pairs[0].new.run.info.score_parts)

    def _flips(self, *, worse: bool) -> CaseParts:
        import numpy as np

        # Four bytes a case: they stay in memory, and a million rows are the largest table.
        cases, parts = [np.zeros(0, dtype=np.int32)], [np.zeros(0, dtype=np.uint64)]
        for pair in self._pairs:
            for _, positions in flipped_pairs(pair.scores, pair.table, worse=worse):
                own = pair.new_cases(positions)
                cases.append(own.astype(np.int32))
                if pair.new.run.info.score_parts == "rows":
                    parts.append(pair.columns[1].score_part[pair.scores.pairs.new[positions]])
        case, part = np.concatenate(cases), np.concatenate(parts)
        if not len(part):
            return CaseParts(np.unique(case), part)
        order = np.argsort(case, kind="stable")
        return CaseParts(case[order], part[order])

    def find(self, index: int, part: str = "") -> PairSelection:
        """Return where the page of changed cases has a row that flipped. Raises UsageError if it did not flip."""
        for number, pair in enumerate(self._pairs):
            score_parts = pair.new.run.info.score_parts
            digest = score_part_digest(score_parts, 0, part)
            for worse in (True, False):
                for row, positions in flipped_pairs(pair.scores, pair.table, worse=worse):
                    own = positions[pair.new_cases(positions) == index]
                    if score_parts == "rows":
                        own = own[pair.columns[1].score_part[pair.scores.pairs.new[own]] == digest]
                    if len(own):
                        places = _Places(pair, row).shown["changed"]
                        return PairSelection(pair=number, row=row, first=int((places == own[0]).argmax()), count=1)
        raise UsageError(f"case {index} did not flip between these runs")

    def page(self, selection: PairSelection) -> PairPage:
        """Return the selected cases. Raises UsageError for a pair or a row that does not exist."""
        if not 0 <= selection.pair < len(self._pairs):
            raise UsageError(f"there is no comparison {selection.pair}; there are {len(self._pairs)}")
        pair = self._pairs[selection.pair]
        if not 0 <= selection.row < max(1, len(pair.table)):
            raise UsageError(f"there is no row {selection.row}; the table has {len(pair.table)}")
        places = _Places(pair, selection.row)
        chosen = places.shown[selection.show]
        lines = [
            places.line(selection.show, position)
            for position in chosen[selection.first : selection.first + selection.count].tolist()
        ]
        counts = {name: len(positions) for name, positions in places.shown.items()}
        return PairPage(lines=lines, total=len(chosen), counts=counts)

    def table(self, selection: TableSelection) -> TablePage:
        """Return the selected cases of a group. Raises UsageError for a group, metric or run that does not exist."""
        if not 0 <= selection.group < len(self._tables):
            raise UsageError(f"there is no group {selection.group}; there are {len(self._tables)}")
        return self._tables[selection.group].page(selection)

    def cases(self, selection: PairSelection | TableSelection) -> ComparedCases:
        """Return the first selected case with all its texts. Raises UsageError if nothing is selected."""
        page: PairPage | TablePage
        if isinstance(selection, PairSelection):
            page = self.page(selection)
            pairs = [self._pairs[selection.pair]]
        else:
            page = self.table(selection)
            pairs = [self._pairs[number] for number in self.overview.groups[selection.group].pairs]
        if not page.lines:
            raise UsageError(f"there is no case {selection.first}: {page.total} are shown")
        line = page.lines[0]
        if isinstance(line, PairLine):
            indexes, part = [line.base_index, line.new_index], line.flip.part if line.flip is not None else ""
        else:
            indexes, part = [line.base_index, *(cell.index for cell in line.cells)], line.base.part
        runs = [pairs[0].base.run, *(pair.new.run for pair in pairs)]
        cases = [
            None if index is None else _part_of(run.case(index), part, run.info.score_parts)
            for run, index in zip(runs, indexes, strict=True)
        ]
        return ComparedCases(
            name=line.name,
            sides=[case and CaseTexts(index=case.end.index, texts=case_texts(case)) for case in cases],
            scores=score_rows(cases),
            total=page.total,
        )

    def close(self) -> None:
        """Close all files."""
        self._selection.close()


def _part_of(case: StoredCase, part: str, score_parts: str) -> StoredCase:
    """Return a case, or what it has of one test or question if its parts are rows."""
    if not part or score_parts != "rows":
        return case
    scores = [score for score in case.scores if score.part == part]
    records = [each for each in case.records if each.part == part or each.part.startswith(f"{part}/")]
    calls = case.calls
    if len({score.part for score in case.scores}) > 1:
        # A call does not name its question, but its prompt has the text of it.
        texts = [score.label for score in scores if score.label and score.label != part]
        calls = [call for call in calls if texts and texts[0] in prompt_text(call, case.calls)]
        # The same question is asked again in later tests. The last prompts are those of the last test.
        calls = calls[-1:]
    return case._replace(scores=scores, records=records, calls=calls)


class _Places:
    """The positions of the pairs of one row of the table, by what is shown."""

    def __init__(self, pair: SubjectPair, row: int) -> None:
        import numpy as np

        self._pair = pair
        scores, cases = pair.scores, pair.cases
        self._row: PairedMetric | None = None
        positions: NDArray[Any] = np.zeros(0, dtype=np.int64)
        if pair.table:
            self._row, positions = pair.table[row]
        counts = scores.counts[positions]
        counted = positions[counts]
        rise = scores.new[counted] - scores.base[counted]
        if self._row is not None and not self._row.higher_is_better:
            rise = -rise
        self.shown: dict[str, NDArray[Any]] = {
            "changed": counted[rise != 0],
            "worse": counted[rise < 0],
            "better": counted[rise > 0],
            "all": counted,
            "left_out": positions[~counts],
            "only_base": cases.only_base,
            "only_new": cases.only_new,
        }

    def line(self, show: str, position: int) -> PairLine:
        """Return one line. `position` is that of a paired score, or of a case without a partner."""
        pair = self._pair
        if show in ("only_base", "only_new"):
            side = int(show == "only_new")
            index = int(pair.columns[side].indexes[position])
            end = (pair.base, pair.new)[side].run.end(index)
            title = end.label or f"{end.set}/{end.case}"
            return PairLine(name=title, new_index=index) if side else PairLine(name=title, base_index=index)
        scores = pair.scores
        base_index = int(pair.columns[0].indexes[pair.cases.base[scores.pairs.pair[position]]])
        new_index = int(pair.new_cases(position))
        end = pair.new.run.end(new_index)
        line = PairLine(name=end.label or f"{end.set}/{end.case}", base_index=base_index, new_index=new_index)
        if not scores.counts[position]:
            line.remark = self._why_left_out(position)
            return line
        base, new = int(scores.pairs.base[position]), int(scores.pairs.new[position])
        name = scores.score_names[int(scores.pairs.name[position])]
        line.flip = flip = pair.reader.read(base, new, name)
        # A part of a case, such as a question, has a label of its own.
        line.name = pair.reader.label(new, name) or line.name
        rise = flip.new.value - flip.base.value
        if self._row is not None and not self._row.higher_is_better:
            rise = -rise
        line.change = "better" if rise > 0 else "worse" if rise < 0 else ""
        return line

    def _why_left_out(self, position: int) -> str:
        scores = self._pair.scores
        if scores.other_gold[position]:
            return OTHER_GOLD
        states = (("base", scores.pairs.base_state), ("new", scores.pairs.new_state))
        return ", ".join(
            f"{STATES[int(state[position])]} in {side}" for side, state in states if state[position] != SCORED
        )
