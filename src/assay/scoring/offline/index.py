"""An index of memory texts by their words.

A memory point is compared only with the pieces of text that share a word with it, not with all.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from functools import cache, cached_property, lru_cache
from typing import TYPE_CHECKING, Any

from msgspec import Struct

from assay.scoring.offline.words import (
    COMMON_PREFIX,
    are_similar,
    function_words,
    plain_text,
    word_set,
    words_of,
)

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
# From this number of pieces on numpy adds faster than Python, and a list of the pieces of each word pays.
_MANY_PIECES = 200
# Words whose pieces an index remembers.
_MOST_MATCHES = 1 << 12
# Points whose shares an index remembers. A session has fewer.
_MOST_SHARES = 1 << 6


class Piece(Struct, frozen=True, gc=False):
    """A text, or some sentences of a long text, with number words as digits."""

    text: str
    words: frozenset[str]
    beginnings: frozenset[str]
    """The first letters of its long words. Only these words can be similar to a word of a point."""


class WordMatch(Struct, frozen=True, gc=False):
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
        chances = _chances()
        self._chances = [chances[min(len(piece.words), _MOST_WORDS)] for piece in self.pieces]
        self._chance_array: NDArray[Any] | None = None
        self._matches: dict[str, WordMatch] = {}
        self._shares: dict[str, list[float]] = {}

    def shares(self, point: str) -> list[float]:
        """Return for each piece the share of the point's word weights that it contains, from 0 to 1.

        The share that a piece of this length contains by chance is subtracted. Remembered, because recall and
        correctness of a session compare the same points with the same texts. Callers must not change the list.
        """
        shares = self._shares.get(point)
        if shares is None:
            if len(self._shares) >= _MOST_SHARES:
                self._shares.clear()
            shares = self._shares[point] = self._shares_of(point)
        return shares

    def _shares_of(self, point: str) -> list[float]:
        words = _point_words(point)
        known = self._matches.get
        matches = [known(word) or self.match(word) for word in words]
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
        above_chance = [share / total - chance for share, chance in zip(shares, self._chances, strict=True)]
        # As min(1.0, max(0.0, share)), without two calls for each piece.
        return [0.0 if share <= 0 else share if share < 1 else 1.0 for share in above_chance]

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
        is_many = len(self.pieces) > _MANY_PIECES
        exact, similar = self._look_up(word) if is_many else self._read_all(word)
        rarity = math.log(1 + (len(self.pieces) + 1) / (len(exact) + 0.5))
        weight = rarity * _FUNCTION_WORD_WEIGHT if word in function_words() else rarity
        match = WordMatch(weight, exact, similar)
        if is_many:
            import numpy as np

            match = WordMatch(weight, np.array(exact, np.int64), np.array(similar, np.int64))
        if len(self._matches) >= _MOST_MATCHES:
            self._matches.clear()
        self._matches[word] = match
        return match

    def _read_all(self, word: str) -> tuple[list[int], list[int]]:
        """Return the numbers of the pieces with the word, and of those with only a similar word."""
        exact, similar = [], []
        beginning = word[:COMMON_PREFIX]
        for number, piece in enumerate(self.pieces):
            if word in piece.words:
                exact.append(number)
            elif beginning in piece.beginnings and any(are_similar(word, other) for other in piece.words):
                similar.append(number)
        return exact, similar

    def _look_up(self, word: str) -> tuple[list[int], list[int]]:
        """Return the same as `_read_all`. It reads all pieces once for all words, instead of once for each."""
        exact = self._postings.get(word, [])
        similar: set[int] = set()
        for other in self._by_beginning.get(word[:COMMON_PREFIX], ()):
            if other != word and are_similar(word, other):
                similar.update(self._postings[other])
        return exact, sorted(similar.difference(exact))

    @cached_property
    def _postings(self) -> dict[str, list[int]]:
        """The numbers of the pieces with each word."""
        postings: dict[str, list[int]] = defaultdict(list)
        for number, piece in enumerate(self.pieces):
            for word in piece.words:
                postings[word].append(number)
        return dict(postings)

    @cached_property
    def _by_beginning(self) -> dict[str, list[str]]:
        """The words of all pieces by their first letters."""
        words: dict[str, list[str]] = defaultdict(list)
        for word in self._postings:
            words[word[:COMMON_PREFIX]].append(word)
        return dict(words)


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
    plain = plain_text(text)
    if len(plain) <= _PIECE_LENGTH:
        return (_piece(plain),)
    parts = [""]
    for sentence in _SENTENCE.findall(plain):
        if parts[-1] and len(parts[-1]) + len(sentence) > _PIECE_LENGTH:
            parts.append("")
        parts[-1] += sentence
    return tuple(map(_piece, parts))


def _piece(text: str) -> Piece:
    words = word_set(text)
    return Piece(text, words, frozenset([word[:COMMON_PREFIX] for word in words if len(word) >= COMMON_PREFIX]))


@lru_cache(1 << 13)
def _point_words(point: str) -> tuple[str, ...]:
    """Return the words of a point without repetitions. Cached, because later sessions ask for the point again."""
    return tuple(dict.fromkeys(words_of(plain_text(point))))


@cache
def _chances() -> list[float]:
    """Return for each number of words the share of any point that a piece of this length contains by chance."""
    import numpy as np

    # By numpy, whose logarithm differs from Python's in the last bit: the calibrated verdicts were made with it.
    chances: list[float] = (_LENGTH_PENALTY * np.log((np.arange(_MOST_WORDS + 1.0) + 5) / _USUAL_WORDS)).tolist()
    return chances
