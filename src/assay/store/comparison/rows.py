"""The table of a comparison, and its flips: cases that are right on one side and wrong on the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from assay.core.report import PairedRow, Report
from assay.core.types import Score
from assay.journal.columns import SCORED, score_part_digest
from assay.scoring.paired import fill_row, paired
from assay.store.comparison.columns import (
    STATES,
    CasePairs,
    ComparedRun,
    ComparedScore,
    NameNumbers,
    SubjectColumns,
    pair_scores,
    scorer_name,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

OTHER_GOLD = "judged by other expectations"
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


def table_rows(
    scores: PairedScores, reports: tuple[Report, Report], subjects: tuple[str, str]
) -> Iterator[tuple[PairedRow, NDArray[Any]]]:
    """Yield the rows of the table, each with the positions of its pairs.

    With several sets, rows over all sets come first. A metric with filters has no such row.
    """
    import numpy as np

    names = scores.pairs.name
    by_set = list(_group(scores.set, names))
    groups = []
    if len({set_number for set_number, _, _ in by_set}) > 1:
        for _, name, positions in _group(np.zeros_like(names), names):
            if not scores.score_names[name].part:
                groups.append(("", name, positions))
    for set_number, name, positions in by_set:
        groups.append((scores.set_names[set_number], name, positions))
    for set_name, name, positions in groups:
        score_name = scores.score_names[name]
        counted = positions[scores.counts[positions]]
        row = PairedRow(
            set=set_name,
            metric=score_name.metric,
            part=score_name.part,
            higher_is_better=_higher_is_better(set_name, score_name, reports, subjects),
            n=0,
            left_out=_left_out(scores, positions),
        )
        # A row without pairs is kept: it shows why pairs were left out.
        if len(counted):
            fill_row(row, paired(scores.base[counted], scores.new[counted], scores.cluster[counted]))
        yield row, positions


def _group(first: NDArray[Any], second: NDArray[Any]) -> Iterator[tuple[int, int, NDArray[Any]]]:
    """Yield each pair of numbers that occurs, in order, with its positions."""
    import numpy as np

    if not len(first):
        return
    order = np.lexsort((second, first))
    firsts, seconds = first[order], second[order]
    starts = np.flatnonzero((firsts[1:] != firsts[:-1]) | (seconds[1:] != seconds[:-1])) + 1
    for positions in np.split(order, starts):
        yield int(first[positions[0]]), int(second[positions[0]]), positions


def _higher_is_better(
    set_name: str, name: ComparedScore, reports: tuple[Report, Report], subjects: tuple[str, str]
) -> bool:
    """Return the direction of a metric: from the report's entry of this set, of the subject, or any. Default True."""
    for report, subject in zip(reports, subjects, strict=True):
        for entry_name in (set_name, subject, None):
            if entry_name == "":
                continue  # a row over all sets
            for entry in report.entries:
                if entry_name is not None and entry_name not in (entry.name, entry.set, entry.subject):
                    continue
                for metric in entry.metrics:
                    if metric.name == name.metric and metric.filter in (name.part, ""):
                        return metric.aggregation in _FALLING or metric.higher_is_better is not False
    return True


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
            reason = f"{STATES[base]} in both"
        else:
            sides = ((base, "base"), (new, "new"))
            reason = ", ".join(f"{STATES[state]} in {side}" for state, side in sides if state != SCORED)
        counts[reason] = int(count)
    return counts


def is_sum_row(row: PairedRow, rows: list[PairedRow]) -> bool:
    """Return True for a row over all sets whose sets have their own rows."""
    if row.set:
        return False
    return any(other.set and (other.metric, other.part) == (row.metric, row.part) for other in rows)


def regressions(rows: list[PairedRow]) -> list[str]:
    """Return one sentence per row with a case that became wrong, or with a significantly worse number."""
    sentences = []
    for row in rows:
        # The flips of a row over all sets are those of its sets, which have their own rows.
        if row.right_wrong and is_sum_row(row, rows):
            continue
        if row.right_wrong and row.losses:
            sentences.append(f"{row.name}: {row.losses:,} of {row.n:,} were right and are wrong now")
        elif row.verdict == "worse":
            sentences.append(_worse_sentence(row))
    return sentences


def significant_regressions(rows: list[PairedRow]) -> list[str]:
    """Return one sentence per row whose number is significantly worse."""
    return [_worse_sentence(row) for row in rows if row.verdict == "worse"]


def _worse_sentence(row: PairedRow) -> str:
    if row.p is not None:
        evidence = f"p {row.p:.3g}"
    else:
        assert row.interval is not None
        evidence = f"95% interval {row.interval[0]:+.4f} to {row.interval[1]:+.4f}"
    return f"{row.name}: {row.base:.4f} → {row.new:.4f}, {evidence}"


class FlipSide(Struct, kw_only=True):
    """One side of a flip: its value, its answer, and the scorer's reason."""

    index: int
    value: float
    answer: Any = None
    reason: str = ""


class Flip(Struct, kw_only=True):
    """A case that is right on one side and wrong on the other.

    `check` is the first check with a different outcome: path, kind, expected, base, new, why, and `step` for
    a check of a pipeline step. `id` is the id in the data, if the scores have it.
    """

    set: str
    case: str
    metric: str
    part: str
    base: FlipSide
    new: FlipSide
    target: Any = None
    check: dict[str, Any] | None = None
    id: Any = None


class Flips(Struct, kw_only=True):
    """The number of flips, and the first of them."""

    count: int = 0
    shown: list[Flip] = field(default_factory=list)


Checks = list[dict[str, Any]]


