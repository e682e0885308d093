"""What a text is looked up by: stems of words, and characters and their pairs where no spaces are written."""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

from assay.memories.index.english import STOP_WORDS, stem
from assay.memories.listing.words import WITHOUT_SPACES

# Vowel signs and points of Hebrew, Arabic and the Indic scripts belong to words, though they are no letters.
_SIGNS = "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(rf"[\w{_SIGNS}{WITHOUT_SPACES}]+")
_PLAIN = re.compile(r"[a-z0-9]+")
"""The words of a folded text that is ASCII: the same, found sooner."""
_UNSPACED = re.compile(f"([{WITHOUT_SPACES}]+)")
_ACCENTS = re.compile("[\u0300-\u036f]")
_TAIL = re.compile(r"(?<=\w)'(?:s|m|re|ve|ll|d|t)\b")


def terms(text: str) -> list[str]:
    """In order, with repetitions; empty where a text has no word or only words that say nothing."""
    folded = _folded(text)
    if folded.isascii():
        return [term for word in _PLAIN.findall(folded) if (term := _term(word))]
    found: list[str] = []
    for word in _WORD.findall(folded):
        if word.isascii():
            found.append(_term(word))
        else:
            found += _pieces(word)
    return [term for term in found if term]


def _folded(text: str) -> str:
    """Lower case, without accents and the tails of contractions; equal for all ways to write a character."""
    if text.isascii():
        folded = text.lower()
    else:
        plain = unicodedata.normalize("NFKD", text.casefold().replace("\u2019", "'"))
        folded = unicodedata.normalize("NFC", _ACCENTS.sub("", plain)).casefold()
    return (_TAIL.sub("", folded) if "'" in folded else folded).replace("_", " ")


@lru_cache(maxsize=1 << 16)
def _term(word: str) -> str:
    return "" if word in STOP_WORDS else stem(word)


def _pieces(word: str) -> list[str]:
    """Every second part is of a script without spaces: its characters, for short questions, and its pairs."""
    found: list[str] = []
    for place, part in enumerate(_UNSPACED.split(word)):
        if place % 2:
            found += part
            found += map("".join, pairwise(part))
        else:
            found.append(_term(part))
    return found
