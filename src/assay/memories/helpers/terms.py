"""Search terms of a text: stems of words, and for scripts without spaces single characters and pairs of them.

    terms("Ann's children went hiking")     # ["ann", "child", "go", "hik"]

A stem is a key for the search and need not be a word. Words of other languages go through the same English
rules. This does no harm, because the same word gets the same stem in the question and in the message.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache
from itertools import pairwise

# Thai and Lao, Myanmar, Khmer, kana, Han, Hangul: ranges for a class of a regular expression.
WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
# Vowel signs and points of Hebrew, Arabic and the Indic scripts. They are part of words, but `\w` lacks them.
_SIGNS = "\u0591-\u05c7\u0610-\u061a\u064b-\u065f\u0670\u0900-\u0963\u0966-\u0dff"
_WORD = re.compile(rf"[\w{_SIGNS}{WITHOUT_SPACES}]+")
# The words of a normalized ASCII text. Gives the same result as _WORD in less time.
_ASCII_WORD = re.compile(r"[a-z0-9]+")
_UNSPACED = re.compile(f"([{WITHOUT_SPACES}]+)")
_ACCENTS = re.compile("[\u0300-\u036f]")
_CONTRACTION = re.compile(r"(?<=\w)'(?:s|m|re|ve|ll|d|t)\b")

# Words without meaning for a search, and the first halves of contractions such as didn't, which end up alone.
_STOP_WORD_LINES = """
a an and are as at be but by did didn do does doesn don for from had has have he her him his how i if in
is isn it its me my of on or our s she so that the their them they this to was we were what when where which
who why will with would you your
"""
STOP_WORDS = frozenset(_STOP_WORD_LINES.split())
# Irregular forms. Each group begins with its base form.
_FORMS = """
go goes going went gone, buy bought, run ran, get got gotten, make made, take took taken, see saw seen,
give gave given, find found, meet met, write wrote written, eat ate eaten, drink drank drunk, think thought,
feel felt, teach taught, bring brought, begin began begun, come came, become became, win won, lose lost,
leave left, tell told, speak spoke spoken, say said, know knew known, grow grew grown, draw drew drawn,
drive drove driven, ride rode ridden, swim swam swum, sing sang sung, fall fell fallen, break broke broken,
choose chose chosen, hear heard, hold held, keep kept, sleep slept, spend spent, send sent, build built,
sell sold, sit sat, stand stood, understand understood, wear wore worn, fly flew flown, catch caught,
fight fought, lead led, forget forgot forgotten, throw threw thrown, wake woke woken, shoot shot,
steal stole stolen, bite bit bitten, hide hid hidden, pay paid, mean meant, child children, man men,
woman women, person people, foot feet, tooth teeth, mouse mice, wife wives, life lives, knife knives,
leaf leaves
"""
_IRREGULAR = {form: base for base, *forms in map(str.split, _FORMS.split(",")) for form in forms}
_SUFFIX = re.compile(r"(?<=...)(?:ingly|edly|ing|ed|(?<=....)ly)$")
_VOWEL = re.compile("[aeiouy]")


def terms(text: str) -> list[str]:
    """Return the search terms of a text in order, with repetitions and without stop words."""
    normalized = _normalize(text)
    if normalized.isascii():
        return [term for word in _ASCII_WORD.findall(normalized) if (term := _term(word))]
    result: list[str] = []
    for word in _WORD.findall(normalized):
        if word.isascii():
            result.append(_term(word))
        else:
            result += _unspaced_terms(word)
    return [term for term in result if term]


def _normalize(text: str) -> str:
    """Return the text in lower case, without accents and contractions, in one Unicode normal form."""
    if text.isascii():
        folded = text.lower()
    else:
        plain = unicodedata.normalize("NFKD", text.casefold().replace("\u2019", "'"))
        # NFKD can produce capital letters (™ becomes TM), so the case is folded a second time.
        folded = unicodedata.normalize("NFC", _ACCENTS.sub("", plain)).casefold()
    if "'" in folded:
        folded = _CONTRACTION.sub("", folded)
    return folded.replace("_", " ")


@lru_cache(maxsize=1 << 16)
def _term(word: str) -> str:
    return "" if word in STOP_WORDS else stem(word)


def _unspaced_terms(word: str) -> list[str]:
    """Return the terms of a word with parts in a script without spaces.

    The terms of such a part are its single characters, which short questions need, and its pairs of adjacent
    characters.
    """
    result: list[str] = []
    # re.split with one group alternates: every second part matches the group.
    for number, part in enumerate(_UNSPACED.split(word)):
        if number % 2:
            result += part
            result += map("".join, pairwise(part))
        else:
            result.append(_term(part))
    return result


def stem(word: str) -> str:
    """Return the stem of a lower-case English word: without the endings of plural, tense and adverbs."""
    base = _IRREGULAR.get(word, word)
    if len(base) > 4 and base.endswith("ies"):
        base = base[:-3] + "y"
    elif len(base) > 3 and base[-1] == "s" and not base.endswith(("ss", "us", "is")):
        base = base[:-1]
    base = _strip_suffix(base)
    if len(base) > 3 and base[-1] == "e":
        base = base[:-1]
    if len(base) > 3 and base[-1] == "y":
        base = base[:-1] + "i"
    return base


def _strip_suffix(word: str) -> str:
    """Remove -ing, -ed or -ly if a vowel is left. Doubled letters become single ones, except l and s.

    `planned` becomes `plan`, `called` becomes `call`, `sing` stays.
    """
    match = _SUFFIX.search(word)
    if not match or not _VOWEL.search(word, 0, match.start()):
        return word
    rest = word[: match.start()]
    if len(rest) > 3 and rest[-1] == rest[-2] and rest[-1] not in "aeiouls":
        return rest[:-1]
    return rest
