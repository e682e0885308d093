"""Compares runs, or subjects of a run, of any suite, on the cases that they share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from assay.core.errors import UsageError
from assay.core.report import PairedRow
from assay.core.types import JUDGE
from assay.store.comparison.columns import Columns, view
from assay.store.comparison.flips import Texts
from assay.store.comparison.pairing import CasePairs, case_pairs
from assay.store.comparison.result import (
    Compared,
    Comparison,
    Cost,
    Flip,
    Flips,
    FlipSide,
    OneSided,
    Side,
)
from assay.store.comparison.rows import Table, Values, covered, regressions, significant
from assay.store.comparison.sides import Choice, Sides, refuse

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "Compared",
    "Comparison",
    "Cost",
    "Flip",
    "FlipSide",
    "Flips",
    "OneSided",
    "Side",
    "compare",
]


_OTHER_JUDGE = "the two sides have not the same judge: what judges said is not compared"


def compare(names: Sequence[str], flips: int = 10) -> Compared:
    """The first of these runs (RUN or RUN@SUBJECT) with each other one; at most `flips` texts each way.

    One run alone: its first subject with each of its others. Raises where they cannot be compared.
    """
    sides = Sides(names)
    try:
        found = [_compare(base, new, sides, flips) for base, new in sides.pairs()]
        return Compared(comparisons=found, notes=sides.notes)
    finally:
        sides.close()


def _compare(base: Choice, new: Choice, sides: Sides, flips: int) -> Comparison:
    other_scorers = refuse(base, new)
    columns = base.columns, new.columns
    cases = case_pairs(*columns)
    if not len(cases.base):
        raise UsageError(
            f"{base.reading.folder} ({base.subject}) and {new.reading.folder} ({new.subject}) "
            "have no case in common: cases are paired by their content"
        )
    values = Values(columns, cases, sides.names, other_scorers)
    summaries = base.reading.summary, new.reading.summary
    found = list(Table(values, summaries, (base.subject, new.subject)).rows())
    rows = [row for row, _ in found]
    texts = Texts((base.reading, new.reading), columns)
    return Comparison(
        base=base.about(),
        new=new.about(),
        paired=len(cases.base),
        rows=rows,
        now_failing=_flips(values, found, texts, flips, worse=True),
        now_passing=_flips(values, found, texts, flips, worse=False),
        only_base=_one_sided(texts, 0, cases.only_base, flips),
        only_new=_one_sided(texts, 1, cases.only_new, flips),
        cost={"base": _cost(columns[0], cases.base), "new": _cost(columns[1], cases.new)},
        notes=_notes(base, new, cases, other_scorers),
        regressions=regressions(rows),
        significant_regressions=significant(rows),
    )


def _flips(
    values: Values, found: list[tuple[PairedRow, NDArray[Any]]], texts: Texts, most: int, *, worse: bool
) -> Flips:
    """Of right and wrong only, each set once, in the table's order."""
    flips, rows = Flips(), [row for row, _ in found]
    for row, places in found:
        if not row.right_wrong or covered(row, rows):
            continue
        counted = places[values.counts[places]]
        rise = values.new[counted] - values.base[counted]
        flipped = counted[(rise < 0) if worse == row.higher_is_better else (rise > 0)]
        flips.count += len(flipped)
        for place in flipped[: most - len(flips.shown)].tolist():
            slot = values.slot_names[int(values.scores.slot[place])]
            flips.shown.append(
                texts.flip(int(values.scores.base[place]), int(values.scores.new[place]), slot)
            )
    return flips


def _one_sided(texts: Texts, which: int, positions: NDArray[Any], most: int) -> OneSided:
    shown = [texts.name(which, position) for position in positions[:most].tolist()]
    return OneSided(count=len(positions), shown=shown)


def _cost(columns: Columns, positions: NDArray[Any]) -> Cost:
    return Cost(
        seconds_per_case=float(view(columns.seconds)[positions].mean()),
        input_tokens=int(view(columns.input)[positions].sum()),
        output_tokens=int(view(columns.output)[positions].sum()),
        calls=int(view(columns.calls)[positions].sum()),
    )


def _notes(base: Choice, new: Choice, cases: CasePairs, other_scorers: set[str]) -> list[str]:
    """What a reader should know about the pairing."""
    notes = [_OTHER_JUDGE] if JUDGE in other_scorers else []
    ours = view(base.columns.sets)[cases.base]
    theirs = view(new.columns.sets)[cases.new]
    renamed = int((ours != theirs).sum())
    if renamed:
        notes.append(
            f"{renamed:,} cases stand in sets of other names; they are paired by their content alone"
        )
    return notes
