"""Whether texts cover a point: the best single piece, with a little of what all texts have among them."""

from __future__ import annotations

import math
from typing import NamedTuple

from assay.scoring.offline.conflict import conflict
from assay.scoring.offline.index import Index, index_of
from assay.scoring.questions import COVERED, MISSED, Verdict

ENOUGH = 0.36
"""A point is covered from here on; chosen on half of the conversations."""
_TOGETHER = 0.1
_CHANCE, _USUAL, _LEAST = 0.06, 10, 3
_CONTRADICTED, _AT_MOST = 0.5, 0.3
_LOOKED_AT = 200
_WORTH = 0.3


class Cover(NamedTuple):
    """How well a point is covered, from 0 to 1, and what speaks against it."""

    share: float
    against: str


def covered(points: tuple[str, ...], texts: tuple[str, ...]) -> Verdict:
    """A label for each point; the reason names those that are missed, counted from 1."""
    index = index_of(texts)
    found = [cover(index, point) for point in points]
    labels = tuple(COVERED if each.share >= ENOUGH else MISSED for each in found)
    return Verdict(labels, _reason(found), sure=tuple(each.share for each in found))


def cover(index: Index, point: str) -> Cover:
    """The best of the pieces; one that contradicts the point counts half, and never covers it."""
    if not index.pieces:
        return Cover(0.0, "there is no text")
    import numpy as np

    shares = index.shares(point)
    best = np.argsort(-shares, kind="stable")[:_LOOKED_AT]
    found = Cover(0.0, "")
    for at in best.tolist():
        share = float(shares[at])
        if share <= found.share:
            break
        against = conflict(point, index.pieces[at].said) if share >= _WORTH else ""
        held = Cover(share * _CONTRADICTED, against) if against else Cover(share, "")
        found = max(found, held, key=lambda each: each.share)
    if not found.share:
        return found
    share = (1 - _TOGETHER) * found.share + _TOGETHER * index.together(point) - chance(len(index.pieces))
    most = _AT_MOST if found.against else 1.0
    return Cover(min(most, max(0.0, share)), found.against)


def chance(count: int) -> float:
    """What more texts than ten find of a point by chance; fewer find less."""
    return _CHANCE * math.log(max(count, _LEAST) / _USUAL)


def _reason(found: list[Cover]) -> str:
    missed = [(at, each) for at, each in enumerate(found, 1) if each.share < ENOUGH]
    told = f"{len(found) - len(missed)} of {len(found)} covered"
    if not missed:
        return told
    return f"{told}; missed: " + ", ".join(f"{at} ({_why(each)})" for at, each in missed)


def _why(each: Cover) -> str:
    return f"{100 * each.share:.0f} %, {each.against}" if each.against else f"{100 * each.share:.0f} %"
