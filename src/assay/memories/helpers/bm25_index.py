"""A BM25 index to which texts can be added at any time.

    index = Bm25Index(k1=1.2, b=0.4)
    index.add([["ann", "marri"], ["bob", "cook"]])
    index.search(["cook"], k=5)                       # [(1, score)]

It stores for each term the texts that contain it. Weights are computed during a search, since each new text
changes them. The weight of a term in a text is
`idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))` with
`idf = ln(1 + (n - df + 0.5) / (df + 0.5))`, which is never negative. A repeated term in a query counts once.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from assay.memories.helpers.scores import top_places

if TYPE_CHECKING:
    from numpy.typing import NDArray

# A posting is one 64-bit number: the place of the text, and in the low 16 bits how often the text has the term.
# An array of such numbers needs far less memory than tuples.
_COUNT_BITS = 16
_MAX_COUNT = (1 << _COUNT_BITS) - 1
# Up to this many postings a Python loop is faster than the calls into numpy.
_FEW_POSTINGS = 128


class Bm25Index:
    """The index. Texts are numbered from 0 in the order in which they are added; this is their place."""

    def __init__(self, k1: float, b: float) -> None:
        self._k1, self._b = k1, b
        self._postings: dict[str, array[int]] = {}
        self._lengths = array("q")
        self._total_length = 0

    def add(self, texts: Sequence[Sequence[str]]) -> None:
        """Add texts, each as the list of its terms."""
        for place, terms in enumerate(texts, len(self._lengths)):
            counts: dict[str, int] = {}
            for term in terms:  # a Counter takes longer for messages this short
                counts[term] = counts.get(term, 0) + 1
            for term, count in counts.items():
                postings = self._postings.get(term)
                if postings is None:
                    postings = self._postings[term] = array("q")
                postings.append(place << _COUNT_BITS | min(count, _MAX_COUNT))
        lengths = [len(terms) for terms in texts]
        self._lengths.extend(lengths)
        self._total_length += sum(lengths)

    def search(self, terms: Iterable[str], k: int) -> list[tuple[int, float]]:
        """Return the `k` best texts with any of the terms, as (place, score), best first.

        Of equal scores the earlier text comes first. The loop and numpy give the same numbers.
        """
        posting_lists = self._lookup(terms)
        if sum(map(len, posting_lists)) > _FEW_POSTINGS:
            array_scores = self._score_array(posting_lists)
            return [(place, float(array_scores[place])) for place in top_places(array_scores, k, above=0)]
        scores = self._sum_postings(posting_lists)
        order = sorted(scores, key=lambda place: (-scores[place], place))
        return [(place, scores[place]) for place in order[: max(k, 0)]]

    def scores(self, terms: Iterable[str]) -> NDArray[Any]:
        """Return the score of each text, which is 0 for a text without any of the terms."""
        return self._score_array(self._lookup(terms))

    def _lookup(self, terms: Iterable[str]) -> list[array[int]]:
        return [self._postings[term] for term in dict.fromkeys(terms) if term in self._postings]

    def _idf(self, texts: int) -> float:
        return math.log(1 + (len(self._lengths) - texts + 0.5) / (texts + 0.5))

    def _sum_postings(self, posting_lists: list[array[int]]) -> dict[int, float]:
        scores: dict[int, float] = {}
        mean = self._total_length / len(self._lengths) if self._lengths else 1.0
        for postings in posting_lists:
            weight = self._idf(len(postings)) * (self._k1 + 1)
            for posting in postings:
                place, count = posting >> _COUNT_BITS, posting & _MAX_COUNT
                damping = self._k1 * (1 - self._b + self._b * self._lengths[place] / mean)
                scores[place] = scores.get(place, 0.0) + weight * count / (count + damping)
        return scores

    def _score_array(self, posting_lists: list[array[int]]) -> NDArray[Any]:
        import numpy as np

        scores = np.zeros(len(self._lengths))
        if not posting_lists:
            return scores
        mean = self._total_length / len(scores)
        lengths = np.frombuffer(self._lengths, np.int64)
        damping = self._k1 * (1 - self._b + self._b * lengths / mean)
        for postings in posting_lists:
            packed = np.frombuffer(postings, np.int64)
            places, counts = packed >> _COUNT_BITS, (packed & _MAX_COUNT).astype(np.float64)
            scores[places] += self._idf(len(postings)) * (self._k1 + 1) * counts / (counts + damping[places])
        return scores
