"""Finds the cases and scores that two subjects share, by content: set and key, then key alone."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from assay.store.comparison.columns import NO_ANSWER, NOT_SCORED, Columns, view

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Odd constants: equal numbers stay equal, and digests stay spread over all 64 bits.
_SPREAD_SET, _SPREAD_SLOT, _SPREAD_PAIR = 0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9


class CasePairs(NamedTuple):
    """Positions in the columns of both sides, in the base's data order, and of those without a partner."""

    base: NDArray[Any]
    new: NDArray[Any]
    only_base: NDArray[Any]
    only_new: NDArray[Any]


class ScorePairs(NamedTuple):
    """One row a score of a paired case: where it stands on both sides (-1: nowhere), and how it stands."""

    pair: NDArray[Any]
    slot: NDArray[Any]
    base: NDArray[Any]
    new: NDArray[Any]
    base_state: NDArray[Any]
    new_state: NDArray[Any]


def case_pairs(base: Columns, new: Columns) -> CasePairs:
    """Pairs of equal set and key; of what is left, pairs of a key that stands once on both sides."""
    import numpy as np

    first = _matched(_named(base), _named(new))
    left = _rest(len(base), first[0]), _rest(len(new), first[1])
    second = _matched(view(base.keys)[left[0]], view(new.keys)[left[1]])
    ours = np.concatenate([first[0], left[0][second[0]]])
    theirs = np.concatenate([first[1], left[1][second[1]]])
    order = np.argsort(ours, kind="stable")
    return CasePairs(ours[order], theirs[order], _rest(len(base), ours), _rest(len(new), theirs))


def _named(columns: Columns) -> NDArray[Any]:
    import numpy as np

    named: NDArray[Any] = view(columns.sets) * np.uint64(_SPREAD_SET)
    named += view(columns.keys)
    return named


def _rest(count: int, taken: NDArray[Any]) -> NDArray[Any]:
    import numpy as np

    free = np.ones(count, dtype=bool)
    free[taken] = False
    return np.flatnonzero(free)


def _matched(ours: NDArray[Any], theirs: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Positions of equal values that stand once on each side."""
    import numpy as np

    (one, at_one), (other, at_other) = _unique(ours), _unique(theirs)
    _, first, second = np.intersect1d(one, other, assume_unique=True, return_indices=True)
    return at_one[first], at_other[second]


def _unique(values: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    import numpy as np

    found, places, counts = np.unique(values, return_index=True, return_counts=True)
    return found[counts == 1], places[counts == 1]


def score_pairs(base: Columns, new: Columns, cases: CasePairs) -> ScorePairs:
    """Scores of equal slot and part of paired cases; one that has no partner stands beside nothing."""
    import numpy as np

    ours, theirs = _Scores(base, cases.base), _Scores(new, cases.new)
    at_ours, at_theirs = _matched(ours.keys, theirs.keys)
    alone, others = _rest(len(ours.keys), at_ours), _rest(len(theirs.keys), at_theirs)
    nowhere = np.full(max(len(alone), len(others)), -1, dtype=np.int32)
    return _in_order(
        ScorePairs(
            pair=np.concatenate([ours.pair[at_ours], ours.pair[alone], theirs.pair[others]]),
            slot=np.concatenate([ours.slot[at_ours], ours.slot[alone], theirs.slot[others]]),
            base=np.concatenate([ours.rows[at_ours], ours.rows[alone], nowhere[: len(others)]]),
            new=np.concatenate([theirs.rows[at_theirs], nowhere[: len(alone)], theirs.rows[others]]),
            base_state=np.concatenate(
                [ours.state[at_ours], ours.state[alone], ours.missing(theirs.pair[others])]
            ),
            new_state=np.concatenate(
                [theirs.state[at_theirs], theirs.missing(ours.pair[alone]), theirs.state[others]]
            ),
        )
    )


def _in_order(found: ScorePairs) -> ScorePairs:
    """As the base has them: case by case, score by score."""
    import numpy as np

    order = np.lexsort((found.new, found.base, found.pair))
    return ScorePairs(*(column[order] for column in found))


class _Scores:
    """The scores of one side's paired cases. `cases` are their positions, by pair."""

    def __init__(self, columns: Columns, cases: NDArray[Any]) -> None:
        import numpy as np

        pair_of = np.full(len(columns), -1, dtype=np.int32)
        pair_of[cases] = np.arange(len(cases), dtype=np.int32)
        pairs = pair_of[view(columns.score_case)]
        self.rows = np.flatnonzero(pairs >= 0).astype(np.int32)
        self.pair = pairs[self.rows]
        self.slot = view(columns.score_slot)[self.rows]
        self.state = view(columns.score_state)[self.rows]
        self.keys = view(columns.score_part)[self.rows]
        self.keys += self.slot * np.uint64(_SPREAD_SLOT)
        self.keys += self.pair.astype(np.uint64) * np.uint64(_SPREAD_PAIR)
        self._failed = view(columns.failed)[cases]

    def missing(self, pairs: NDArray[Any]) -> NDArray[Any]:
        """Why these pairs have no score on this side."""
        import numpy as np

        return np.where(self._failed[pairs], NO_ANSWER, NOT_SCORED).astype(np.uint8)
