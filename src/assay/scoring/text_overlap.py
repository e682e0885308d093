"""Short answers against references by their words: token F1, BLEU-1, exact match, abstention, evidence recall.

Words are compared as LoCoMo's own evaluation does: in lower case, without punctuation and articles, stemmed
by Porter's rules. Each Chinese or Japanese character is a token.
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
_ARTICLES = frozenset({"a", "an", "the", "and"})
_TOKEN = re.compile(
    r"[\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uf900-\ufaff]|[^\s\u3400-\u4dbf\u4e00-\u9fff\u3040-\u30ff\uf900-\ufaff]+"
)
# The sentences by which LoCoMo's evaluation recognises "not known".
_ABSTENTIONS = ("no information available", "not mentioned")
# A stemmer keeps the word that it works on in its own state, and runs may score in several threads.
_STEMMER_LOCK = threading.Lock()


def tokens(text: str) -> list[str]:
    """The stemmed words of a text in order, without articles."""
    words = _TOKEN.findall(text.lower().translate(_PUNCTUATION))
    return [_stem(word) for word in words if word not in _ARTICLES]


def token_f1(answer: str, reference: str) -> float:
    """Harmonic mean of the shares of words that are in the other text; 1 for two texts without words."""
    return overlap_f1(tokens(answer), tokens(reference))


def overlap_f1(one: list[str], two: list[str]) -> float:
    """Twice the shared words by all words, repetitions counted; 1 for two empty lists."""
    if not one or not two:
        return float(one == two)
    return 2 * sum((Counter(one) & Counter(two)).values()) / (len(one) + len(two))


def bleu1(answer: str, reference: str) -> float:
    """The share of the answer's words that are in the reference, times a penalty for a short answer.

    A word counts at most as often as it stands in the reference. With c words in the answer and r in the
    reference the penalty is 1 where c > r, else exp(1 - r / c). Nothing is smoothed. The value is 0 where
    one text alone has no words, 1 where neither has any.
    """
    return overlap_bleu1(tokens(answer), tokens(reference))


def overlap_bleu1(answer: list[str], reference: list[str]) -> float:
    """BLEU-1 of texts that are tokens already."""
    if not answer or not reference:
        return float(answer == reference)
    shared = sum((Counter(answer) & Counter(reference)).values())
    return shared / len(answer) * min(1.0, math.exp(1 - len(reference) / len(answer)))


def list_f1(answer: str, reference: str) -> float:
    """For answers that are lists: the best F1 of each part of the reference among the answer's, averaged."""
    parts, wanted_parts = answer.split(","), reference.split(",")
    return sum(max(token_f1(part, wanted) for part in parts) for wanted in wanted_parts) / len(wanted_parts)


def exact_match(answer: str, reference: str) -> float:
    """1 where the tokens are the same, in the same order."""
    return float(tokens(answer) == tokens(reference))


def abstains(answer: str) -> bool:
    """Whether the answer says that it is not known, by LoCoMo's two sentences."""
    text = answer.lower()
    return any(sentence in text for sentence in _ABSTENTIONS)


def recall(retrieved: Collection[str], wanted: Sequence[str]) -> float | None:
    """The share of wanted ids that were retrieved; None where nothing is wanted."""
    ids = set(wanted)
    return len(ids & set(retrieved)) / len(ids) if ids else None


@lru_cache(1 << 16)
def _stem(word: str) -> str:
    with _STEMMER_LOCK:
        return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer

    stem: Callable[[str], str] = snowballstemmer.stemmer("porter").stemWord
    return stem
