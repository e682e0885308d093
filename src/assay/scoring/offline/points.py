"""CorrectnessQuestion memories, points that changed, and points that no memory should keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.scoring.offline.conflict import conflict
from assay.scoring.offline.coverage import ENOUGH, chance, cover
from assay.scoring.offline.index import Index, Piece, index_of
from assay.scoring.offline.numbers import in_digits
from assay.scoring.offline.words import folded, little, words_of
from assay.scoring.questions import (
    BOTH,
    FABRICATED,
    IRRELEVANT,
    MEMORIZED,
    OUTDATED,
    REJECTED,
    TRUE,
    UPDATED,
    CorrectnessQuestion,
    InterferenceQuestion,
    UpdateQuestion,
    Verdict,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BEST_POINTS = 3
_TOLD_APART = 0.5


def written(question: CorrectnessQuestion) -> Verdict:
    """True where a text carries a point, made up where it contradicts one that it comes near, or neither."""
    points = list(
        dict.fromkeys(point for point in (*question.points, *question.earlier_points) if point.strip())
    )
    index = index_of(question.texts)
    shares = _by_text(index, points, len(question.texts))
    found = [_memory(index, place, points, shares[:, place]) for place in range(len(question.texts))]
    labels = tuple(label for label, _, _ in found)
    told = [f"{labels.count(label)} {label}" for label in (TRUE, FABRICATED, IRRELEVANT)]
    against = [f"{at}: {why}" for at, (_, _, why) in enumerate(found, 1) if why]
    return Verdict(labels, "; ".join([", ".join(told), *against]), sure=tuple(sure for _, sure, _ in found))


def _by_text(index: Index, points: list[str], texts: int) -> NDArray[Any]:
    """The share of each point in each text: that of the text's best piece."""
    import numpy as np

    found = np.zeros((len(points), texts))
    for row, point in enumerate(points):
        np.maximum.at(found[row], index.owners, index.shares(point))
    return found


def _memory(index: Index, place: int, points: list[str], shares: NDArray[Any]) -> tuple[str, float, str]:
    enough = ENOUGH + chance(len(points))
    near = [(float(shares[row]), row) for row in shares.argsort()[::-1][:_BEST_POINTS]]
    against = ""
    for share, row in near:
        if share < enough:
            break
        why = conflict(points[row], index.texts[place])
        if not why:
            return TRUE, share, ""
        against = against or why
    best = near[0][0] if near else 0.0
    return (FABRICATED, best / 2, against) if against else (IRRELEVANT, min(best, enough), "")


class Sides(NamedTuple):
    """How much of what tells new from old, and old from new, the texts have."""

    new: float
    old: float


def changed(question: UpdateQuestion) -> Verdict:
    """What the new point has and the old ones have not decides, and the other way round.

    A text that has both, such as `moved from Rome to Oslo`, holds the new one.
    """
    index = index_of(question.texts)
    sides = [_sides(index, question.new, old) for old in question.old] or [
        Sides(cover(index, question.new).share, 0.0)
    ]
    new, old = min(1.0, *(each.new for each in sides)), min(1.0, max(each.old for each in sides))
    label = OUTDATED if new < ENOUGH else BOTH if old >= ENOUGH else UPDATED
    reason = f"the new one is {_held(new)}, the old one is {_held(old)}"
    return Verdict((label,), reason, sure=(new - min(new, old) / 2,))


def _held(share: float) -> str:
    return f"{'' if share >= ENOUGH else 'not '}held ({100 * share:.0f} %)"


def _sides(index: Index, new: str, old: str) -> Sides:
    fresh, stale = _words(new), _words(old)
    only_new, only_old = fresh - stale, stale - fresh
    found = Sides(0.0, 0.0)
    less = chance(len(index.pieces))
    for share_new, share_old, piece in zip(index.shares(new), index.shares(old), index.pieces, strict=True):
        if max(share_new, share_old) - less < ENOUGH:
            continue
        side = _side(piece, only_new, only_old)
        if side > 0 and not conflict(new, piece.said):
            found = found._replace(new=max(found.new, float(share_new) - less))
        elif side < 0 and not conflict(old, piece.said):
            found = found._replace(old=max(found.old, float(share_old) - less))
    return found


def _side(piece: Piece, only_new: frozenset[str], only_old: frozenset[str]) -> int:
    """1 for the new, -1 for the old, 0 where the piece has too little of either to tell."""
    new = len(only_new & piece.words) / len(only_new) if only_new else 1 - _share(only_old, piece)
    old = len(only_old & piece.words) / len(only_old) if only_old else 1 - _share(only_new, piece)
    if new >= _TOLD_APART and new >= old:
        return 1
    return -1 if old >= _TOLD_APART else 0


def _share(words: frozenset[str], piece: Piece) -> float:
    return len(words & piece.words) / len(words) if words else 0.0


def _words(text: str) -> frozenset[str]:
    return frozenset(word for word in words_of(in_digits(folded(text))) if word not in little())


def interfering(question: InterferenceQuestion) -> Verdict:
    """Memorized where the texts cover it."""
    found = cover(index_of(question.texts), question.content)
    label = MEMORIZED if found.share >= ENOUGH else REJECTED
    return Verdict(
        (label,),
        f"it is {_held(found.share)}{found.against and ', ' + found.against}",
        sure=(1 - found.share,),
    )
