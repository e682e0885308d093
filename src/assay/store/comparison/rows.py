"""Makes the rows of the table from paired scores, and says which of them got worse."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from assay.core.report import Metric, PairedRow
from assay.journal.folder import Summary
from assay.scoring.paired import Paired, paired
from assay.store.comparison.columns import SCORED, STATES, Columns, Names, Slot, metrics_of, view
from assay.store.comparison.pairing import CasePairs, score_pairs

if TYPE_CHECKING:
    from numpy.typing import NDArray

OTHER_GOLD = "judged by other expectations"
LEVEL = 0.05
_OF_LOGPROBS = frozenset({"perplexity"})
"""Aggregations that fall as the cases' own values rise."""


class Values:
    """The paired scores as arrays: a pair counts if both are numbers, judged by the same expectations."""

    def __init__(
        self, sides: tuple[Columns, Columns], cases: CasePairs, names: Names, other_scorers: set[str]
    ) -> None:
        import numpy as np

        base, new = sides
        self.scores = found = score_pairs(base, new, cases)
        self.set_names, self.slot_names = list(names.sets), list(names.slots)
        self.set = view(base.sets)[cases.base][found.pair]
        self.cluster = view(base.keys)[cases.base][found.pair]
        self.base = _at(view(base.score_value), found.base)
        self.new = _at(view(new.score_value), found.new)
        both = (found.base >= 0) & (found.new >= 0)
        gold = _at(view(base.score_gold), found.base), _at(view(new.score_gold), found.new)
        strict = np.isin(found.slot, [i for i, s in enumerate(self.slot_names) if s.scorer in other_scorers])
        scored = both & (found.base_state == SCORED) & (found.new_state == SCORED)
        self.other_gold = scored & ((gold[0] != gold[1]) | (strict & (gold[0] == 0)))
        self.counts = scored & ~self.other_gold


def _at(values: NDArray[Any], places: NDArray[Any]) -> NDArray[Any]:
    """Values at places; of -1 any value, which nobody looks at."""
    import numpy as np

    return values[places] if len(values) else np.zeros(len(places), dtype=values.dtype)


class Table:
    """Rows with the positions of their pairs."""

    def __init__(self, values: Values, summaries: tuple[Summary, Summary], subjects: tuple[str, str]) -> None:
        self._values = values
        self._summaries = summaries
        self._subjects = subjects

    def rows(self) -> Iterator[tuple[PairedRow, NDArray[Any]]]:
        """Where parts are no filters and sets are several, a row over all sets; then set by set."""
        import numpy as np

        values = self._values
        slot = values.scores.slot
        by_set = list(_grouped(values.set, slot))
        several = len({one for one, _, _ in by_set}) > 1
        for _, number, places in _grouped(np.zeros_like(slot), slot) if several else ():
            if not values.slot_names[number].part:
                yield self._row("", values.slot_names[number], places), places
        for one, number, places in by_set:
            yield self._row(values.set_names[one], values.slot_names[number], places), places

    def _row(self, name: str, slot: Slot, places: NDArray[Any]) -> PairedRow:
        values = self._values
        counted = places[values.counts[places]]
        row = PairedRow(
            set=name,
            metric=slot.metric,
            part=slot.part,
            higher_is_better=self._higher(name, slot),
            n=len(counted),
            left_out=self._left_out(places),
        )
        if len(counted):
            found = paired(values.base[counted], values.new[counted], values.cluster[counted])
            _fill(row, found)
        return row

    def _left_out(self, places: NDArray[Any]) -> dict[str, int]:
        import numpy as np

        values, scores = self._values, self._values.scores
        left = places[~values.counts[places]]
        gold = values.other_gold[left]
        counts = {OTHER_GOLD: int(gold.sum())} if gold.any() else {}
        codes = scores.base_state[left[~gold]] * np.uint8(len(STATES)) + scores.new_state[left[~gold]]
        for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
            base, new = divmod(int(code), len(STATES))
            counts[_reason(base, new)] = int(count)
        return counts

    def _higher(self, name: str, slot: Slot) -> bool:
        """As the runs' own tables say: of this set, of the subject, or of any; up where none says."""
        for summary, subject in zip(self._summaries, self._subjects, strict=True):
            for place in (name, subject, None):
                for metric in metrics_of(summary, place):
                    if metric.name == slot.metric and metric.filter in (slot.part, ""):
                        return _higher(metric)
        return True


def _grouped(first: NDArray[Any], second: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Each pair of numbers that occurs, with the positions where it does, in order."""
    import numpy as np

    order = np.lexsort((second, first))
    ones, others = first[order], second[order]
    starts = np.flatnonzero((ones[1:] != ones[:-1]) | (others[1:] != others[:-1])) + 1
    for places in np.split(order, starts) if len(order) else ():
        yield int(first[places[0]]), int(second[places[0]]), places


def _higher(metric: Metric) -> bool:
    return metric.aggregation in _OF_LOGPROBS or metric.higher_is_better is not False


def _reason(base: int, new: int) -> str:
    if base == new:
        return f"{STATES[base]} in both"
    named = [
        f"{STATES[state]} in {side}" for state, side in ((base, "base"), (new, "new")) if state != SCORED
    ]
    return ", ".join(named)


def _fill(row: PairedRow, found: Paired) -> None:
    row.clusters, row.base, row.new = found.clusters, found.base, found.new
    row.difference, row.stderr = found.difference, found.stderr
    row.interval = found.interval
    row.interval_method = found.method
    row.wins, row.losses = (found.rose, found.fell) if row.higher_is_better else (found.fell, found.rose)
    row.ties, row.right_wrong, row.p = found.ties, found.right_wrong, found.p
    row.verdict = verdict(row)


def verdict(row: PairedRow) -> str:
    """Better, worse or unclear: by McNemar's p where there is one, else by where the interval lies."""
    if row.p is not None:
        sure = row.p < LEVEL
        return "unclear" if not sure else "better" if row.wins > row.losses else "worse"
    if row.interval is None or row.interval[0] <= 0 <= row.interval[1]:
        return "unclear"
    return "better" if (row.interval[0] > 0) == row.higher_is_better else "worse"


def covered(row: PairedRow, rows: list[PairedRow]) -> bool:
    """Whether this is a row over all sets, and the sets have rows of their own."""
    return row.set == "" and any(one.set and (one.metric, one.part) == (row.metric, row.part) for one in rows)


def regressions(rows: list[PairedRow]) -> list[str]:
    """Every set and metric in which a case that was right is wrong now, or the number is surely worse."""
    found = []
    for row in rows:
        if row.right_wrong and covered(row, rows):
            continue
        if row.right_wrong and row.losses:
            found.append(f"{row.name}: {row.losses:,} of {row.n:,} were right and are wrong now")
        elif row.verdict == "worse":
            found.append(_worse(row))
    return found


def significant(rows: list[PairedRow]) -> list[str]:
    """Every number that is surely worse."""
    return [_worse(row) for row in rows if row.verdict == "worse"]


def _worse(row: PairedRow) -> str:
    by = f"p {row.p:.3g}" if row.p is not None else f"95% interval {_shown(row)}"
    return f"{row.name}: {row.base:.4f} → {row.new:.4f}, {by}"


def _shown(row: PairedRow) -> str:
    assert row.interval is not None
    return f"{row.interval[0]:+.4f} to {row.interval[1]:+.4f}"
