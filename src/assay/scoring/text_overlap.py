"""Compares short answers with references by words: token F1, BLEU-1, exact match, abstention, evidence recall.

Words are compared as in LoCoMo's own evaluation: in lower case, without punctuation and articles, stemmed by
Porter's rules. In addition, each Chinese or Japanese character is a token.
"""

from __future__ import annotations

import math
import re
import string
import threading
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from functools import cache, lru_cache

_PUNCTUATION = str.maketrans("", "", string.punctuation)
# "and" is not an article, but LoCoMo's evaluation removes it too.
_ARTICLES = frozenset({"a", "an", "the", "and"})
_TOKEN = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uf900-\ufaff]|[^\s\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uf900-\ufaff]+"
)
# The phrases by which LoCoMo's evaluation recognises an abstention.
_ABSTENTIONS = ("no information available", "not mentioned")
# A stemmer stores the current word in itself, so two threads must not use it at once.
_STEMMER_LOCK = threading.Lock()


def tokens(text: str) -> list[str]:
    """Return the stemmed words of a text in order, without articles."""
    plain = text.lower().translate(_PUNCTUATION)
    # The tokens of an ASCII text are the parts between white space.
    words = plain.split() if plain.isascii() else _TOKEN.findall(plain)
    return [_stem(word) for word in words if word not in _ARTICLES]


def token_f1(answer: str, reference: str) -> float:
    """Return F1 of the words of answer and reference. It is 1 for two texts without words."""
    return overlap_f1(tokens(answer), tokens(reference))


def overlap_f1(answer: list[str], reference: list[str]) -> float:
    """Return 2 * shared words / all words, with repetitions. It is 1 for two empty lists."""
    return overlap_scores(answer, reference)[0]


def bleu1(answer: str, reference: str) -> float:
    """Return the share of the answer's words that are in the reference, times a penalty for a short answer.

    A word counts at most as often as it occurs in the reference. With c words in the answer and r in the
    reference the penalty is 1 if c > r, else exp(1 - r / c). There is no smoothing. The value is 0 if one text
    has no words, and 1 if neither has any.
    """
    return overlap_bleu1(tokens(answer), tokens(reference))


def overlap_bleu1(answer: list[str], reference: list[str]) -> float:
    """Return BLEU-1 of two lists of tokens."""
    return overlap_scores(answer, reference)[1]


def overlap_scores(answer: list[str], reference: list[str]) -> tuple[float, float]:
    """Return F1 and BLEU-1 of two lists of tokens. Both count the same shared words."""
    if not answer or not reference:
        return float(answer == reference), float(answer == reference)
    shared = 0
    if not set(answer).isdisjoint(reference):
        shared = sum((Counter(answer) & Counter(reference)).values())
    f1 = 2 * shared / (len(answer) + len(reference))
    return f1, shared / len(answer) * min(1.0, math.exp(1 - len(reference) / len(answer)))


def list_f1(answer: str, reference: str) -> float:
    """Return F1 of answers that are lists, separated by commas.

    Each part of the reference counts with its best F1 among the parts of the answer; these are averaged.
    """
    answer_parts, reference_parts = answer.split(","), reference.split(",")
    best = [max(token_f1(part, reference_part) for part in answer_parts) for reference_part in reference_parts]
    return sum(best) / len(reference_parts)


def exact_match(answer: str, reference: str) -> float:
    """Return 1 if answer and reference have the same tokens in the same order, else 0."""
    return float(tokens(answer) == tokens(reference))


def abstains(answer: str) -> bool:
    """Return whether the answer contains one of LoCoMo's two phrases for an abstention."""
    text = answer.lower()
    return any(sentence in text for sentence in _ABSTENTIONS)


def recall(retrieved: Collection[str], wanted: Sequence[str]) -> float | None:
    """Return the share of wanted ids that were retrieved, or None if no ids are wanted."""
    ids = set(wanted)
    return len(ids & set(retrieved)) / len(ids) if ids else None


@lru_cache(1 << 16)
def _stem(word: str) -> str:
    if word.isdecimal():
        return word  # numbers have no endings, and there are too many of them for the cache
    with _STEMMER_LOCK:
        return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer

    stem: Callable[[str], str] = snowballstemmer.stemmer("porter").stemWord
    return stem