class FlipReader:
    """Reads the texts of flips from the journals of both sides."""

    def __init__(
        self, runs: tuple[ComparedRun, ComparedRun], columns: tuple[SubjectColumns, SubjectColumns]
    ) -> None:
        self._runs = runs
        self._columns = columns

    def flips(
        self, scores: PairedScores, table: list[tuple[PairedRow, NDArray[Any]]], most: int, *, worse: bool
    ) -> Flips:
        """Return the flips in one direction, in the order of the table. Only right/wrong metrics have flips."""
        flips = Flips()
        rows = [row for row, _ in table]
        for row, positions in table:
            if not row.right_wrong or is_sum_row(row, rows):
                continue
            counted = positions[scores.counts[positions]]
            rise = scores.new[counted] - scores.base[counted]
            flipped = counted[(rise < 0) if worse == row.higher_is_better else (rise > 0)]
            # All flips are counted, but only the first `most` are read from the journal.
            flips.count += len(flipped)
            for position in flipped[: most - len(flips.shown)].tolist():
                name = scores.score_names[int(scores.pairs.name[position])]
                base, new = int(scores.pairs.base[position]), int(scores.pairs.new[position])
                flips.shown.append(self._flip(base, new, name))
        return flips

    def case_name(self, side: int, position: int) -> str:
        """Return `set/key` of a case."""
        end = self._runs[side].end(self._columns[side].indexes[position])
        return f"{end.set}/{end.case}"

    def _flip(self, base_row: int, new_row: int, name: ComparedScore) -> Flip:
        base, base_scores = self._scores(0, base_row, name)
        new, new_scores = self._scores(1, new_row, name)
        scores = [*base_scores, *new_scores]
        target = _first_field(("target",), scores)
        if target is None:
            target = next((score.expected for score in scores if score.expected is not None), None)
        return Flip(
            set=base.set,
            case=base.case,
            metric=base.metric,
            part=base.part,
            base=self._side(0, base, base_scores),
            new=self._side(1, new, new_scores),
            target=target,
            check=_first_difference(_checks(base), _checks(new)),
            id=_first_field(("id",), scores),
        )

    def _scores(self, side: int, row: int, name: ComparedScore) -> tuple[Score, list[Score]]:
        """Return the score of a row, and all scores of its part. The first of them has the filtered answer."""
        columns = self._columns[side]
        digest = int(columns.score_part[row])
        scores = self._runs[side].scores(int(columns.indexes[columns.score_case[row]]))
        score_parts = self._runs[side].info.score_parts
        part_scores = [
            score
            for score in scores
            if scorer_name(score.scorer) == name.scorer
            and score_part_digest(score_parts, score.vote, score.part) == digest
            and (score_parts != "filters" or score.part == name.part)
        ]
        (row_score,) = [score for score in part_scores if score.metric == name.metric]
        return row_score, part_scores

    def _side(self, side: int, score: Score, part_scores: list[Score]) -> FlipSide:
        """Return one side of a flip, with the answer that was scored, else the raw answer."""
        assert score.value is not None
        answer = _first_field(("filtered", "answer", "actual"), part_scores)
        if answer is None:
            answer = self._runs[side].answer(score.index, score.part)
        return FlipSide(index=score.index, value=score.value, answer=answer, reason=score.reason)


def _first_field(names: Iterable[str], scores: list[Score]) -> Any:
    """Return the first of these fields that occurs in the data of a score."""
    for name in names:
        for score in scores:
            if isinstance(score.data, dict) and name in score.data:
                return score.data[name]
    return None


def _checks(score: Score) -> Checks:
    checks = score.data.get("checks") if isinstance(score.data, dict) else None
    if not isinstance(checks, list):
        return []
    return [check for check in checks if isinstance(check, dict)]


def _first_difference(base: Checks, new: Checks) -> dict[str, Any] | None:
    """Return the first check of both sides with different outcomes, else the first that failed on one side."""
    base_partners = _with_partners(base, new)
    for check, partner in base_partners:
        if partner is not None and check.get("passed") != partner.get("passed"):
            return _check_of_both(check, partner)
    for check, partner in _with_partners(new, base):
        if check.get("passed") is False:
            return _check_of_both(partner, check)
    for check, partner in base_partners:
        if check.get("passed") is False:
            return _check_of_both(check, partner)
    return None


def _with_partners(checks: Checks, others: Checks) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Pair each check with the other side's check at the same place: of the same kind, else the only one there.

    The kinds can differ: a value that is missing on one side has a check of another kind there. The place
    includes the step, because two steps may have the same paths.
    """
    counts = Counter(map(_place, others))
    same_kind = {(_place(check), check.get("kind"), check.get("rule")): check for check in others}
    only_one = {_place(check): check for check in others if counts[_place(check)] == 1}
    pairs = []
    for check in checks:
        place = _place(check)
        partner = same_kind.get((place, check.get("kind"), check.get("rule"))) or only_one.get(place)
        pairs.append((check, partner))
    return pairs


def _place(check: dict[str, Any]) -> tuple[str, str, str]:
    return str(check.get("of")), str(check.get("step")), str(check.get("path"))


def _check_of_both(base: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """Return the check with the values of both sides. Kind and `why` come from the side that failed."""
    check: dict[str, Any] = new or base or {}
    failed_check = next((side for side in (new, base) if side and side.get("passed") is False), check)
    step = {"step": check["step"]} if check.get("step") else {}
    return step | {
        "path": check.get("path"),
        "kind": failed_check.get("kind"),
        "expected": check.get("expected"),
        "base": base.get("actual") if base else None,
        "new": new.get("actual") if new else None,
        "why": failed_check.get("why"),
    }
