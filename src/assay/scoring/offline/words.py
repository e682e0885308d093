"""Words of a text in the form that is compared, and phrases with a meaning: yes, no, not known.

A text goes through three steps: `fold` removes accents and contractions, `numbers.in_digits` turns number words
into digits, and `words_of` stems the words and replaces members of a word family by its first word. Chinese is
compared by character. `plain_text` does the first two steps.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache, lru_cache
from pathlib import Path

from assay.scoring.offline.numbers import in_digits
from assay.scoring.text_overlap import tokens

# Similar words share at least this many first letters.
COMMON_PREFIX = 5

# Lists of words are text files beside this one.
WORD_LISTS = Path(__file__).parent

_CONTRACTION = re.compile(r"['’](?:s|m|re|ve|ll|d)\b", re.IGNORECASE)
_CONTRACTED_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
_INITIALS = re.compile(r"\b(?:\w\.){2,}")
# Initials contain this. It begins with a fixed character, so a search for it is much faster.
_INITIALS_HINT = re.compile(r"\.\w\.")
# `7th` is the same word as `7`.
_ORDINAL_ENDING = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b")
_ACCENTS = re.compile("[\u0300-\u036f]")
# Punctuation outside numbers, and the boundary between letters and digits.
_SEPARATOR = re.compile(r"[^\w\s.,%$]|_|(?<!\d)[.,]|[.,](?!\d)|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])")


# Longer pieces of text without a space are Chinese or no words. They are not cached, so the cache stays small.
_LONGEST_CACHED = 40


def fold(text: str) -> str:
    """Return the text without accents and contractions, in one Unicode normal form."""
    if not text.isascii():
        text = unicodedata.normalize("NFKC", text)
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    if "'" in text or "’" in text:
        text = _CONTRACTION.sub("", _CONTRACTED_NOT.sub(" not", text))
    if _INITIALS_HINT.search(text):
        text = _INITIALS.sub(lambda match: match.group().replace(".", ""), text)
    return text


@lru_cache(1 << 13)
def plain_text(text: str) -> str:
    """Return a memory or a point folded, with number words as digits. Cached, because several rules read each text."""
    return in_digits(fold(text))


def words_of(text: str) -> tuple[str, ...]:
    """Return the words in order, with repetitions. Expects the result of `fold` and `numbers.in_digits`.

    The text is split at spaces first: no rule about words looks across a space, and most pieces are in the cache.
    """
    words: list[str] = []
    for piece in text.lower().split():
        words += _cached_words(piece) if len(piece) <= _LONGEST_CACHED else _split_words(piece)
    return tuple(words)


@lru_cache(1 << 13)
def word_set(text: str) -> frozenset[str]:
    """Return the different words of a plain text. Cached, because several rules read each text."""
    return frozenset(words_of(text))


def _split_words(piece: str) -> tuple[str, ...]:
    families = family_heads()
    stems = tokens(_SEPARATOR.sub(" ", _ORDINAL_ENDING.sub("", piece)))
    return tuple([families.get(stem, stem) for stem in stems])


_cached_words = lru_cache(1 << 14)(_split_words)


@cache
def function_words() -> frozenset[str]:
    """Return the words that carry grammar rather than content."""
    return frozenset(words_of((WORD_LISTS / "function_words.txt").read_text(encoding="utf-8")))


@cache
def common_words() -> frozenset[str]:
    """Return the words that any answer may contain. None of them carries grammar."""
    return frozenset(words_of((WORD_LISTS / "common_words.txt").read_text(encoding="utf-8"))) - function_words()


@cache
def family_heads() -> dict[str, str]:
    """Map the stem of each member of a word family to the stem of its first word. No stem is in two families.

    `families.txt` has one family a line: everyday English words that count as the same word, as `mother mom`.
    """
    heads: dict[str, str] = {}
    for family in (WORD_LISTS / "families.txt").read_text(encoding="utf-8").splitlines():
        (head, *others) = [stem for word in family.split() for stem in tokens(word)]
        for stem in others:
            heads[stem] = head
    return heads


def are_similar(word: str, other: str) -> bool:
    """Return whether two words begin alike, such as `motivation` and `motivating`. Short words never do."""
    if len(word) < COMMON_PREFIX or not word.isalpha() or abs(len(other) - len(word)) > 3:
        return False
    return other.startswith(word[: max(COMMON_PREFIX, len(word) - 2)])


_MENTIONED = (
    "mention(?:ed|s)?|specif(?:y|ied|ic)|stated|provided?|known|available|information|indicat(?:ed|ion)|disclosed|"
    "recorded|determined|inferred|discussed|referenced"
)
_UNKNOWN = re.compile(
    rf"\b(?:not|never|no|nor)\s+(?:\w+\s+){{0,3}}?(?:{_MENTIONED})\b|\bun(?:known|clear|specified|certain)\b"
    r"|\b(?:no|without) (?:record|evidence|details?|answer|idea)\b|\bnot (?:enough|sufficient)\b|\binsufficient\b"
    r"|\bnothing (?:is |was )?(?:about|known|said|mentioned)\b|没有[^。，；]{0,6}(?:信息|内容|资料)"
    r"|\b(?:do|ca|can|could|am|is|was)\s?not (?:be )?(?:able to )?"
    r"(?:known?|determined?|inferred|recall|remember|tell|answer(?:ed)?|say|sure|find)\b"
    r"|\bunable to (?:know|determine|recall|remember|tell|answer|say|find)\b|^\W*(?:n/?a|no answer)\W*$"
    r"|不知道|不清楚|不确定|不明确|不详|未知|无法(?:得知|确定|回答|判断|知道|推断)"
    r"|(?:没有|未|没|并未)(?:被)?(?:提到|提及|说明|相关|明确|记录|透露)",
    re.IGNORECASE,
)
_PARTLY_UNKNOWN = re.compile(
    rf"\b(?:not|never|no|nor)\b[^.;]{{0,40}}?\b(?:{_MENTIONED}|state|indicate|record|found|clear|given|details?|"
    r"detailed|memor(?:y|ies)|explicitly|specifically)\b",
    re.IGNORECASE,
)
_VAGUE = re.compile(
    r"\bsome(?:thing|one|where|time|how|body)?\b|\b(?:various|certain|related to|a (?:variety|number|range) of)\b"
    r"|某|各种|一些",
    re.IGNORECASE,
)
_YES_OR_NO = re.compile(
    r"^\W*(?:(?:most |very |quite )?(?:likely|probably|certainly|definitely|perhaps|possibly)\b[\s,]*)?"
    r"(?:(?P<yes>yes|yeah|yep|是的|对的|会的|有的|(?:是|对|会|有|能|可以)(?=\W*$))|(?P<no>no|nope|not|不是|不会|没有|否|不))(?:\b|(?<=[^\x00-\x7f]))",
    re.IGNORECASE,
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s|(?<=[。！？])")
_NEGATION = re.compile(r"\b(?:not|never|unlikely|neither|nor|cannot|no)\b|不|没|未|无", re.IGNORECASE)
_DENIAL = re.compile(
    r"\b(?:not|never|no longer|cannot|stopped|quit)\b\s+[\"'“]?"
    r"(?:(?:in|on|at|the|a|an|by|under|for|with|to|be)\s+){0,2}(\w+(?:\s+\w+)?)|(?:不再|不是|不|没有|没|未)(\d+|[\u3400-\u9fff]{1,4})",
    re.IGNORECASE,
)
# A denial of `only` or `always` says nothing about the words after it.
_DENIAL_OF_WORDS = (
    r"\b(?:not|never|no longer|cannot)\b"
    r"(?! (?:only|just|merely|simply|always|all|every|necessarily|sure|yet|until)\b)"
)
# A statement that denies the words directly after it.
_REFUSAL = re.compile(
    rf"{_DENIAL_OF_WORDS}\s+"
    r"(?:(?:in|on|at|the|a|an|by|under|for|with|to|be|really|very|like)\s+){0,2}(\w+(?:\s+\w+)?)"
    r"|(?:不再|不是|不(?![错同过仅但久少断管论如光只止])|没有|没|未)(\d+|[\u3400-\u9fff]{1,4})",
    re.IGNORECASE,
)
# The rest of a clause after a negation.
_DENIED_CLAUSE = re.compile(
    rf"{_DENIAL_OF_WORDS}((?:\s+[\w$%-]+){{1,6}})",
    re.IGNORECASE,
)
_CLAUSE_END = re.compile(
    r"\b(?:but|because|since|so|and|or|instead|until|till|unless|when|while|if|except|than|before|after|although"
    r"|though)\b",
    re.IGNORECASE,
)
_NEGATIVE = re.compile(
    r"\b(?:no|not|none|nothing|nobody|nor|neither|never|cannot|without|hardly|rarely|barely|little|few|less|than"
    r"|instead|except|former|formerly|used to|gave up|give up|given up|away from|rid of|far from|against|opposite"
    r"|off)\b|\b(?:avoid|dislike|hate|refus|declin|reject|stop|quit|ceas|end|lack|fail|skip|miss|forg[eo]t|lost|los[ei]|oppos"
    r"|den[iy]|un[a-z]{4}|non-)"
    r"|不|没|未|无|别|拒",
    re.IGNORECASE,
)
_RESTRICTION = re.compile(
    r"^\W*just\b|\b(?:only|except|hardly|rarely|barely|whereas|unlike)\b|只|除了|仅", re.IGNORECASE
)


# Most texts have none of the words above. A search for the beginnings of these words in lower case shows it at a tenth
# of the cost, because it need not look for the bounds of words. It is valid for ASCII only: a pattern that ignores case
# also matches letters such as the Turkish i without a dot.
_UNKNOWN_HINT = re.compile("no|never|un|without|n/?a")
_VAGUE_HINT = re.compile("some|various|certain|related|a (?:variety|number|range)")
_NEGATION_HINT = re.compile("no|ne|un|stopped|quit")
_FIRST_SENTENCE_END = re.compile(r"[.;。；]")


def _lacks(hint: re.Pattern[str], text: str) -> bool:
    return text.isascii() and not hint.search(text.lower())


def abstains(text: str) -> bool:
    """Return whether the text says that something is not known."""
    return not _lacks(_UNKNOWN_HINT, text) and bool(_UNKNOWN.search(text))


def hedges(text: str) -> bool:
    """Return whether the text says of some part that it is not known: `no exact date was given`."""
    return not _lacks(_UNKNOWN_HINT, text) and bool(_UNKNOWN.search(text) or _PARTLY_UNKNOWN.search(text))


def is_vague(text: str) -> bool:
    """Return whether the text has a word such as `something` in place of an answer."""
    return not _lacks(_VAGUE_HINT, text) and bool(_VAGUE.search(text))


def yes_or_no(text: str) -> bool | None:
    """Return True if a sentence begins with a yes, False if one begins with a no, else None. The first counts."""
    matches = map(_YES_OR_NO.match, _SENTENCE_END.split(text))
    match = next(filter(None, matches), None)
    return None if match is None else match["yes"] is not None


def denied_words(text: str) -> frozenset[str]:
    """Return the words directly after a negation, without function words."""
    if _lacks(_NEGATION_HINT, text):
        return frozenset()
    words = [word for match in _DENIAL.finditer(text) for word in words_of(match[1] or match[2])]
    return frozenset(words) - function_words()


def refused_words(text: str) -> list[frozenset[str]]:
    """Return the words directly after each `not` or `never`, without function words. `not only` denies nothing."""
    if _lacks(_NEGATION_HINT, text):
        return []
    groups = (words_of(match[1] or match[2]) for match in _REFUSAL.finditer(text))
    return [words for group in groups if (words := frozenset(group) - function_words())]


def denied_clauses(text: str) -> list[frozenset[str]]:
    """Return the words of each clause that follow its negation."""
    if _lacks(_NEGATION_HINT, text):
        return []
    clauses = (_CLAUSE_END.split(match[1], maxsplit=1)[0] for match in _DENIED_CLAUSE.finditer(text))
    return [frozenset(words_of(clause)) for clause in clauses]


def is_negative(text: str) -> bool:
    """Return whether the text has a negation anywhere, or a word that denies something: `avoids`, `without`."""
    return bool(_NEGATIVE.search(text))


def is_restricted(text: str) -> bool:
    """Return whether the text says that something holds only in part, as `Only Ana came` does."""
    return bool(_RESTRICTION.search(text))


@cache
def opposites() -> dict[str, frozenset[str]]:
    """Map a word to its opposites. `opposites.txt` has one pair of words a line, in their basic form."""
    pairs = (WORD_LISTS / "opposites.txt").read_text(encoding="utf-8").splitlines()
    found: dict[str, set[str]] = {}
    for pair in pairs:
        one, other = words_of(pair)
        found.setdefault(one, set()).add(other)
        found.setdefault(other, set()).add(one)
    return {word: frozenset(others) for word, others in found.items()}


def is_negated(text: str) -> bool:
    """Return whether the first sentence has a negation. Used for answers that do not begin with `no`."""
    if _lacks(_NEGATION_HINT, text):
        return False
    return bool(_NEGATION.search(_FIRST_SENTENCE_END.split(text, maxsplit=1)[0]))
