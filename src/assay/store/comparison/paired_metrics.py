"""The table of a comparison: a paired metric for each set, metric and filter, computed over the pairs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.core.report import Metric, PairedMetric, Report
from assay.journal.columns import SCORED
from assay.scoring.paired import fill_metric, paired
from assay.store.comparison.columns import (
    NOT_SCORED,
    STATES,
    UNMEASURED,
    CasePairs,
    ComparedScore,
    NameNumbers,
    SubjectColumns,
    pair_scores,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

OTHER_GOLD = "judged by other expectations"
IN_BOTH = " in both"
"""End of the reason why a pair is left out that counts on neither side."""
# Aggregations that fall when the values of the cases rise. A perplexity falls when log-likelihoods rise.
_FALLING = frozenset({"perplexity"})


class PairedScores:
    """The paired scores of two subjects, as arrays.

    A pair counts (`counts`) if both scores are numbers and were scored with the same expected values.
    """

    def __init__(
        self,
        sides: tuple[SubjectColumns, SubjectColumns],
        cases: CasePairs,
        numbers: NameNumbers,
        other_scorers: set[str],
    ) -> None:
        import numpy as np

        base, new = sides
        self.set_names, self.score_names = list(numbers.sets), list(numbers.scores)
        self.pairs = pairs = pair_scores(base, new, cases)
        self.set = base.sets[cases.base][pairs.pair]
        self.cluster = base.keys[cases.base][pairs.pair]
        self.base = _take(base.score_value, pairs.base)
        self.new = _take(new.score_value, pairs.new)
        both = (pairs.base >= 0) & (pairs.new >= 0)
        scored = both & (pairs.base_state == SCORED) & (pairs.new_state == SCORED)
        # Scores of different scorer versions are comparable only if both have equal gold fingerprints.
        base_gold = _take(base.score_gold, pairs.base)
        new_gold = _take(new.score_gold, pairs.new)
        other = [number for number, name in enumerate(self.score_names) if name.scorer in other_scorers]
        # 0 means that a score has no fingerprint. An imported score may have none, and still counts.
        unknown = (base_gold == 0) | (new_gold == 0)
        differing = np.where(unknown, np.isin(pairs.name, other), base_gold != new_gold)
        self.other_gold = scored & differing
        self.counts = scored & ~self.other_gold


def _take(values: NDArray[Any], positions: NDArray[Any]) -> NDArray[Any]:
    """Return the values at these positions. Position -1 gives an arbitrary value; such pairs never count."""
    import numpy as np

    return values[positions] if len(values) else np.zeros(len(positions), dtype=values.dtype)


class MetricPairs(NamedTuple):
    """A row of the table with the positions of its pairs in `PairedScores`, also of those that do not count."""

    row: PairedMetric
    positions: NDArray[Any]


class PairedTable:
    """Makes the rows of a table from paired scores. `reports` say for which metrics lower is better."""

    def __init__(self, scores: PairedScores, reports: tuple[Report, Report], subjects: tuple[str, str]) -> None:
        self._scores = scores
        self._reports = reports
        self._subjects = subjects
        self.apart = {metric.name for report in reports for _, metric in report.metrics() if metric.table}
        """Metrics that the reports show in a table of their own. p of the others is not adjusted for them."""

    def rows(self) -> list[MetricPairs]:
        """Return the rows by set. With several sets, rows over all sets come first.

        A metric with filters has no row over all sets.
        """
        import numpy as np

        scores = self._scores
        names = scores.pairs.name
        by_set = list(_group(scores.set, names))
        rows = []
        if len({set_number for set_number, _, _ in by_set}) > 1:
            for _, name, positions in _group(np.zeros_like(names), names):
                if not scores.score_names[name].part:
                    rows.append(self._row("", name, positions))
        for set_number, name, positions in by_set:
            rows.append(self._row(scores.set_names[set_number], name, positions))
        return rows

    def slice_rows(self, positions: NDArray[Any]) -> list[PairedMetric]:
        """Return the rows of some of the pairs, over all sets. A metric with filters has a row for each set."""
        import numpy as np

        scores = self._scores
        names = scores.pairs.name[positions]
        has_filter = np.array([bool(name.part) for name in scores.score_names], dtype=bool)
        # 0 stands for all sets, so the numbers of sets begin with 1.
        sets = np.where(has_filter[names], scores.set[positions] + 1, 0)
        rows = []
        for set_number, name, members in _group(sets, names):
            set_name = scores.set_names[set_number - 1] if set_number else ""
            rows.append(self._row(set_name, name, positions[members]).row)
        return rows

    def _row(self, set_name: str, name: int, positions: NDArray[Any]) -> MetricPairs:
        scores = self._scores
        score_name = scores.score_names[name]
        counted = positions[scores.counts[positions]]
        reported = [
            metric
            for report, subject in zip(self._reports, self._subjects, strict=True)
            if (metric := _reported_metric(set_name, score_name, report, subject)) is not None
        ]
        row = PairedMetric(
            set=set_name,
            metric=score_name.metric,
            part=score_name.part,
            higher_is_better=_higher_is_better(reported),
            n=0,
            left_out=_left_out(scores, positions),
        )
        # A row without pairs is kept: it shows why pairs were left out.
        if len(counted):
            has_own_scale = _has_own_scale(reported)
            fill_metric(
                row,
                paired(scores.base[counted], scores.new[counted], scores.cluster[counted], has_own_scale=has_own_scale),
            )
        return MetricPairs(row, positions)


def _group(first: NDArray[Any], second: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yield each pair of numbers that occurs, in order, with its positions."""
    import numpy as np

    if not len(first):
        return
    seconds = int(second.max()) + 1
    codes = first.astype(np.int64) * seconds + second
    if int(codes.max()) <= np.iinfo(np.uint16).max:
        codes = codes.astype(np.uint16)  # numpy sorts small numbers by counting, ten times as fast
    order = np.argsort(codes, kind="stable")
    ordered = codes[order]
    starts = np.flatnonzero(ordered[1:] != ordered[:-1]) + 1
    for positions in np.split(order, starts):
        yield *divmod(int(codes[positions[0]]), seconds), positions


