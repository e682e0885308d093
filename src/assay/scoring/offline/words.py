"""The words of a text that are compared: folded, stemmed, number words as digits, Chinese by character."""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from assay.scoring.offline.families import heads
from assay.scoring.offline.numbers import without_ranks
from assay.scoring.text_overlap import tokens

_LITTLE = """
a about above after all also although am an and any are around as at be because been before being both
but by can could did do does doing done during each etc for from had has have having he her hers herself
him himself his how i if in into is it its itself just like likely may me might more most much my of off
on onto or other our out over own s she should since so some someone something somewhat such than that
the their theirs them themselves then there these they thing things this those though through to too
toward under up upon us very via was we were what when where which while who whom whose why will with
within would yes you your probably go going t
"""
_CHINESE_LITTLE = "的了是在和与他她它们我你也都就把被对从到有这那个着过吗呢吧啊"
_TAIL = re.compile(r"['’](?:s|m|re|ve|ll|d)\b", re.IGNORECASE)
_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
_INITIALS = re.compile(r"\b(?:\w\.){2,}")
_ACCENTS = re.compile("[\u0300-\u036f]")
_APART = re.compile(r"[^\w\s.,%$]|_|(?<!\d)[.,]|[.,](?!\d)|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])")
BEGINNING = 5
"""Letters that words which are alike have in common at least."""


def folded(text: str) -> str:
    """Without accents and the tails of contractions; equal for all ways to write a character."""
    text = unicodedata.normalize("NFKC", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    text = _TAIL.sub("", _NOT.sub(" not", text))
    return _INITIALS.sub(lambda found: found.group().replace(".", ""), text)


def words_of(text: str) -> tuple[str, ...]:
    """In order, with repetitions; members of a family as its first word. `text` has its numbers in digits."""
    family = heads()
    stems = tokens(_APART.sub(" ", without_ranks(text.lower())))
    return tuple(family.get(stem, stem) for stem in stems)


@cache
def little() -> frozenset[str]:
    """Words that carry grammar rather than content."""
    return frozenset(words_of(_LITTLE)) | frozenset(_CHINESE_LITTLE)


def alike(word: str, other: str) -> bool:
    """Whether they begin the same: `motivation` and `motivating`. Short words never are alike."""
    if len(word) < BEGINNING or not word.isalpha() or abs(len(other) - len(word)) > 3:
        return False
    return other.startswith(word[: max(BEGINNING, len(word) - 2)])
