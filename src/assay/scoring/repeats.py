"""pass@k and maj@k from n repeats of one document, for any k up to n.

Both are exact expectations over every way to draw k of the n repeats, one after the other and without
putting any back; nothing is sampled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Sequence
from math import comb
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

_EVERY_SIZE = 32
_MOST_REPEATS = 1000  # beyond, the number of ways to draw has no room in a float


def draw_sizes(repeats: int) -> list[int]:
    """The k worth telling: all of them, or the powers of two and n where n is large."""
    if repeats <= _EVERY_SIZE:
        return list(range(1, repeats + 1))
    return sorted({1 << power for power in range(repeats.bit_length())} | {repeats})


def pass_at_k(repeats: int, right: int, k: int) -> float:
    """How likely at least one of k drawn repeats is right; exact to the last bit for any n."""
    if not 0 <= right <= repeats or not 1 <= k <= repeats:
        raise ValueError(f"pass@{k} of {repeats} repeats with {right} right does not exist")
    every = comb(repeats, k)
    return (every - comb(repeats - right, k)) / every


def pass_curve(scores: Sequence[float]) -> dict[int, float]:
    """pass@k for the k worth telling; a repeat is right where its score is 1."""
    right = sum(1 for score in scores if score >= 1)
    return {k: pass_at_k(len(scores), right, k) for k in draw_sizes(len(scores))}


def maj_at_k(answers: Sequence[Hashable], scores: Sequence[float], k: int) -> float:
    """The expected score of the most frequent of k drawn answers; a tie goes to the one drawn first.

    Equal answers have equal scores. maj@1 is the mean score. maj@n is what the filter `majority_vote` gives,
    but where answers tie it is the mean of theirs: none of them comes first in every order.
    """
    return _expected(answers, scores, [k])[k]


def majority_curve(answers: Sequence[Hashable], scores: Sequence[float]) -> dict[int, float]:
    """maj@k for the k worth telling."""
    return _expected(answers, scores, draw_sizes(len(answers)))


def _expected(answers: Sequence[Hashable], scores: Sequence[float], sizes: list[int]) -> dict[int, float]:
    repeats = len(answers)
    if repeats > _MOST_REPEATS or not all(1 <= k <= repeats for k in sizes):
        raise ValueError(
            f"maj@{sizes[-1]} of {repeats} repeats: k is at most n, and n at most {_MOST_REPEATS}"
        )
    counts, worth = Counter(answers), dict(zip(answers, scores, strict=True))
    found = dict.fromkeys(sizes, 0.0)
    for answer, score in worth.items():
        if score:
            others = [count for other, count in counts.items() if other != answer]
            ways = _winning_ways(counts[answer], others, repeats)
            found = {k: total + score * float(ways[k]) / comb(repeats, k) for k, total in found.items()}
    return found


def _winning_ways(own: int, others: list[int], repeats: int) -> NDArray[np.float64]:
    """In how many draws of each size an answer wins; a draw in which t others tie counts 1 / (t + 1).

    Of answers drawn equally often each is as likely as the others to have been drawn first.
    """
    import numpy as np

    wins = np.zeros(repeats + 1)
    for votes in range(1, own + 1):
        beaten = _beaten(others, votes, repeats)
        shared = (beaten / np.arange(1, len(beaten) + 1)[:, None]).sum(axis=0)
        wins[votes:] += comb(own, votes) * shared[: repeats + 1 - votes]
    return wins


def _beaten(others: list[int], votes: int, repeats: int) -> NDArray[np.float64]:
    """Ways to draw the other answers at most `votes` times each: a row by how many tie, a column by size."""
    import numpy as np

    ties = min(sum(1 for count in others if count >= votes), repeats // votes)
    ways = np.zeros((ties + 1, repeats + 1))
    ways[0, 0] = 1.0
    for count in others:
        more = np.zeros_like(ways)
        for drawn in range(min(votes - 1, count) + 1):
            more[:, drawn:] += comb(count, drawn) * ways[:, : repeats + 1 - drawn]
        if count >= votes:
            more[1:, votes:] += comb(count, votes) * ways[:-1, : repeats + 1 - votes]
        ways = more
    return ways
