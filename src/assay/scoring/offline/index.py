"""Texts by their words, made once for each set of texts, so that a point costs what its words' lists cost."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.scoring.offline.numbers import in_digits
from assay.scoring.offline.words import BEGINNING, alike, folded, little, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Shares = NDArray[Any]

_LONG = 400
_SENTENCE = re.compile(rf"[^.!?\n。！？]{{0,{_LONG}}}[.!?\n。！？]{{0,9}}\s{{0,9}}")
_LITTLE_WEIGHT = 0.2
_SUBJECT_WEIGHT, _UNNAMED_WEIGHT = 0.5, 0.2
_ALIKE_WEIGHT = 0.6
_USUAL, _LONGER, _LONGEST = 20, 0.06, 200


class Piece(NamedTuple):
    """A text, or some sentences of a long one, with its numbers in digits."""

    said: str
    words: frozenset[str]


class Index:
    """Pieces of texts. A word weighs by how few pieces have it."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        import numpy as np

        self.texts = texts
        places = [(place, piece) for place, text in enumerate(texts) for piece in pieces_of(text)]
        self.pieces = [piece for _, piece in places]
        self.owners = np.array([place for place, _ in places], np.int64)
        held: dict[str, list[int]] = defaultdict(list)
        for at, piece in enumerate(self.pieces):
            for word in piece.words:
                held[word].append(at)
        self._held = {word: np.array(having, np.int64) for word, having in held.items()}
        self._beginnings: dict[str, list[str]] = defaultdict(list)
        for word in held:
            self._beginnings[word[:BEGINNING]].append(word)
        # Long pieces have many words by chance.
        sizes = np.array([min(len(piece.words), _LONGEST) for piece in self.pieces], float)
        self._chance = _LONGER * np.log((sizes + 5) / _USUAL)

    def shares(self, point: str) -> Shares:
        """How much of a point's weight each piece has, less what its length makes likely: from 0 to 1."""
        import numpy as np

        weights = self._weights(point)
        total = sum(weights.values())
        found = np.zeros(len(self.pieces))
        for word, weight in weights.items():
            for places, part in self._having(word):
                found[places] += weight * part
        return np.clip(found / total - self._chance, 0, 1) if total else found

    def together(self, point: str) -> float:
        """How much of a point's weight all texts have among them."""
        weights = self._weights(point)
        total = sum(weights.values())
        found = sum(
            weight * next(self._having(word))[1] for word, weight in weights.items() if self._has(word)
        )
        return found / total if total else 0.0

    def _weights(self, point: str) -> dict[str, float]:
        words = list(dict.fromkeys(words_of(in_digits(folded(point)))))
        found = {word: self._weight(word) for word in words}
        if words and point.lstrip()[:1].isupper():
            found[words[0]] *= _SUBJECT_WEIGHT if words[0] in self._held else _UNNAMED_WEIGHT
        return found

    def _weight(self, word: str) -> float:
        having = len(self._held.get(word, ()))
        rarity = math.log(1 + (len(self.pieces) + 1) / (having + 0.5))
        return rarity * (_LITTLE_WEIGHT if word in little() else 1.0)

    def _has(self, word: str) -> bool:
        return next(self._having(word), None) is not None

    def _having(self, word: str) -> Iterator[tuple[Shares, float]]:
        """Pieces that have a word, and those that have one like it; no piece twice."""
        import numpy as np

        exact = self._held.get(word)
        if exact is not None:
            yield exact, 1.0
        others = [other for other in self._beginnings.get(word[:BEGINNING], ()) if other != word]
        like = [self._held[other] for other in others if alike(word, other)]
        if like:
            places = np.unique(np.concatenate(like))
            places = places if exact is None else np.setdiff1d(places, exact, assume_unique=True)
            if len(places):
                yield places, _ALIKE_WEIGHT


@lru_cache(8)
def index_of(texts: tuple[str, ...]) -> Index:
    """The same texts are met with all points of a session: they are indexed once."""
    return Index(texts)


@lru_cache(1 << 14)
def pieces_of(text: str) -> tuple[Piece, ...]:
    """The text itself, or groups of sentences where it is long. Cached: memories keep their texts."""
    said = in_digits(folded(text))
    return tuple(Piece(part, frozenset(words_of(part))) for part in _parts(said))


def _parts(said: str) -> list[str]:
    if len(said) <= _LONG:
        return [said]
    parts = [""]
    for sentence in _SENTENCE.findall(said):
        if parts[-1] and len(parts[-1]) + len(sentence) > _LONG:
            parts.append("")
        parts[-1] += sentence
    return parts
