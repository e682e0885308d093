"""Reads the texts of the cases that went from right to wrong or back."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Any

from assay.core.types import Score
from assay.store.comparison.columns import Columns, Reading, part_digest, scorer_name
from assay.store.comparison.result import Flip, FlipSide

Checks = list[dict[str, Any]]


class Texts:
    """The two sides' journals, by position in their columns."""

    def __init__(self, readings: tuple[Reading, Reading], columns: tuple[Columns, Columns]) -> None:
        self._readings = readings
        self._columns = columns

    def flip(self, base_row: int, new_row: int, slot: Any) -> Flip:
        """One pair of scores with everything a person needs to see why."""
        base, base_scores = self._found(0, base_row, slot)
        new, new_scores = self._found(1, new_row, slot)
        return Flip(
            set=base.set,
            case=base.case,
            metric=base.metric,
            part=base.part,
            base=self._side(0, base, base_scores),
            new=self._side(1, new, new_scores),
            target=_first(("target",), [*base_scores, *new_scores]),
            check=_differing(_checks(base), _checks(new)),
            id=_first(("id",), [*base_scores, *new_scores]),
        )

    def _found(self, which: int, row: int, slot: Any) -> tuple[Score, list[Score]]:
        """The score of a row, and all scores of its part: the first of them carries what a filter gave."""
        columns = self._columns[which]
        scores = self._readings[which].scores(columns.places[columns.score_case[row]])
        wanted = columns.score_part[row]
        same = [
            score
            for score in scores
            if scorer_name(score.scorer) == slot.scorer and part_digest(score.vote, score.part) == wanted
        ]
        (found,) = [score for score in same if score.metric == slot.metric]
        return found, same

    def _side(self, which: int, score: Score, same: list[Score]) -> FlipSide:
        """With the answer as it was judged, or else as it was given."""
        assert score.value is not None
        answer = _first(("filtered", "answer", "actual"), same)
        if answer is None:
            answer = self._readings[which].produced(score.index)
        return FlipSide(index=score.index, value=score.value, answer=answer, reason=score.reason)

    def name(self, which: int, position: int) -> str:
        """`set/key` of a case."""
        end = self._readings[which].end(self._columns[which].places[position])
        return f"{end.set}/{end.case}"


def _first(names: Iterable[str], scores: list[Score]) -> Any:
    """The first of these fields that some score has."""
    for name in names:
        for score in scores:
            if isinstance(score.data, dict) and name in score.data:
                return score.data[name]
    return None


def _checks(score: Score) -> Checks:
    checks = score.data.get("checks") if isinstance(score.data, dict) else None
    return [check for check in checks if isinstance(check, dict)] if isinstance(checks, list) else []


def _differing(base: Checks, new: Checks) -> dict[str, Any] | None:
    """The first check that both made and that went two ways; else the first that failed on either side."""
    both = _partners(base, new)
    for one, other in both:
        if other is not None and one.get("passed") != other.get("passed"):
            return _check(one, other)
    for other, maybe in _partners(new, base):
        if other.get("passed") is False:
            return _check(maybe, other)
    return next((_check(one, other) for one, other in both if one.get("passed") is False), None)


def _partners(checks: Checks, others: Checks) -> list[tuple[dict[str, Any], dict[str, Any] | None]]:
    """Each check with the other side's: of the same kind, else the only one in its place.

    A value that is missing on one side is of another kind there. Steps may have paths of equal names.
    """
    places = Counter(map(_place, others))
    same = {(_place(check), check.get("kind"), check.get("rule")): check for check in others}
    alone = {_place(check): check for check in others if places[_place(check)] == 1}
    return [
        (check, same.get((_place(check), check.get("kind"), check.get("rule"))) or alone.get(_place(check)))
        for check in checks
    ]


def _place(check: dict[str, Any]) -> tuple[str, str, str]:
    return str(check.get("of")), str(check.get("step")), str(check.get("path"))


def _check(base: dict[str, Any] | None, new: dict[str, Any] | None) -> dict[str, Any]:
    """The check with what both sides had there; `why` is that of the side that failed it."""
    one: dict[str, Any] = new or base or {}
    failed = next((side for side in (new, base) if side and side.get("passed") is False), one)
    return ({"step": one["step"]} if one.get("step") else {}) | {
        "path": one.get("path"),
        "kind": failed.get("kind"),
        "expected": one.get("expected"),
        "base": base.get("actual") if base else None,
        "new": new.get("actual") if new else None,
        "why": failed.get("why"),
    }
