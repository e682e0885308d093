"""Flips: cases that are right on one side of a comparison and wrong on the other, with the texts of both sides."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

from msgspec import Struct, field

from assay.core.types import Score
from assay.journal.columns import score_part_digest
from assay.store.comparison.columns import ComparedRun, ComparedScore, SubjectColumns, scorer_name
from assay.store.comparison.paired_metrics import MetricPairs, PairedScores, is_sum_row

if TYPE_CHECKING:
    from numpy.typing import NDArray


class FlipSide(Struct, kw_only=True):
    """One side of a flip: its value, its answer, and the scorer's reason."""

    index: int
    value: float
    answer: Any = None
    reason: str = ""


class Flip(Struct, kw_only=True):
    """A case that is right on one side and wrong on the other.

    `metric` and `part` are the first of the table in which it flipped, `also` names the others. `check` is the first
    check with a different outcome: path, kind, expected, base, new, why, and `step` for a check of a pipeline step.
    `id` is the id in the data, if the scores have it.
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
    also: list[str] = field(default_factory=list)


class BaseScore(Struct, kw_only=True):
    """A score of the base alone. `side` is None if it has no value."""

    label: str
    part: str
    id: Any
    side: FlipSide | None


class Flips(Struct, kw_only=True):
    """The number of cases that flipped, and the first of them. A case that flipped in several metrics counts once.

    Parts that are rows, such as the tests of a pipeline, count one by one.
    """

    count: int = 0
    shown: list[Flip] = field(default_factory=list)


Checks = list[dict[str, Any]]

# A large odd factor: it combines a case and a part of it into one 64-bit number.
_MIX_CASE = 0x9E3779B97F4A7C15


class FlipReader:
    """Reads the texts of flips from the journals of both sides."""

    def __init__(self, runs: tuple[ComparedRun, ComparedRun], columns: tuple[SubjectColumns, SubjectColumns]) -> None:
        self._runs = runs
        self._columns = columns
        # The scores of the last case of each side, by scorer and part: the questions of a conversation are read one
        # by one, and each has only a few of its scores.
        self._last: list[tuple[int, dict[tuple[str, int], list[Score]]]] = [(-1, {}), (-1, {})]

    def flips(self, scores: PairedScores, table: list[MetricPairs], most: int, *, worse: bool) -> Flips:
        """Return the cases that flipped in one direction, in the order of the table.

        Only right/wrong metrics have flips.
        """
        import numpy as np

        by_row = [positions for _, positions in flipped_pairs(scores, table, worse=worse)]
        if not by_row:
            return Flips()
        flipped = np.concatenate(by_row)
        cases = scores.pairs.pair[flipped].astype(np.uint64)
        if self._runs[0].info.score_parts != "filters":
            cases = cases * np.uint64(_MIX_CASE) + self._columns[0].score_part[scores.pairs.base[flipped]]
        _, firsts = np.unique(cases, return_index=True)
        flips = Flips(count=len(firsts))
        # All cases are counted, but only the first `most` are read from the journal.
        for first in np.sort(firsts)[:most].tolist():
            position, *others = flipped[cases == cases[first]].tolist()
            name = scores.score_names[int(scores.pairs.name[position])]
            base, new = int(scores.pairs.base[position]), int(scores.pairs.new[position])
            flip = self.read(base, new, name)
            flip.also = [scores.score_names[int(scores.pairs.name[other])].title for other in others]
            flips.shown.append(flip)
        return flips

    def case_name(self, side: int, position: int) -> str:
        """Return `set/key` of a case."""
        end = self._runs[side].end(int(self._columns[side].indexes[position]))
        return f"{end.set}/{end.case}"

    def read(self, base_row: int, new_row: int, name: ComparedScore) -> Flip:
        """Return the texts of two scores of a pair, given by their positions in the columns of both sides."""
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

    def label(self, new_row: int, name: ComparedScore) -> str:
        """Return the label of a score of the new side, such as the text of a question; empty if it has none."""
        return self._scores(1, new_row, name)[0].label

    def read_base(self, base_row: int, name: ComparedScore) -> BaseScore:
        """Return a score of the base with its texts, whatever the new side has."""
        score, part_scores = self._scores(0, base_row, name)
        return BaseScore(
            label=score.label,
            part=score.part,
            id=_first_field(("id",), part_scores),
            side=None if score.value is None else self._side(0, score, part_scores),
        )

    def _scores(self, side: int, row: int, name: ComparedScore) -> tuple[Score, list[Score]]:
        """Return the score of a row, and all scores of its part. The first of them has the filtered answer."""
        columns = self._columns[side]
        index = int(columns.indexes[columns.score_case[row]])
        score_parts = self._runs[side].info.score_parts
        if self._last[side][0] != index:
            groups: dict[tuple[str, int], list[Score]] = {}
            for score in self._runs[side].scores(index):
                digest = score_part_digest(score_parts, score.vote, score.part)
                groups.setdefault((scorer_name(score.scorer), digest), []).append(score)
            self._last[side] = index, groups
        part_scores = self._last[side][1][name.scorer, int(columns.score_part[row])]
        if score_parts == "filters":
            part_scores = [score for score in part_scores if score.part == name.part]
        (row_score,) = [score for score in part_scores if score.metric == name.metric]
        return row_score, part_scores

    def _side(self, side: int, score: Score, part_scores: list[Score]) -> FlipSide:
        """Return one side of a flip, with the answer that was scored, else the raw answer."""
        assert score.value is not None
        answer = _first_field(("filtered", "answer", "actual"), part_scores)
        if answer is None:
            answer = self._runs[side].answer(score.index, score.part)
        return FlipSide(index=score.index, value=score.value, answer=answer, reason=score.reason)


def flipped_pairs(scores: PairedScores, table: list[MetricPairs], *, worse: bool) -> Iterator[tuple[int, NDArray[Any]]]:
    """Yield the number of each row that tells right from wrong, with its pairs that flipped in this direction.

    Rows over all sets are left out: the rows of their sets have the same pairs.
    """
    rows = [row for row, _ in table]
    for number, (row, positions) in enumerate(table):
        if not row.right_wrong or is_sum_row(row, rows):
            continue
        counted = positions[scores.counts[positions]]
        rise = scores.new[counted] - scores.base[counted]
        yield number, counted[(rise < 0) if worse == row.higher_is_better else (rise > 0)]


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
