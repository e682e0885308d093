"""What n repeats of one document tell for every k up to n: pass@k and maj@k."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Mapping, Sequence
from math import comb


def pass_at_k(repeats: int, right: int, k: int) -> float:
    """How likely at least one of k drawn repeats is right; exact to the last bit for any n."""
    if not 0 <= right <= repeats or not 1 <= k <= repeats:
        raise ValueError(f"pass@{k} of {repeats} repeats with {right} right does not exist")
    every = comb(repeats, k)
    return (every - comb(repeats - right, k)) / every


def first_votes(answers: Sequence[Hashable], right: Mapping[Hashable, bool]) -> list[bool]:
    """For every k: whether the most frequent of the first k answers is right; a tie goes to the earlier one.

    That is what the filters `take_first_k` and `majority_vote` give, for all k in one pass.
    """
    counts: Counter[Hashable] = Counter()
    order: dict[Hashable, int] = {}
    winners: list[Hashable] = []
    for answer in answers:
        order.setdefault(answer, len(order))
        counts[answer] += 1
        best = winners[-1] if winners else answer
        ahead = (counts[answer], -order[answer]) > (counts[best], -order[best])
        winners.append(answer if ahead else best)
    return [right[winner] for winner in winners]
