"""An index of memory texts by their words.

A memory point is compared only with the pieces of text that share a word with it, not with all.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterator
from functools import lru_cache
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


class Piece(NamedTuple):
    """A text, or some sentences of a long text, with number words as digits."""

    text: str
    words: frozenset[str]


class TextIndex:
    """Pieces of texts. The fewer pieces contain a word, the more it weighs."""

    def __init__(self, texts: tuple[str, ...]) -> None:
        import numpy as np

        self.pieces: list[Piece] = []
        owners: list[int] = []
        for number, text in enumerate(texts):
            pieces = pieces_of(text)
            self.pieces += pieces
            owners += [number] * len(pieces)
        self.owners = np.array(owners, np.int64)
        postings: dict[str, list[int]] = defaultdict(list)
        for number, piece in enumerate(self.pieces):
            for word in piece.words:
                postings[word].append(number)
        self._postings = {word: np.array(numbers, np.int64) for word, numbers in postings.items()}
        self._by_prefix: dict[str, list[str]] = defaultdict(list)
        for word in postings:
            self._by_prefix[word[:COMMON_PREFIX]].append(word)
        # Long pieces share many words with any point by chance. This share is subtracted.
        sizes = np.array([min(len(piece.words), _MOST_WORDS) for piece in self.pieces], float)
        self._chance = _LENGTH_PENALTY * np.log((sizes + 5) / _USUAL_WORDS)

    def shares(self, point: str) -> NDArray[Any]:
        """Return for each piece the share of the point's word weights that it contains, from 0 to 1.

        The share that a piece of this length contains by chance is subtracted.
        """
        import numpy as np

        weights = self._weights(point)
        total = sum(weights.values())
        shares = np.zeros(len(self.pieces))
        for word, weight in weights.items():
            for numbers, factor in self._pieces_with(word):
                shares[numbers] += weight * factor
        return np.clip(shares / total - self._chance, 0, 1) if total else shares

    def _weights(self, point: str) -> dict[str, float]:
        words = list(dict.fromkeys(words_of(in_digits(fold(point)))))
        weights = {}
        for word in words:
            frequency = len(self._postings.get(word, ()))
            rarity = math.log(1 + (len(self.pieces) + 1) / (frequency + 0.5))
            weights[word] = rarity * (_FUNCTION_WORD_WEIGHT if word in function_words() else 1.0)
        # A point that begins with a capital letter usually begins with the name of its subject.
        if words and point.lstrip()[:1].isupper():
            subject = words[0]
            weights[subject] *= _SUBJECT_WEIGHT if subject in self._postings else _UNSEEN_SUBJECT_WEIGHT
        return weights

    def _pieces_with(self, word: str) -> Iterator[tuple[NDArray[Any], float]]:
        """Yield (pieces, factor): first the pieces with the word, then those with only a similar word."""
        import numpy as np

        exact = self._postings.get(word)
        if exact is not None:
            yield exact, 1.0
        others = [other for other in self._by_prefix.get(word[:COMMON_PREFIX], ()) if other != word]
        similar = [self._postings[other] for other in others if are_similar(word, other)]
        if similar:
            numbers = np.unique(np.concatenate(similar))
            yield (numbers if exact is None else np.setdiff1d(numbers, exact)), _SIMILAR_WEIGHT


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
