"""Words of a text in the form that is compared, and phrases with a meaning: yes, no, not known.

A text goes through three steps: `fold` removes accents and contractions, `numbers.in_digits` turns number words
into digits, and `words_of` stems the words and replaces members of a word family by its first word. Chinese is
compared by character.
"""

from __future__ import annotations

import re
import unicodedata
from functools import cache

from assay.scoring.offline.numbers import without_ordinals
from assay.scoring.text_overlap import tokens

# Similar words share at least this many first letters.
COMMON_PREFIX = 5

# Words that carry grammar rather than content. They weigh a fifth of other words.
_FUNCTION_WORDS = """
a about above after all also although am an and any are around as at be because been before being both
but by can could did do does doing done during each etc for from had has have having he her hers herself
him himself his how i if in into is it its itself just like likely may me might more most much my of off
on onto or other our out over own s she should since so some someone something somewhat such than that
the their theirs them themselves then there these they thing things this those though through to too
toward under up upon us very via was we were what when where which while who whom whose why will with
within would yes you your probably go going t
"""
_CHINESE_FUNCTION_WORDS = "的了是在和与他她它们我你也都就把被对从到有这那个着过吗呢吧啊"

# Families of everyday English words that count as the same word, such as `mom` and `mother`.
_FAMILIES = """
mother mom mum mama mommy, father dad papa daddy, child kid, grandmother grandma granny, grandfather
grandpa, photo picture image photograph pic, movie film, job career profession occupation, buy purchase
bought, big large huge, small tiny, happy glad joyful pleased delighted joy happiness, sad unhappy,
scared afraid frightened fearful, grateful thankful gratitude appreciative, important crucial essential
vital, amazing awesome incredible wonderful fantastic great, beautiful gorgeous, start begin began begun
commence, finish complete, help assist aid support, create make made, house home, car vehicle automobile,
dog puppy pup, cat kitten kitty, trip journey, vacation holiday, store shop, gift present, tired
exhausted, fast quick rapid, smart intelligent clever, ill sick, buddy friend pal, coworker colleague,
speak talk spoke spoken, repair fix, choose select pick chose chosen, near close nearby, ocean sea,
forest woods, bike bicycle cycling biking, tv television, phone telephone cellphone, teach instruct
taught, calm peaceful relaxed tranquil soothing unwind, excited thrilled, hard difficult tough
challenging, easy simple, annual yearly, author writer, lawyer attorney, sofa couch, trash garbage, baby
infant newborn, go went gone, give gave given, get got gotten receive received, run ran, see saw seen,
meet met, write wrote written, eat ate eaten, think thought, feel felt, bring brought, become became, win
won, lose lost, leave left, tell told, know knew known, grow grew grown, draw drew drawn, drive drove
driven, ride rode ridden, swim swam swum, sing sang sung, fall fell fallen, break broke broken, hear
heard, hold held, keep kept, sleep slept, spend spent, send sent, build built, sell sold, wear wore worn,
fly flew flown, catch caught, pay paid, man men, woman women, person people, foot feet, tooth teeth, wife
wives, life lives, take took taken, food meal, doctor physician, money cash, workout exercise, courage
bravery brave courageous, honest truthful, funny humorous, hobby pastime, area region, stop quit, clothes
clothing apparel, motivate inspire encourage motivation inspiration encouragement, goal aim objective,
idea concept, opportunity chance, collaborate cooperate, organize arrange, discover found find, anxious
nervous worried, relief relieved, proud pride
"""

_CONTRACTION = re.compile(r"['’](?:s|m|re|ve|ll|d)\b", re.IGNORECASE)
_CONTRACTED_NOT = re.compile(r"n['’]t\b", re.IGNORECASE)
_INITIALS = re.compile(r"\b(?:\w\.){2,}")
_ACCENTS = re.compile("[\u0300-\u036f]")
# Punctuation outside numbers, and the boundary between letters and digits.
_SEPARATOR = re.compile(r"[^\w\s.,%$]|_|(?<!\d)[.,]|[.,](?!\d)|(?<=[a-z])(?=\d)|(?<=\d)(?=[a-z])")


def fold(text: str) -> str:
    """Return the text without accents and contractions, in one Unicode normal form."""
    text = unicodedata.normalize("NFKC", text)
    if not text.isascii():
        text = unicodedata.normalize("NFC", _ACCENTS.sub("", unicodedata.normalize("NFKD", text)))
    text = _CONTRACTION.sub("", _CONTRACTED_NOT.sub(" not", text))
    return _INITIALS.sub(lambda match: match.group().replace(".", ""), text)


