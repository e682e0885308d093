"""Cases of three or more runs or subjects: one row a case, and one cell for each of them.

    table = CaseTable(pairs)                        # pairs of subjects with the same base
    page = table.page(TableSelection(show="worse"))
    page.lines[0].base, page.lines[0].cells[1].flip

The rows are those of the base. A case that the base does not have is in the comparison of two runs only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from msgspec import Struct

from assay.core.errors import UsageError
from assay.journal.columns import SCORED
from assay.store.comparison.columns import STATES
from assay.store.comparison.compare import SubjectPair
from assay.store.comparison.flips import BaseScore, Flip
from assay.store.comparison.paired_metrics import OTHER_GOLD

if TYPE_CHECKING:
    from numpy.typing import NDArray

TableShown = Literal["changed", "worse", "better", "all", "left_out"]
NOT_IN_RUN = "not in this run"


class TableSelection(Struct, frozen=True, kw_only=True, tag=True):
    """Which rows of a table: its metric, and what changed in any run, or in run `only`, counted from 1."""

    group: int = 0
    row: int = 0
    show: TableShown = "changed"
    only: int = 0
    first: int = 0
    count: int = 50


class TableCell(Struct, kw_only=True):
    """The case in one run. Without `flip` the scores are not compared, and `remark` says why."""

    index: int | None = None
    change: str = ""
    """`better` or `worse` than the base, or empty."""
    flip: Flip | None = None
    remark: str = ""


class TableLine(Struct, kw_only=True):
    """One case, or one part of it such as a question."""

    name: str
    base_index: int
    base: BaseScore
    cells: list[TableCell]


class TablePage(Struct, kw_only=True):
    """The lines of a page. `counts` has the number of lines for each choice of `TableSelection.show`."""

    lines: list[TableLine]
    total: int
    counts: dict[str, int]


class GroupRow(Struct, kw_only=True):
    """A metric. `places` has its row in the table of each pair; None if no pair of cases has it."""

    name: str
    higher_is_better: bool
    places: list[int | None]


class CaseTable:
    """The cases of a base in several other runs or subjects."""

    def __init__(self, pairs: Sequence[SubjectPair]) -> None:
        self._pairs = pairs
        found: dict[tuple[str, int], GroupRow] = {}
        for number, pair in enumerate(pairs):
            for place, (row, positions) in enumerate(pair.table):
                key = row.set, int(pair.scores.pairs.name[positions[0]])
                if key not in found:
                    found[key] = GroupRow(
                        name=row.name, higher_is_better=row.higher_is_better, places=[None] * len(pairs)
                    )
                found[key].places[number] = place
        self._keys = list(found)
        self.rows = list(found.values())
        """The metrics of the table."""
        self._last: tuple[int, _Changes] | None = None

    def page(self, selection: TableSelection) -> TablePage:
        """Return the selected lines. Raises UsageError for a metric or a run that does not exist."""
        if not 0 <= selection.row < max(1, len(self.rows)):
            raise UsageError(f"there is no row {selection.row}; the table has {len(self.rows)}")
        if not 0 <= selection.only <= len(self._pairs):
            raise UsageError(f"there is no run {selection.only}; there are {len(self._pairs)} beside the base")
        if not self.rows:
            return TablePage(lines=[], total=0, counts=dict.fromkeys(TableShown.__args__, 0))  # type: ignore[attr-defined]
        if self._last is None or self._last[0] != selection.row:
            self._last = selection.row, self._changes(selection.row)
        changes = self._last[1]
        shown = changes.shown(selection.only)
        numbers = shown[selection.show]
        return TablePage(
            lines=[
                self._line(selection.row, changes, number)
                for number in numbers[selection.first : selection.first + selection.count].tolist()
            ],
            total=len(numbers),
            counts={name: len(each) for name, each in shown.items()},
        )

    def _changes(self, row: int) -> _Changes:
        import numpy as np

        set_name, name = self._keys[row]
        base = self._pairs[0].columns[0]
        is_own = base.score_name == name
        if set_name:
            set_number = self._pairs[0].scores.set_names.index(set_name)
            is_own &= base.sets[base.score_case] == set_number
        score_rows = np.flatnonzero(is_own).astype(np.int32)
        places, signs = [], []
        for pair, place in zip(self._pairs, self.rows[row].places, strict=True):
            of_score = np.full(len(base.score_name), -1, dtype=np.int32)
            if place is not None:
                positions = pair.table[place].positions
                in_base = pair.scores.pairs.base[positions]
                of_score[in_base[in_base >= 0]] = positions[in_base >= 0]
            own = of_score[score_rows]
            scores = pair.scores
            rise = np.sign(scores.new[own] - scores.base[own])
            if place is not None and not pair.table[place].row.higher_is_better:
                rise = -rise
            counts = (own >= 0) & scores.counts[own]
            places.append(own)
            signs.append(np.where(counts, rise, _NOT_COMPARED).astype(np.int8))
        return _Changes(score_rows, np.stack(places), np.stack(signs))

    def _line(self, row: int, changes: _Changes, number: int) -> TableLine:
        first = self._pairs[0]
        score_row = int(changes.score_rows[number])
        name = first.scores.score_names[self._keys[row][1]]
        base = first.reader.read_base(score_row, name)
        columns = first.columns[0]
        index = int(columns.indexes[columns.score_case[score_row]])
        end = first.base.run.end(index)
        cells = []
        for pair, place, sign in zip(
            self._pairs, changes.places[:, number].tolist(), changes.signs[:, number].tolist(), strict=True
        ):
            cell = TableCell(remark=NOT_IN_RUN)
            if place >= 0:
                pairs = pair.scores.pairs
                case = pair.cases.new[int(pairs.pair[place])]
                cell = TableCell(index=int(pair.columns[1].indexes[case]))
                if sign == _NOT_COMPARED:
                    cell.remark = self._why_left_out(pair, place)
                else:
                    cell.flip = pair.reader.read(score_row, int(pairs.new[place]), name)
                    cell.change = "better" if sign > 0 else "worse" if sign < 0 else ""
            cells.append(cell)
        title = base.label or end.label or f"{end.set}/{end.case}"
        return TableLine(name=title, base_index=index, base=base, cells=cells)

    @staticmethod
    def _why_left_out(pair: SubjectPair, place: int) -> str:
        scores = pair.scores
        if scores.other_gold[place]:
            return OTHER_GOLD
        base, new = int(scores.pairs.base_state[place]), int(scores.pairs.new_state[place])
        return STATES[new] if new != SCORED else f"{STATES[base]} in base"


# Stands in place of a sign where the scores of base and run are not compared.
_NOT_COMPARED = 2


class _Changes(NamedTuple):
    """One metric: the scores of the base, and for each run and score its pair and the sign of its change.

    `places` are positions in `PairedScores`, -1 for none. A sign is 1 for better, -1 for worse.
    """

    score_rows: NDArray[Any]
    places: NDArray[Any]
    signs: NDArray[Any]

    def shown(self, only: int) -> dict[str, NDArray[Any]]:
        """Return the numbers of the lines by what is shown; `only` is a run from 1, or 0 for any run."""
        import numpy as np

        signs = self.signs[only - 1 : only] if only else self.signs
        better, worse = (signs == 1).any(axis=0), (signs == -1).any(axis=0)
        return {
            "changed": np.flatnonzero(better | worse),
            "worse": np.flatnonzero(worse),
            "better": np.flatnonzero(better),
            "all": np.arange(len(self.score_rows)),
            "left_out": np.flatnonzero((signs == _NOT_COMPARED).any(axis=0)),
        }
