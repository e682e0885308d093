"""Short answers against references: token F1, BLEU-1, exact match, abstention, and what evidence was found.

Words are compared as LoCoMo's own evaluation does: in lower case, without punctuation and articles, stemmed
by Porter's rules. Chinese and Japanese characters are a token each.
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
_ONE_AT_A_TIME = threading.Lock()
"""A stemmer holds the word that it works on; runs may score in several threads."""
_ABSENT = ("no information available", "not mentioned")


def tokens(text: str) -> list[str]:
    """The words of a text that count, in order."""
    words = _TOKEN.findall(text.lower().translate(_PUNCTUATION))
    return [_stem(word) for word in words if word not in _ARTICLES]


def token_f1(said: str, reference: str) -> float:
    """Harmonic mean of the shares of words that are in the other text; 1 for two texts without words."""
    return overlap_f1(tokens(said), tokens(reference))


def overlap_f1(one: list[str], two: list[str]) -> float:
    """Twice the shared words by all words, each as often as it stands; two lists without any agree."""
    if not one or not two:
        return float(one == two)
    return 2 * sum((Counter(one) & Counter(two)).values()) / (len(one) + len(two))


def bleu1(said: str, reference: str) -> float:
    """The share of said words that are in the reference, times a penalty for saying less than it does.

    A word counts at most as often as it stands in the reference. With c words said and r in the reference
    the penalty is 1 where c > r, else exp(1 - r / c). Nothing is smoothed. 0 where one text alone has no
    words, 1 where neither has any.
    """
    return overlap_bleu1(tokens(said), tokens(reference))


def overlap_bleu1(one: list[str], two: list[str]) -> float:
    """BLEU-1 of words that are taken apart already."""
    if not one or not two:
        return float(one == two)
    shared = sum((Counter(one) & Counter(two)).values())
    return shared / len(one) * min(1.0, math.exp(1 - len(two) / len(one)))


def list_f1(said: str, reference: str) -> float:
    """For answers that are lists: each part of the reference by its best part in what was said, averaged."""
    parts, wanted = said.split(","), reference.split(",")
    return sum(max(token_f1(part, one) for part in parts) for one in wanted) / len(wanted)


def exact_match(said: str, reference: str) -> float:
    """1 where the words that count are the same, in the same order."""
    return float(tokens(said) == tokens(reference))


def abstains(said: str) -> bool:
    """Whether it says that it is not known, by LoCoMo's two sentences."""
    text = said.lower()
    return any(sentence in text for sentence in _ABSENT)


def recall(found: Collection[str], wanted: Sequence[str]) -> float | None:
    """The share of what is wanted that was found; None where nothing is."""
    places = set(wanted)
    return len(places & set(found)) / len(places) if places else None


@lru_cache(1 << 16)
def _stem(word: str) -> str:
    with _ONE_AT_A_TIME:
        return _stemmer()(word)


@cache
def _stemmer() -> Callable[[str], str]:
    import snowballstemmer

    stem: Callable[[str], str] = snowballstemmer.stemmer("porter").stemWord
    return stem
