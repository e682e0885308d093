"""Fits texts into the prompts of judges.

Items to be judged are split into batches. Texts that are only searched (memories, evidence) are reduced to the
passages that are most similar to the items, by BM25.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from assay.files.excerpt import cut_end, cut_start
from assay.files.redact import secret_across

# Most items in one request. Small models lose count in longer lists.
ITEMS = 40
# Most characters of each list in a prompt: about 6,000 tokens of English.
CHARACTERS = 24_000
# Texts longer than this are split into passages before the best passages are chosen.
PASSAGE = 2_000
# Part of every judge's fingerprint, because a judge with another budget sees other texts.
FINGERPRINT = ("bm25.v1", ITEMS, CHARACTERS, PASSAGE)

# Characters that a text takes beside its own: line number, quotes and line break.
_LINE_OVERHEAD = 8
# The usual constants of Okapi BM25.
_K, _B = 1.2, 0.75


def batches(texts: Sequence[str]) -> list[slice]:
    """Split texts into slices that fit one request, by number and by characters.

    Every slice has at least one text, even if that text alone is too long.
    """
    slices, start, size = [], 0, 0
    for index, text in enumerate(texts):
        cost = min(len(text), CHARACTERS) + _LINE_OVERHEAD
        if index > start and (index - start == ITEMS or size + cost > CHARACTERS):
            slices.append(slice(start, index))
            start, size = index, 0
        size += cost
    return [*slices, slice(start, len(texts))]


def shortened(text: str) -> str:
    """Return the text, cut to the budget. A note tells how many characters are missing."""
    excess = len(text) - CHARACTERS
    return text if excess <= 0 else f"{cut_end(text, CHARACTERS)} [{excess} more characters]"


def nearest(texts: Sequence[str], queries: Sequence[str], budget: int = CHARACTERS) -> Sequence[str]:
    """Return `texts` itself if all fit, else the passages most similar to `queries`, in their original order."""
    if sum(map(len, texts)) + _LINE_OVERHEAD * len(texts) <= budget:
        return texts
    passages = [passage for text in texts for passage in _passages(text)]
    chosen, characters_left = [], budget
    for index in _ranked(passages, queries):
        cost = len(passages[index]) + _LINE_OVERHEAD
        if cost <= characters_left:
            chosen.append(index)
            characters_left -= cost
        if characters_left <= _LINE_OVERHEAD:
            break
    return [passages[index] for index in sorted(chosen)]


def _passages(text: str) -> Iterator[str]:
    """Split a text at a line break or space in the second half of a passage, else within a word, with marks."""
    while len(text) > PASSAGE:
        last_break = max(text.rfind(mark, PASSAGE // 2, PASSAGE) for mark in ("\n", " "))
        if last_break < 0 or secret_across(text, last_break + 1):
            yield cut_end(text, PASSAGE - 1)
            text = cut_start(text, len(text) - PASSAGE + 1)
        else:
            yield text[: last_break + 1]
            text = text[last_break + 1 :]
    yield text


def _ranked(passages: Sequence[str], queries: Sequence[str]) -> list[int]:
    """Return indexes of passages: first the best one of every query, then the second best of every query, ..."""
    bags = [_words(passage) for passage in passages]
    best_rank = [len(passages)] * len(passages)
    for query in queries:
        scores = _bm25_scores(bags, _words(query))
        matches = [index for index, score in enumerate(scores) if score]
        matches.sort(key=lambda index: (-scores[index], index))
        for rank, index in enumerate(matches):
            best_rank[index] = min(best_rank[index], rank)
    return sorted(range(len(passages)), key=lambda index: (best_rank[index], index))


def _bm25_scores(bags: list[frozenset[str]], query: frozenset[str]) -> list[float]:
    """Return the Okapi BM25 score of each bag. A repeated word counts once."""
    shared = [query & bag for bag in bags]
    frequency = dict.fromkeys(query, 0)
    for words in shared:
        for word in words:
            frequency[word] += 1
    weight = {word: math.log(1 + (len(bags) - n + 0.5) / (n + 0.5)) for word, n in frequency.items()}
    mean_length = sum(map(len, bags)) / len(bags) or 1.0
    scores = []
    for words, bag in zip(shared, bags, strict=True):
        # Sorted, because the order of a set differs between processes, and with it the rounding of the sum.
        total = sum(weight[word] for word in sorted(words))
        scores.append(total * (_K + 1) / (1 + _K * (1 - _B + _B * len(bag) / mean_length)))
    return scores


@lru_cache(1 << 13)
def _words(text: str) -> frozenset[str]:
    """Return the words of a text. Cached, because all points of a session are searched in the same memories."""
    # Imported here: most judges never shorten a prompt.
    from assay.scoring.text_overlap import tokens

    return frozenset(tokens(text))
