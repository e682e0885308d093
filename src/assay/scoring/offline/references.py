"""Reads references that are more than one answer: alternatives, rubrics, and notes that nothing is known.

    alternatives_in("17 days. 18 days is also acceptable.")  # ["17 days.", "18 days", the whole reference]

The forms are those of published data sets.
"""

from __future__ import annotations

import re

from assay.scoring.offline.words import abstains, words_of

_SENTENCE_END = re.compile(r"(?<=[.!?;])\s+|(?<=[。！？；])")
# `0. You mentioned none.` is one sentence: the first full stop ends no words.
_FIRST_SENTENCE_END = re.compile(r"(?<=[^\d\s][.!?;])\s|(?<=[。！？；])")
_IN_BRACKETS = re.compile(r"\s*\([^()]*\)")
_FINE = r"(?:acceptable|accepted|an? (?:acceptable|correct|valid|right|possible) answer)"
# `18 days is also acceptable.`, `Answers from 7 to 10 days are acceptable, too.`, `Oslo is also a right answer.`
_ALSO_FINE = re.compile(
    rf"(?P<answer>.+?)\s+(?:is|are|(?:would|will|can|may) be)\s+(?:also\s+{_FINE}|{_FINE},?\s+(?:too|as well))\W*",
    re.IGNORECASE,
)
# `Also acceptable: 18 days.`, `also accept 18 days`
_ALSO_ACCEPT = re.compile(rf"also\s+(?:{_FINE}|accept)\s*[:,-]?\s+(?P<answer>.+?)\W*", re.IGNORECASE)
_ANSWERS = re.compile(r"(?:an\s+|the\s+)?(?:answers?|responses?)\s+(?:of|such as|like|that say)?\s*", re.IGNORECASE)
_RANGE = re.compile(
    r"(?:ranging\s+)?(?:from|between)\s+(?P<first>\d{1,4})(?P<unit>\s+\w+)?\s+(?:to|and)\s+"
    r"(?P<last>\d{1,4})(?P<last_unit>\s+\w+)?",
    re.IGNORECASE,
)
_WIDEST_RANGE = 100
# Number of characters that are read. Longer references are no alternatives.
_MOST_CHARACTERS = 2_000
# A rubric says what a good answer is like: `The user would prefer suggestions that …`. It does not contain the answer.
# For texts in lower case.
_RUBRIC = re.compile(
    r"\buser (?:would|might|may|will)(?: not)?(?: also)? (?:prefer|appreciate|expect|like|want) (?:\w+[\s-]){0,4}?"
    r"(?:(?:response|answer|suggestion|recommendation|idea|tip)s?|advice)\b"
    r"|^\W*(?:an? |the |any )?(?:good |ideal |right )?(?:response|answer|reply|assistant) "
    r"(?:should|must|needs? to)(?! be\b)"
)
# Most words of a sentence that means "not known". A longer one also states something, unless it begins with it.
_MOST_UNKNOWN_WORDS = 12
# How a long sentence begins that says nothing but that the answer is not known.
_BEGINS_UNKNOWN = re.compile(
    r"(?:(?:based on|according to|from|in)\s[^,.]{1,60},\s*)?"
    r"(?:there (?:is|was|are|were) (?:no|not)\b|no (?:mention|information|record)\b"
    r"|(?:you|i|we|it|the \w+(?: \w+)?) (?:did|do|does|has|have|is|was) not (?:\w+ ){0,2}?"
    r"(?:mention|provide|contain|state|specif|include|say|give|enough|known))",
    re.IGNORECASE,
)


def alternatives_in(reference: str) -> list[str]:
    """Return the answers of which each is right: the parts of the reference that name one, and the reference itself."""
    lower = reference.lower()
    if len(reference) > _MOST_CHARACTERS or ("accept" not in lower and "answer" not in lower):
        return [reference]
    answers, others = [], []
    for sentence in _SENTENCE_END.split(reference):
        plain = _IN_BRACKETS.sub("", sentence).strip()
        match = _ALSO_FINE.fullmatch(plain) or _ALSO_ACCEPT.fullmatch(plain)
        if match:
            others += _answers_in(match["answer"])
        else:
            answers.append(sentence)
    if not others:
        return [reference]
    return [each for each in (" ".join(answers), *others, reference) if each.strip()]


def _answers_in(text: str) -> list[str]:
    """Return the answers that a text names. `from 7 days to 10 days` are four."""
    text = _ANSWERS.sub("", text, count=1) if _ANSWERS.match(text) else text
    if match := _RANGE.fullmatch(text):
        first, last = int(match["first"]), int(match["last"])
        if 0 <= last - first <= _WIDEST_RANGE:
            unit = match["last_unit"] or match["unit"] or ""
            return [f"{number}{unit}" for number in range(first, last + 1)]
    return [text]


def is_rubric(reference: str) -> bool:
    """Return whether the reference describes a good answer instead of giving it."""
    lower = reference[:_MOST_CHARACTERS].lower()
    # Most references have none of these words. A pattern takes ten times as long to find out.
    if not any(word in lower for word in ("user", "should", "must", "need")):
        return False
    return bool(_RUBRIC.search(lower))


def is_unknown(reference: str) -> bool:
    """Return whether a folded reference says that the answer is not known. Its first sentence decides.

    The other sentences say what is known instead: `You did not mention this. You mentioned a cat, but no hamster.`
    """
    if not abstains(reference):
        return False
    first = _FIRST_SENTENCE_END.split(reference[:_MOST_CHARACTERS].strip(), maxsplit=1)[0]
    if not abstains(first):
        return False
    return len(words_of(first)) <= _MOST_UNKNOWN_WORDS or bool(_BEGINS_UNKNOWN.match(first))