def _reported_metric(set_name: str, name: ComparedScore, report: Report, subject: str) -> Metric | None:
    """Return the metric as a report has it: of the entry of this set, of the subject, or of any."""
    for entry_name in (set_name, subject, None):
        if entry_name == "":
            continue  # a row over all sets
        for entry in report.entries:
            if entry_name is not None and entry_name not in (entry.name, entry.set, entry.subject):
                continue
            for metric in entry.metrics:
                if metric.name == name.metric and metric.filter in (name.part, ""):
                    return metric
    return None


def _higher_is_better(reported: Sequence[Metric]) -> bool:
    """Return the direction of a metric: that of the first report which has it. Without one it is True."""
    return not reported or reported[0].aggregation in _FALLING or reported[0].higher_is_better is not False


def _has_own_scale(reported: Sequence[Metric]) -> bool:
    """Return whether the values of a metric are numbers of their own scale: the reports say so by the interval.

    Right and wrong answers and shares have the interval of a proportion. The mean of other numbers has one by Student's
    t, and none if they are all equal. If neither report has one, the values are only known to be alike.
    """
    methods = {metric.interval_method for metric in reported}
    if methods & {"t", "clustered t"}:
        return methods <= {"t", "clustered t", ""}
    is_alike = len({metric.value for metric in reported}) == 1
    return is_alike and methods == {""} and all(each.stderr == 0 and each.clusters is None for each in reported)


def _left_out(scores: PairedScores, positions: NDArray[Any]) -> dict[str, int]:
    """Return the number of pairs that do not count, by reason."""
    import numpy as np

    excluded = positions[~scores.counts[positions]]
    other_gold = scores.other_gold[excluded]
    counts = {OTHER_GOLD: int(other_gold.sum())} if other_gold.any() else {}
    rest = excluded[~other_gold]
    # Both states in one number, so that one pass counts each combination.
    codes = scores.pairs.base_state[rest] * np.uint8(len(STATES)) + scores.pairs.new_state[rest]
    for code, count in zip(*np.unique(codes, return_counts=True), strict=True):
        base, new = divmod(int(code), len(STATES))
        if base == new:
            reason = f"{STATES[base]}{IN_BOTH}"
        else:
            sides = ((base, "base"), (new, "new"))
            reason = ", ".join(f"{STATES[state]} in {side}" for state, side in sides if state != SCORED)
        counts[reason] = int(count)
    return counts


def unscored_side(row: PairedMetric) -> str:
    """Return `base` or `new` if that side has no score of this row's metric at all, else "".

    Both sides then measured different things, such as the recall at 10 of a search for 5 items. No pair is lost.
    """
    for side in ("base", "new"):
        if not row.n and set(row.left_out) == {f"{STATES[NOT_SCORED]} in {side}"}:
            return side
    return ""


def is_sum_row(row: PairedMetric, rows: list[PairedMetric]) -> bool:
    """Return True for a row over all sets whose sets have their own rows."""
    if row.set:
        return False
    return any(other.set and (other.metric, other.part) == (row.metric, row.part) for other in rows)


def regressions(rows: list[PairedMetric]) -> list[str]:
    """Return one sentence per row with a case that became wrong, with a significantly worse number, or without any."""
    sentences = _unanswered_sentences(rows)
    for row in rows:
        # The flips of a row over all sets are those of its sets, which have their own rows.
        if row.right_wrong and is_sum_row(row, rows):
            continue
        if row.right_wrong and row.losses:
            sentences.append(f"{row.name}: {row.losses:,} of {row.n:,} were right and are wrong now")
        elif row.verdict == "worse":
            sentences.append(_worse_sentence(row))
    return sentences


def significant_regressions(rows: list[PairedMetric]) -> list[str]:
    """Return one sentence per row whose number is significantly worse, or is no longer measured."""
    return _unanswered_sentences(rows) + [_worse_sentence(row) for row in rows if row.verdict == "worse"]


def _unanswered_sentences(rows: list[PairedMetric]) -> list[str]:
    """Return one sentence per row that has no number because the new side has no answer. It must not pass a build."""
    lost = f"{STATES[UNMEASURED]} in new"
    return [
        f"{row.name}: it was measured, and the new side has no answer"
        for row in rows
        if not row.n and lost in row.left_out and not is_sum_row(row, rows)
    ]


def _worse_sentence(row: PairedMetric) -> str:
    # The verdict is by the adjusted p, so every row that is worse has one.
    return f"{row.name}: {row.base:.4f} → {row.new:.4f}, p {row.p_adjusted:.3g}"
