"""Whether a text says yes or no, and whether it says that something is not known."""

from __future__ import annotations

import re

from assay.scoring.offline.words import little, words_of

_TOLD = (
    "mention(?:ed|s)?|specif(?:y|ied|ic)|stated|provided?|known|available|information|indicat(?:ed|ion)|disclosed|"
    "recorded|determined|inferred|discussed|referenced"
)
_LOOSELY = (
    f"{_TOLD}|state|indicate|record|found|clear|given|details?|detailed|memor(?:y|ies)|explicitly|"
    "specifically"
)
_UNKNOWN = re.compile(
    rf"\b(?:not|never|no|nor)\s+(?:\w+\s+){{0,3}}?(?:{_TOLD})\b|\bun(?:known|clear|specified|certain)\b"
    r"|\b(?:no|without) (?:record|evidence|details?|answer|idea)\b"
    r"|\b(?:do|ca|can|could|am|is|was)\s?not (?:be )?(?:able to )?"
    r"(?:known?|determined?|inferred|recall|remember|tell|answer(?:ed)?|say|sure|find)\b"
    r"|\bunable to (?:know|determine|recall|remember|tell|answer|say|find)\b|^\W*(?:n/?a|no answer)\W*$"
    r"|不知道|不清楚|不确定|不明确|不详|未知|无法(?:得知|确定|回答|判断|知道|推断)"
    r"|(?:没有|未|没|并未)(?:被)?(?:提到|提及|说明|相关|明确|记录|透露)",
    re.IGNORECASE,
)
_PARTLY = re.compile(rf"\b(?:not|never|no|nor)\b[^.;]{{0,40}}?\b(?:{_LOOSELY})\b", re.IGNORECASE)
_LEAD = re.compile(
    r"^\W*(?:(?:most |very |quite )?(?:likely|probably|certainly|definitely|perhaps|possibly)\b[\s,]*)?"
    r"(?:(?P<yes>yes|yeah|yep|是的|对的|会的|有的|(?:是|对|会|有|能|可以)(?=\W*$))|(?P<no>no|nope|not|不是|不会|没有|否|不))(?:\b|(?<=[^\x00-\x7f]))",
    re.IGNORECASE,
)
_NEGATED = re.compile(r"\b(?:not|never|unlikely|neither|nor|cannot|no)\b|不|没|未|无", re.IGNORECASE)
_DENIAL = re.compile(
    r"\b(?:not|never|no longer|cannot|stopped|quit)\b\s+(\w+(?:\s+\w+)?)"
    r"|(?:不再|不|没有|没|未)([\u3400-\u9fff]{1,2})",
    re.IGNORECASE,
)
_FEW = 12


def abstains(said: str) -> bool:
    """Whether a text says that something is not known."""
    return bool(_UNKNOWN.search(said))


def hedges(said: str) -> bool:
    """Whether a text says so of a part at least: `no exact date was given`."""
    return abstains(said) or bool(_PARTLY.search(said))


def unknown(said: str, words: int) -> bool:
    """Whether a reference means that nobody can know: it says so in few words, or nothing at all."""
    return not words or (words <= _FEW and abstains(said))


def leaning(said: str) -> bool | None:
    """True for a yes at the start, False for a no, None for neither."""
    found = _LEAD.match(said)
    return None if found is None else found["yes"] is not None


def denied(said: str) -> frozenset[str]:
    """The words right after a word of denial, without the little ones."""
    found = (words_of(match[1] or match[2]) for match in _DENIAL.finditer(said))
    return frozenset(word for words in found for word in words if word not in little())


def negated(said: str) -> bool:
    """Whether the first sentence has a word of denial, for answers that leave out the no."""
    return bool(_NEGATED.search(re.split(r"[.;。；]", said, maxsplit=1)[0]))
