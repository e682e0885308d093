"""Whether a text says of a point's matter something else: another number, date, name, or the opposite."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import NamedTuple

from assay.scoring.offline.agreement import agree
from assay.scoring.offline.dates import MONTHS, dates_in
from assay.scoring.offline.numbers import in_digits
from assay.scoring.offline.stance import denied
from assay.scoring.offline.words import folded, little, words_of

_TOKEN = re.compile(r"\d+(?:[.,]\d+)*|[^\W\d_\u3400-\u9fff]+|[\u3400-\u9fff]|[.!?]+(?=\s)")
_STAMP = re.compile(
    r"\s*(?:\[[^\]\n]{4,60}\]|\([^)\n]{4,60}\)|(?=[^:\n]{0,30}\d)[\w\s,/.:-]{6,40}?(?::\s|\s[|-]\s))",
    re.IGNORECASE,
)
_LONGER = 2
_DAYS = "monday tuesday wednesday thursday friday saturday sunday mon tue tues wed thu thurs fri sat sun"
_TIMES = frozenset((*_DAYS.split(), *MONTHS))


class Filler(NamedTuple):
    """A number or a name, and the words around it."""

    said: str
    key: str
    before: tuple[str, str]
    after: str


class Claims(NamedTuple):
    """What of a text can be contradicted."""

    said: str
    words: frozenset[str]
    numbers: tuple[Filler, ...]
    names: tuple[Filler, ...]


@lru_cache(1 << 13)
def claims_of(text: str) -> Claims:
    """Cached: the same texts are held against many points. A time stamp at the start claims nothing."""
    said = _STAMP.sub("", in_digits(folded(text)), count=1)
    fillers = tuple(_fillers(said))
    return Claims(
        said,
        frozenset(words_of(said)),
        tuple(each for each in fillers if each.said[0].isdigit()),
        tuple(each for each in fillers if not each.said[0].isdigit()),
    )


@lru_cache(1 << 13)
def conflict(point: str, text: str) -> str:
    """In words, or empty where there is none that can be seen."""
    meant, said = claims_of(point), claims_of(text)
    return (
        _other(meant.numbers, said.numbers, said, meant)
        or _other(meant.names, said.names, said, meant)
        or _other_date(meant.said, said.said)
        or _opposite(meant, said)
    )


def _other(meant: tuple[Filler, ...], said: tuple[Filler, ...], text: Claims, point: Claims) -> str:
    """Another one in the same place: after the same word, or before it."""
    for one in meant:
        if one.key in text.words:
            continue
        for other in said:
            if other.key not in point.words and _same_place(one, other):
                return f"it says {other.said}, not {one.said}"
    return ""


def _same_place(one: Filler, other: Filler) -> bool:
    (_, near), (_, other_near) = one.before, other.before
    if near and near == other_near and (near not in little() or one.before == other.before):
        return True
    return bool(one.after) and one.after == other.after and one.after not in little()


def _other_date(meant: str, said: str) -> str:
    wanted = dates_in(meant)
    found = dates_in(said) if wanted else []
    missed = [one for one in wanted if not any(agree(other.span, one.span) for other in found)]
    if not missed or not found:
        return ""
    one, other = missed[0], found[0]
    return f"it says {said[other.start : other.end].strip()}, not {meant[one.start : one.end].strip()}"


def _opposite(meant: Claims, said: Claims) -> str:
    """A text of about the same length that denies what the point says, or the other way round."""
    if len(said.words) > _LONGER * len(meant.words):
        return ""
    here, there = denied(said.said) & meant.words, denied(meant.said) & said.words
    return "one denies what the other says" if bool(here) != bool(there) else ""


def _fillers(said: str) -> Iterator[Filler]:
    tokens = _TOKEN.findall(said)
    keys = [_key(token) for token in tokens]
    for at, token in enumerate(tokens):
        if (token[0].isdigit() or token[0].isupper()) and keys[at] and keys[at] not in little():
            if token.lower() in _TIMES:
                continue
            before = (keys[at - 2] if at > 1 else "", keys[at - 1] if at else "")
            yield Filler(token, keys[at], before, keys[at + 1] if at + 1 < len(keys) else "")


def _key(token: str) -> str:
    found = words_of(token)
    return found[0] if found else ""
