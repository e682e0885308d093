"""BM25 that grows: for each term the texts that have it. Weights are computed when a question is asked.

The weight of a term in a text is `idf * tf * (k1 + 1) / (tf + k1 * (1 - b + b * length / mean length))` with
`idf = ln(1 + (n - df + 0.5) / (df + 0.5))`, which is never negative. A term counts once in a question.
"""

from __future__ import annotations

import math
from array import array
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

from assay.memories.index.grown import Grown
from assay.memories.index.ranking import best

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BITS = 16
"""Of a posting's 64 bits so many are the number of occurrences, the others the place of the text."""
_MOST = (1 << _BITS) - 1
_FEW = 128


class Postings:
    """Texts are numbered as they come. A new one changes only the lists of its own terms."""

    def __init__(self, k1: float, b: float) -> None:
        self._k1, self._b = k1, b
        self._places: dict[str, array[int]] = {}
        self._lengths = Grown("f8")
        self._sizes = array("q")
        self._total = 0

    def add(self, texts: Sequence[Sequence[str]]) -> None:
        """The terms of some texts."""
        for place, terms in enumerate(texts, len(self._lengths)):
            counts: dict[str, int] = {}
            for term in terms:  # for so few a Counter takes longer
                counts[term] = counts.get(term, 0) + 1
            for term, count in counts.items():
                found = self._places.get(term)
                if found is None:
                    found = self._places[term] = array("q")
                found.append(place << _BITS | min(count, _MOST))
        self._lengths.extend([len(terms) for terms in texts])
        self._sizes.extend([len(terms) for terms in texts])
        self._total += sum(map(len, texts))

    def top(self, terms: Iterable[str], k: int) -> list[tuple[int, float]]:
        """The `k` best texts that have any of the terms, with their scores; of equal ones the earlier first.

        Few postings are added up one by one, sooner than numpy is called; the numbers are the same.
        """
        known = self._known(terms)
        if sum(map(len, known)) > _FEW:
            scores = self._scores(known)
            return [(place, float(scores[place])) for place in best(scores, k, above=0)]
        found = self._added_up(known)
        order = sorted(found, key=lambda place: (-found[place], place))
        return [(place, found[place]) for place in order[: max(k, 0)]]

    def _added_up(self, known: list[array[int]]) -> dict[int, float]:
        found: dict[int, float] = {}
        mean = self._total / len(self._sizes) if self._sizes else 1.0
        for held in known:
            weight = self._idf(len(held)) * (self._k1 + 1)
            for packed in held:
                place, count = packed >> _BITS, packed & _MOST
                slack = self._k1 * (1 - self._b + self._b * self._sizes[place] / mean)
                found[place] = found.get(place, 0.0) + weight * count / (count + slack)
        return found

    def scores(self, terms: Iterable[str]) -> NDArray[Any]:
        """How well each text fits; 0 where it has none of the terms."""
        return self._scores(self._known(terms))

    def _known(self, terms: Iterable[str]) -> list[array[int]]:
        return [self._places[term] for term in dict.fromkeys(terms) if term in self._places]

    def _idf(self, texts: int) -> float:
        return math.log(1 + (len(self._sizes) - texts + 0.5) / (texts + 0.5))

    def _scores(self, known: list[array[int]]) -> NDArray[Any]:
        import numpy as np

        found = np.zeros(len(self._lengths))
        if known:
            mean = self._total / len(found)
            slack = self._k1 * (1 - self._b + self._b * self._lengths.rows / mean)
            for held in known:
                self._weigh(held, slack, found)
        return found

    def _weigh(self, held: array[int], slack: NDArray[Any], found: NDArray[Any]) -> None:
        import numpy as np

        packed = np.frombuffer(held, np.int64)
        places, counts = packed >> _BITS, (packed & _MOST).astype(np.float64)
        found[places] += self._idf(len(held)) * (self._k1 + 1) * counts / (counts + slack[places])
