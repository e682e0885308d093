"""Compares runs of one suite, or subjects of a run, on the cases that they share.

    result = compare(["results-before", "results-now@concise"])
    result.comparisons[0].rows, result.comparisons[0].now_failing

`assay compare --json` prints these structs as JSON, so their field names are part of a format.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from assay.core.errors import UsageError
from assay.core.imported import is_imported_scorer
from assay.core.report import PairedMetric
from assay.core.types import JUDGE
from assay.journal.columns import UNKNOWN_TOKENS
from assay.scoring.paired import adjust_metrics
from assay.scoring.purpose_table import NAME as USAGE_TABLE, PurposeNumbers, purpose_numbers_of
from assay.store.comparison.columns import CasePairs, NameNumbers, pair_cases
from assay.store.comparison.flips import FlipReader, Flips
from assay.store.comparison.paired_metrics import (
    PairedScores,
    PairedTable,
    regressions,
    significant_regressions,
    unscored_side,
)
from assay.store.comparison.selection import RunSelection, SelectedSubject, Side, differing_scorers
from assay.store.comparison.slices import PairedSlice, paired_slices

if TYPE_CHECKING:
    from numpy.typing import NDArray


class OneSided(Struct, kw_only=True):
    """Cases without a partner: their number, and the first of them as `set/key`."""

    count: int = 0
    shown: list[str] = field(default_factory=list)


class Cost(Struct, kw_only=True):
    """Time, tokens, calls and money of the paired cases of one side, without scoring.

    `cost` is the sum of the prices in US dollars, reported or from the price table; None if none is known.
    """

    seconds_per_case: float | None
    """None if no case has a time, as in an imported run, or if replies came from elsewhere."""
    input_tokens: int | None
    output_tokens: int | None
    """None if the endpoint counted no tokens."""
    calls: int
    cost: float | None = None


class Comparison(Struct, kw_only=True):
    """Two subjects on the cases that they share."""

    base: Side
    new: Side
    paired: int
    rows: list[PairedMetric]
    now_failing: Flips
    now_passing: Flips
    only_base: OneSided
    only_new: OneSided
    cost: dict[str, Cost]
    notes: list[str]
    stages: dict[str, dict[str, PurposeNumbers]] = field(default_factory=dict)
    """Calls, tokens and seconds by purpose of both sides, all cases: of memories. `stages` is their key in `--json`."""
    one_sided_rows: list[PairedMetric] = field(default_factory=list)
    """Metrics of which one side has no score at all. They have no numbers."""
    slices: list[PairedSlice] = field(default_factory=list)
    """The same metrics by tag, set or subject, if the command asks for it."""
    regressions: list[str] = field(default_factory=list)
    significant_regressions: list[str] = field(default_factory=list)

    @property
    def title(self) -> str:
        """`base → new`. Two subjects of one run differ in their names, two runs usually in their folders only."""
        is_one_run = self.base.folder == self.new.folder
        return " → ".join(side.subject if is_one_run else side.run for side in (self.base, self.new))


class ComparisonResult(Struct, kw_only=True):
    """All comparisons of one command. `schema` is the version of the JSON document."""

    schema: int = 1
    comparisons: list[Comparison]
    notes: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        """A heading for each comparison, and a line for each of its metrics."""
        lines = []
        for comparison in self.comparisons:
            lines += [comparison.title, *(f"  {row}" for row in comparison.rows)]
        return "\n".join(lines)

    def __repr__(self) -> str:
        # A notebook shows it. The fields of all cases that changed would hide the numbers.
        return str(self)


def compare(names: Sequence[str], flips: int = 10, by: str = "") -> ComparisonResult:
    """Compare the first run with each other run. A name is RUN or RUN@SUBJECT.

    With a single run, its first subject is compared with each other subject. `flips` limits the listed cases
    per direction. `by` adds slices: `tag`, `set`, `subject`, or the first word of tags such as `category:2`. Raises
    UsageError if the runs cannot be compared.
    """
    selection = RunSelection(names)
    try:
        comparisons = []
        for base, new in selection.pairs():
            comparisons.append(SubjectPair(base, new, selection.numbers).compare(flips, by))
        return ComparisonResult(comparisons=comparisons, notes=selection.notes)
    finally:
        selection.close()


class SubjectPair:
    """Two subjects with their paired cases and scores. Raises UsageError if they have no case in common."""

    def __init__(self, base: SelectedSubject, new: SelectedSubject, numbers: NameNumbers) -> None:
        self.base, self.new = base, new
        self._other_scorers = differing_scorers(base.state, new.state)
        self.columns = base.columns, new.columns
        self.cases = pair_cases(*self.columns)
        if not len(self.cases.base):
            raise UsageError(
                f"{base.run.folder} ({base.subject}) and {new.run.folder} ({new.subject}) "
                "have no case in common. Cases are paired by their content, so both runs need the same data."
            )
        self.scores = PairedScores(self.columns, self.cases, numbers, self._other_scorers)
        reports, subjects = (base.run.report, new.run.report), (base.subject, new.subject)
        self._paired_table = PairedTable(self.scores, reports, subjects)
        table = self._paired_table.rows()
        self.table = [each for each in table if not unscored_side(each.row)]
        """A row for each set, metric and filter, with the positions of its pairs."""
        self.one_sided_rows = [row for row, _ in table if unscored_side(row)]
        adjust_metrics((row for row, _ in self.table), self._paired_table.apart)
        self.reader = FlipReader((base.run, new.run), self.columns)

    def new_cases(self, positions: NDArray[Any] | int) -> NDArray[Any]:
        """Return the numbers of the new run's cases at these positions of the paired scores."""
        cases: NDArray[Any] = self.columns[1].indexes[self.cases.new[self.scores.pairs.pair[positions]]]
        return cases

    def compare(self, flips: int, by: str = "") -> Comparison:
        """Return all numbers, and the first cases that flipped or have no partner."""
        cases, scores, rows = self.cases, self.scores, [row for row, _ in self.table]
        return Comparison(
            base=self.base.describe(),
            new=self.new.describe(),
            paired=len(cases.base),
            rows=rows,
            now_failing=self.reader.flips(scores, self.table, flips, worse=True),
            now_passing=self.reader.flips(scores, self.table, flips, worse=False),
            only_base=_one_sided(self.reader, 0, cases.only_base, flips),
            only_new=_one_sided(self.reader, 1, cases.only_new, flips),
            cost={"base": _cost(self.base, cases.base), "new": _cost(self.new, cases.new)},
            one_sided_rows=self.one_sided_rows,
            notes=[
                *_notes(self.base, self.new, cases, self._other_scorers),
                *_one_sided_notes(self.one_sided_rows),
            ],
            stages=_by_purpose(self.base, self.new),
            slices=self._slices(by) if by else [],
            regressions=regressions(rows),
            significant_regressions=significant_regressions(rows),
        )

    def _slices(self, by: str) -> list[PairedSlice]:
        """Return the slices, without the metrics that only one side has."""
        slices = paired_slices(by, (self.base, self.new), self.scores, self._paired_table)
        compared = {(row.metric, row.part) for row, _ in self.table}
        for each in slices:
            each.rows = [row for row in each.rows if (row.metric, row.part) in compared]
        return slices


