"""English words: which say nothing, and which are forms of the same word.

A stem is a key and no word. Other languages in Latin letters pass through the same rules, a question and a
message alike, so that equal words stay equal.
"""

from __future__ import annotations

import re

_SAY_NOTHING = """
a an and are as at be but by did didn do does doesn don for from had has have he her him his how i if in
is isn it its me my of on or our s she so that the their them they this to was we were what when where which
who why will with would you your
"""
STOP_WORDS = frozenset(_SAY_NOTHING.split())
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
_IRREGULAR = {form: word for word, *forms in map(str.split, _FORMS.split(",")) for form in forms}
_ENDING = re.compile(r"(?<=...)(?:ingly|edly|ing|ed|(?<=....)ly)$")
_VOWEL = re.compile("[aeiouy]")


def stem(word: str) -> str:
    """The key of a lower-case word: without plural, tense and adverb, irregular forms as their first one."""
    short = _without_ending(_singular(_IRREGULAR.get(word, word)))
    if len(short) > 3 and short[-1] == "e":
        short = short[:-1]
    return short[:-1] + "i" if len(short) > 3 and short[-1] == "y" else short


def _singular(word: str) -> str:
    if len(word) > 4 and word.endswith("ies"):
        return word[:-3] + "y"
    return word[:-1] if len(word) > 3 and word[-1] == "s" and not word.endswith(("ss", "us", "is")) else word


def _without_ending(word: str) -> str:
    """An ending falls only if a syllable is left; of a doubled letter one is left, but not of l and s."""
    found = _ENDING.search(word)
    if not found or not _VOWEL.search(word, 0, found.start()):
        return word
    left = word[: found.start()]
    return left[:-1] if len(left) > 3 and left[-1] == left[-2] and left[-1] not in "aeiouls" else left
