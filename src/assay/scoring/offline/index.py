"""An index of memory texts by their words.

A memory point is compared only with the pieces of text that share a word with it, not with all.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from assay.scoring.offline.numbers import in_digits
from assay.scoring.offline.words import COMMON_PREFIX, are_similar, fold, function_words, words_of

if TYPE_CHECKING:
    from numpy.typing import NDArray

# Longer texts are split into pieces at the ends of sentences. A long text contains some words of any point, so it
# would seem to cover every point.
_PIECE_LENGTH = 400
_SENTENCE = re.compile(rf"[^.!?\n。！？]{{0,{_PIECE_LENGTH}}}[.!?\n。！？]{{0,9}}\s{{0,9}}")
# The weights and limits below were chosen on half of the LoCoMo conversations; `make judges` measures both halves.
_FUNCTION_WORD_WEIGHT, _SIMILAR_WEIGHT = 0.2, 0.6
# The person whom a point is about weighs less, because memories often leave out the name.
_SUBJECT_WEIGHT, _UNSEEN_SUBJECT_WEIGHT = 0.5, 0.2
# Long pieces match more words by chance. The penalty is relative to a piece of 20 words and stops at 200 words.
_USUAL_WORDS, _LENGTH_PENALTY, _MOST_WORDS = 20, 0.06, 200
# From this number of pieces on numpy adds faster than Python.
_MANY_PIECES = 200
# Words whose pieces an index remembers.
_MOST_MATCHES = 1 << 12


class Piece(NamedTuple):
    """A text, or some sentences of a long text, with number words as digits."""

    text: str
    words: frozenset[str]


class WordMatch(NamedTuple):
    """The rarity of a word, and the numbers of the pieces with it and of those with only a similar word."""

    weight: float
    exact: Sequence[int] | NDArray[Any]
    similar: Sequence[int] | NDArray[Any]


class TextIndex:
    """Pieces of texts. The fewer pieces contain a word, the more it weighs."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        self.pieces: list[Piece] = []
        self.owners: list[int] = []
        """For each piece the number of its text."""
        for number, text in enumerate(texts):
            pieces = pieces_of(text)
            self.pieces += pieces
            self.owners += [number] * len(pieces)
        self._postings: dict[str, list[int]] = defaultdict(list)
        for number, piece in enumerate(self.pieces):
            for word in piece.words:
                self._postings[word].append(number)
        self._by_prefix: dict[str, list[str]] = defaultdict(list)
        for word in self._postings:
            self._by_prefix[word[:COMMON_PREFIX]].append(word)
        chances = _chances()
        self._chances = [chances[min(len(piece.words), _MOST_WORDS)] for piece in self.pieces]
        self._chance_array: NDArray[Any] | None = None
        self._matches: dict[str, WordMatch] = {}

    def shares(self, point: str) -> list[float]:
        """Return for each piece the share of the point's word weights that it contains, from 0 to 1.

        The share that a piece of this length contains by chance is subtracted.
        """
        words = _point_words(point)
        matches = [self._matches.get(word) or self.match(word) for word in words]
        weights = [match.weight for match in matches]
        # A point that begins with a capital letter usually begins with the name of its subject.
        if words and point.lstrip()[:1].isupper():
            weights[0] *= _SUBJECT_WEIGHT if len(matches[0].exact) else _UNSEEN_SUBJECT_WEIGHT
        total = sum(weights)
        if not total:
            return [0.0] * len(self.pieces)
        if len(self.pieces) > _MANY_PIECES:
            return self.shares_of_many(weights, matches, total)
        shares = [0.0] * len(self.pieces)
        for weight, match in zip(weights, matches, strict=True):
            for number in match.exact:
                shares[number] += weight
            for number in match.similar:
                shares[number] += weight * _SIMILAR_WEIGHT
        return [
            min(1.0, max(0.0, share / total - chance))
            for share, chance in zip(shares, self._chances, strict=True)
        ]

    def shares_of_many(self, weights: list[float], matches: list[WordMatch], total: float) -> list[float]:
        """Return the same shares, added up by numpy."""
        import numpy as np

        shares = np.zeros(len(self.pieces))
        for weight, match in zip(weights, matches, strict=True):
            shares[match.exact] += weight
            shares[match.similar] += weight * _SIMILAR_WEIGHT
        if self._chance_array is None:
            self._chance_array = np.array(self._chances)
        clipped: list[float] = np.clip(shares / total - self._chance_array, 0, 1).tolist()
        return clipped

    def match(self, word: str) -> WordMatch:
        """Return where the word occurs. Remembered, because the points of a session share words."""
        exact = self._postings.get(word, [])
        rarity = math.log(1 + (len(self.pieces) + 1) / (len(exact) + 0.5))
        weight = rarity * (_FUNCTION_WORD_WEIGHT if word in function_words() else 1.0)
        similar: set[int] = set()
        for other in self._by_prefix.get(word[:COMMON_PREFIX], ()):
            if other != word and are_similar(word, other):
                similar.update(self._postings[other])
        match = WordMatch(weight, exact, sorted(similar.difference(exact)))
        if len(self.pieces) > _MANY_PIECES:
            import numpy as np

            match = WordMatch(weight, *(np.array(numbers, np.int64) for numbers in match[1:]))
        if len(self._matches) >= _MOST_MATCHES:
            self._matches.clear()
        self._matches[word] = match
        return match


def best_first(shares: list[float]) -> Iterator[int]:
    """Yield the numbers of the pieces from the highest share to the lowest. Often only the first is needed."""
    if shares:
        yield shares.index(max(shares))
        yield from sorted(range(len(shares)), key=shares.__getitem__, reverse=True)[1:]


@lru_cache(8)
def index_of(texts: tuple[str, ...]) -> TextIndex:
    """Return the index of texts. Cached, because all points of a session are searched in the same texts."""
    return TextIndex(texts)


@lru_cache(1 << 14)
def pieces_of(text: str) -> tuple[Piece, ...]:
    """Return the pieces of a text. Cached, because memories keep most texts from session to session."""
    parts = [""]
    for sentence in _SENTENCE.findall(in_digits(fold(text))):
        if parts[-1] and len(parts[-1]) + len(sentence) > _PIECE_LENGTH:
            parts.append("")
        parts[-1] += sentence
    return tuple(Piece(part, frozenset(words_of(part))) for part in parts)


@lru_cache(1 << 13)
def _point_words(point: str) -> tuple[str, ...]:
    """Return the words of a point without repetitions. Cached, because later sessions ask for the point again."""
    return tuple(dict.fromkeys(words_of(in_digits(fold(point)))))


@cache
def _chances() -> list[float]:
    """Return for each number of words the share of any point that a piece of this length contains by chance."""
    import numpy as np

    # By numpy, whose logarithm differs from Python's in the last bit: the calibrated verdicts were made with it.
    chances: list[float] = (
        _LENGTH_PENALTY * np.log((np.arange(_MOST_WORDS + 1.0) + 5) / _USUAL_WORDS)
    ).tolist()
    return chances