def _one_sided_notes(rows: Sequence[PairedMetric]) -> list[str]:
    """`not compared: recall_at_10, recall_at_20, which the base side has no score of`, for each side."""
    notes = []
    for side in ("base", "new"):
        names = [row.name for row in rows if unscored_side(row) == side]
        if names:
            notes.append(f"not compared: {', '.join(names)}, of which the {side} side has no score")
    return notes


def _by_purpose(base: SelectedSubject, new: SelectedSubject) -> dict[str, dict[str, PurposeNumbers]]:
    found: dict[str, dict[str, PurposeNumbers]] = {}
    for name, side in (("base", base), ("new", new)):
        for entry in side.run.report.entries if side.run.report else ():
            for table in entry.tables:
                if entry.subject == side.subject and table.name == USAGE_TABLE:
                    found[name] = purpose_numbers_of(table)
    return found


def _one_sided(reader: FlipReader, side: int, positions: NDArray[Any], most: int) -> OneSided:
    names = [reader.case_name(side, position) for position in positions[:most].tolist()]
    return OneSided(count=len(positions), shown=names)


def _cost(side: SelectedSubject, positions: NDArray[Any]) -> Cost:
    columns = side.columns
    seconds = columns.seconds[positions]
    is_measured = seconds.any() and not side.run.took_replies
    return Cost(
        seconds_per_case=float(seconds.mean(dtype="float64")) if is_measured else None,
        input_tokens=_tokens(columns.input[positions]),
        output_tokens=_tokens(columns.output[positions]),
        calls=int(columns.calls[positions].sum()),
        cost=None if columns.cost is None else _sum_known(columns.cost[positions]),
    )


def _tokens(counts: NDArray[Any]) -> int | None:
    """Return the sum of the counts that are known, or None if none is."""
    known = counts[counts != UNKNOWN_TOKENS]
    return int(known.sum(dtype="uint64")) if len(known) else None


def _sum_known(costs: NDArray[Any]) -> float | None:
    """Return the sum of the prices that are known, or None if none is."""
    known = costs[costs == costs]  # noqa: PLR0124 - NaN is not equal to itself
    return float(known.sum()) if len(known) else None


def _notes(base: SelectedSubject, new: SelectedSubject, cases: CasePairs, other_scorers: set[str]) -> list[str]:
    """Return the remarks about the pairing that the report prints."""
    notes = []
    if (base.run.folder, base.subject) == (new.run.folder, new.subject):
        notes.append("both sides are the same run and subject, so nothing can differ")
    if JUDGE in other_scorers:
        notes.append("the two sides have different judges, so judge scores are not compared")
    if base.run.summary.adapted != new.run.summary.adapted:
        sides = [", ".join(side.run.summary.adapted) or "nothing" for side in (base, new)]
        notes.append(
            f"the endpoints got different requests: {sides[0]} was adapted in the first run, {sides[1]} in the second"
        )
    timeless = [name for name, side in (("base", base), ("new", new)) if side.run.took_replies]
    if timeless:
        notes.append(
            f"seconds a case of {' and '.join(timeless)} are not measured: replies were taken from another run, or "
            "shared by subjects"
        )
    if any(map(is_imported_scorer, (*base.run.summary.scorers, *new.run.summary.scorers))):
        notes.append("one side is imported: its file does not say with which settings it was scored")
    tables = [side.run.summary.price_tables for side in (base, new)]
    if all(tables) and tables[0] != tables[1]:
        notes.append("the costs of the two sides are computed from different price tables")
    base_sets = base.columns.sets[cases.base]
    new_sets = new.columns.sets[cases.new]
    renamed = int((base_sets != new_sets).sum())
    if renamed:
        notes.append(f"{renamed:,} cases are in sets with different names; they are paired by their content alone")
    return notes
