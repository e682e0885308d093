"""Fits texts into a judge's prompt: things to judge go into batches, texts to search are chosen by BM25."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from assay.scoring.text_overlap import tokens

ITEMS = 40
"""The most things that one request asks labels for. Small models lose count in longer lists."""
CHARACTERS = 24_000
"""The most characters of each list in a prompt: some 6,000 tokens of English."""
PASSAGE = 2_000
"""Texts longer than this are cut into passages before passages are chosen."""
FINGERPRINT = ("bm25.v1", ITEMS, CHARACTERS, PASSAGE)
"""Part of every judge's fingerprint: with another budget a judge sees other texts."""

# Characters that a line's number, quotes and line break take.
_LINE = 8
# The usual constants of Okapi BM25.
_K, _B = 1.2, 0.75


def batches(texts: Sequence[str]) -> list[slice]:
    """Slices of neighbouring texts that fit one request by number and by characters.

    Every slice has at least one text, even one that alone is too long.
    """
    slices, start, size = [], 0, 0
    for index, text in enumerate(texts):
        cost = min(len(text), CHARACTERS) + _LINE
        if index > start and (index - start == ITEMS or size + cost > CHARACTERS):
            slices.append(slice(start, index))
            start, size = index, 0
        size += cost
    return [*slices, slice(start, len(texts))]


def shortened(text: str) -> str:
    """The text, cut to the budget with a note about the characters that are left out."""
    excess = len(text) - CHARACTERS
    if excess <= 0:
        return text
    return f"{text[:CHARACTERS]} […{excess} more characters]"


def nearest(texts: Sequence[str], wanted: Sequence[str], budget: int = CHARACTERS) -> Sequence[str]:
    """`texts` itself if all fit, else the passages that are most like the wanted texts, in their order."""
    if sum(map(len, texts)) + _LINE * len(texts) <= budget:
        return texts
    passages = [passage for text in texts for passage in _passages(text)]
    chosen, left = [], budget
    for index in _ranked(passages, wanted):
        cost = len(passages[index]) + _LINE
        if cost <= left:
            chosen.append(index)
            left -= cost
        if left <= _LINE:
            break
    return [passages[index] for index in sorted(chosen)]


def _passages(text: str) -> Iterator[str]:
    """Cut at a line's end or a space in the second half of a passage, else in the middle of a word."""
    while len(text) > PASSAGE:
        last_break = max(text.rfind(mark, PASSAGE // 2, PASSAGE) for mark in ("\n", " "))
        end = last_break + 1 or PASSAGE
        yield text[:end]
        text = text[end:]
    yield text


def _ranked(passages: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Indexes: the best passage of every wanted text first, then every second best, and so on."""
    bags = [_words(passage) for passage in passages]
    best_rank = [len(passages)] * len(passages)
    for query in wanted:
        scores = _bm25_scores(bags, _words(query))
        matches = [index for index, score in enumerate(scores) if score]
        matches.sort(key=lambda index: (-scores[index], index))
        for rank, index in enumerate(matches):
            best_rank[index] = min(best_rank[index], rank)
    return sorted(range(len(passages)), key=lambda index: (best_rank[index], index))


def _bm25_scores(bags: list[frozenset[str]], query: frozenset[str]) -> list[float]:
    """Okapi BM25, with each word counted once."""
    shared = [query & bag for bag in bags]
    frequency = dict.fromkeys(query, 0)
    for words in shared:
        for word in words:
            frequency[word] += 1
    weight = {word: math.log(1 + (len(bags) - n + 0.5) / (n + 0.5)) for word, n in frequency.items()}
    mean_length = sum(map(len, bags)) / len(bags) or 1.0
    scores = []
    for words, bag in zip(shared, bags, strict=True):
        # Sorted, because the order of a set changes from process to process and with it the last bit.
        total = sum(weight[word] for word in sorted(words))
        scores.append(total * (_K + 1) / (1 + _K * (1 - _B + _B * len(bag) / mean_length)))
    return scores


@lru_cache(1 << 13)
def _words(text: str) -> frozenset[str]:
    """Cached, because each point of a session is searched in the same memories."""
    return frozenset(tokens(text))