def words_of(text: str) -> tuple[str, ...]:
    """Return the words in order, with repetitions. Expects the result of `fold` and `numbers.in_digits`."""
    families = family_heads()
    stems = tokens(_SEPARATOR.sub(" ", without_ordinals(text.lower())))
    return tuple(families.get(stem, stem) for stem in stems)


@cache
def function_words() -> frozenset[str]:
    """Return the words that carry grammar rather than content."""
    return frozenset(words_of(_FUNCTION_WORDS)) | frozenset(_CHINESE_FUNCTION_WORDS)


@cache
def family_heads() -> dict[str, str]:
    """Map the stem of each member of a word family to the stem of its first word. No stem is in two families."""
    heads: dict[str, str] = {}
    for family in _FAMILIES.split(","):
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
_LOOSELY_MENTIONED = (
    f"{_MENTIONED}|state|indicate|record|found|clear|given|details?|detailed|memor(?:y|ies)|explicitly|"
    "specifically"
)
_UNKNOWN = re.compile(
    rf"\b(?:not|never|no|nor)\s+(?:\w+\s+){{0,3}}?(?:{_MENTIONED})\b|\bun(?:known|clear|specified|certain)\b"
    r"|\b(?:no|without) (?:record|evidence|details?|answer|idea)\b"
    r"|\b(?:do|ca|can|could|am|is|was)\s?not (?:be )?(?:able to )?"
    r"(?:known?|determined?|inferred|recall|remember|tell|answer(?:ed)?|say|sure|find)\b"
    r"|\bunable to (?:know|determine|recall|remember|tell|answer|say|find)\b|^\W*(?:n/?a|no answer)\W*$"
    r"|不知道|不清楚|不确定|不明确|不详|未知|无法(?:得知|确定|回答|判断|知道|推断)"
    r"|(?:没有|未|没|并未)(?:被)?(?:提到|提及|说明|相关|明确|记录|透露)",
    re.IGNORECASE,
)
_PARTLY_UNKNOWN = re.compile(
    rf"\b(?:not|never|no|nor)\b[^.;]{{0,40}}?\b(?:{_LOOSELY_MENTIONED})\b", re.IGNORECASE
)
_YES_OR_NO = re.compile(
    r"^\W*(?:(?:most |very |quite )?(?:likely|probably|certainly|definitely|perhaps|possibly)\b[\s,]*)?"
    r"(?:(?P<yes>yes|yeah|yep|是的|对的|会的|有的|(?:是|对|会|有|能|可以)(?=\W*$))|(?P<no>no|nope|not|不是|不会|没有|否|不))(?:\b|(?<=[^\x00-\x7f]))",
    re.IGNORECASE,
)
_NEGATION = re.compile(r"\b(?:not|never|unlikely|neither|nor|cannot|no)\b|不|没|未|无", re.IGNORECASE)
_DENIAL = re.compile(
    r"\b(?:not|never|no longer|cannot|stopped|quit)\b\s+(\w+(?:\s+\w+)?)"
    r"|(?:不再|不|没有|没|未)([\u3400-\u9fff]{1,2})",
    re.IGNORECASE,
)
# Most words of a reference that means "not known". A longer one also states something.
_SHORT_REFERENCE = 12


def abstains(text: str) -> bool:
    """Return whether the text says that something is not known."""
    return bool(_UNKNOWN.search(text))


def hedges(text: str) -> bool:
    """Return whether the text says of some part that it is not known: `no exact date was given`."""
    return abstains(text) or bool(_PARTLY_UNKNOWN.search(text))


def is_unanswerable(reference: str, word_count: int) -> bool:
    """Return whether a reference means "not known": it is empty, or it is short and says so."""
    return not word_count or (word_count <= _SHORT_REFERENCE and abstains(reference))


def yes_or_no(text: str) -> bool | None:
    """Return True if the text begins with a yes, False if it begins with a no, else None."""
    match = _YES_OR_NO.match(text)
    return None if match is None else match["yes"] is not None


def denied_words(text: str) -> frozenset[str]:
    """Return the words directly after a negation, without function words."""
    words = [word for match in _DENIAL.finditer(text) for word in words_of(match[1] or match[2])]
    return frozenset(words) - function_words()


def is_negated(text: str) -> bool:
    """Return whether the first sentence has a negation. Used for answers that do not begin with `no`."""
    return bool(_NEGATION.search(re.split(r"[.;。；]", text, maxsplit=1)[0]))
