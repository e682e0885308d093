"""What the judge reads out of a text, once for each text: words, numbers, lengths of time, dates."""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

from assay.scoring.offline.dates import dates_in
from assay.scoring.offline.numbers import Lasting, durations_in, in_digits, numbers_in
from assay.scoring.offline.spans import Dated
from assay.scoring.offline.words import folded, words_of

_DAYS = re.compile(
    r"\b((?:mon|tues|wednes|thurs|fri|satur|sun)day)s?\b|(?:星期|周|礼拜)([一二三四五六日天\d])",
    re.IGNORECASE,
)
_MOST = 20_000
"""Characters of an answer that are read."""


class Read(NamedTuple):
    """A text as the judge sees it: `said` is the text, folded, and `rest` are the words outside of dates."""

    said: str
    words: tuple[str, ...]
    rest: tuple[str, ...]
    numbers: tuple[float, ...]
    durations: tuple[Lasting, ...]
    dates: tuple[Dated, ...]
    weekdays: frozenset[str]


@lru_cache(1 << 12)
def read(text: str) -> Read:
    """Cached, since a reference and a question are met with several responses."""
    said = in_digits(folded(text[:_MOST]))
    dates = tuple(dates_in(said))
    rest = said
    for dated in reversed(dates):
        rest = f"{rest[: dated.start]} {rest[dated.end :]}"
    days = frozenset("".join(found.groups("")).lower() for found in _DAYS.finditer(rest))
    return Read(
        said,
        words_of(said),
        words_of(rest),
        tuple(numbers_in(rest)),
        tuple(durations_in(rest)),
        dates,
        days,
    )
