"""Makes texts fit a prompt: things to be judged in batches, texts to be looked at by likeness."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from functools import lru_cache

from assay.scoring.answers import tokens

ITEMS = 40
"""Things that one request asks a label for, at most."""
CHARACTERS = 24_000
"""Characters that each list of a prompt may take: some 6,000 tokens of English."""
PASSAGE = 2_000
"""Longer texts are cut into passages of at most so many characters before they are chosen from."""
FINGERPRINT = ("bm25.v1", ITEMS, CHARACTERS, PASSAGE)
"""Part of every judge's fingerprint: another budget shows a judge other texts."""

_LINE = 8
"""What a number, quotes and the line's end take."""
_K, _B = 1.2, 0.75


def batches(texts: Sequence[str]) -> list[slice]:
    """Neighbours that fit one request by number and by characters. Each has at least one."""
    found, start, size = [], 0, 0
    for at, text in enumerate(texts):
        cost = min(len(text), CHARACTERS) + _LINE
        if at > start and (at - start == ITEMS or size + cost > CHARACTERS):
            found.append(slice(start, at))
            start, size = at, 0
        size += cost
    return [*found, slice(start, len(texts))]


def shortened(text: str) -> str:
    """A text that alone is too long, without its end, which it says."""
    over = len(text) - CHARACTERS
    return text if over <= 0 else f"{text[:CHARACTERS]} […{over} more characters]"


def nearest(texts: Sequence[str], wanted: Sequence[str], budget: int = CHARACTERS) -> Sequence[str]:
    """All texts if they fit, else those passages of them that are most alike to what is wanted, in order."""
    if _cost(texts) <= budget:
        return texts
    pieces = [piece for text in texts for piece in _passages(text)]
    kept, left = [], budget
    for at in _ranked(pieces, wanted):
        cost = len(pieces[at]) + _LINE
        if cost <= left:
            kept.append(at)
            left -= cost
        if left <= _LINE:
            break
    return [pieces[at] for at in sorted(kept)]


def _cost(texts: Sequence[str]) -> int:
    return sum(map(len, texts)) + _LINE * len(texts)


def _passages(text: str) -> Iterator[str]:
    """Cut at a line's end or a space in the second half of what fits, else where the limit is."""
    while len(text) > PASSAGE:
        place = max(text.rfind(mark, PASSAGE // 2, PASSAGE) for mark in ("\n", " ")) + 1 or PASSAGE
        yield text[:place]
        text = text[place:]
    yield text


def _ranked(pieces: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Places by likeness: first the best for each thing that is wanted, then the second best, and so on."""
    bags = [_words(piece) for piece in pieces]
    best = [len(pieces)] * len(pieces)
    for one in wanted:
        scores = _scores(bags, _words(one))
        alike = [at for at, score in enumerate(scores) if score]
        for rank, at in enumerate(sorted(alike, key=lambda at: (-scores[at], at))):
            best[at] = min(best[at], rank)
    return sorted(range(len(pieces)), key=lambda at: (best[at], at))


def _scores(bags: list[frozenset[str]], wanted: frozenset[str]) -> list[float]:
    """Okapi BM25, with each word counted once."""
    shared = [wanted & bag for bag in bags]
    holding = dict.fromkeys(wanted, 0)
    for words in shared:
        for word in words:
            holding[word] += 1
    weight = {word: math.log(1 + (len(bags) - n + 0.5) / (n + 0.5)) for word, n in holding.items()}
    mean = sum(map(len, bags)) / len(bags) or 1.0
    return [
        sum(weight[word] for word in sorted(words)) * (_K + 1) / (1 + _K * (1 - _B + _B * len(bag) / mean))
        for words, bag in zip(shared, bags, strict=True)
    ]


@lru_cache(1 << 13)
def _words(text: str) -> frozenset[str]:
    """Kept, since each point of a session is looked for in the same memories."""
    return frozenset(tokens(text))
