"""Answers made from references by rule: with something changed, or vaguer."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator

_YEAR_OF_MONTHS = "January February March April May June July August September October November December"
_MONTHS = _YEAR_OF_MONTHS.split()
_WORDS = ["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve"]
_SEASONS = ("winter", "spring", "summer", "autumn")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")
_MONTH = re.compile("|".join(_MONTHS))
_NUMBER = re.compile(r"(?<!\d)(?!(?:19|20)\d\d(?!\d))\d+")
_WORD = re.compile(rf"\b(?:{'|'.join(_WORDS)})\b", re.IGNORECASE)


def changed(reference: str, seed: int) -> Iterator[tuple[str, str]]:
    """Each year, month, number and number word of a reference changed, one at a time, with its kind."""
    rng = random.Random(f"{seed} {reference}")
    for found in _YEAR.finditer(reference):
        yield "year", _with(found, str(int(found[0]) + rng.choice([-2, -1, 1, 2])))
    for found in _MONTH.finditer(reference):
        yield "month", _with(found, _MONTHS[(_MONTHS.index(found[0]) + rng.randrange(1, 12)) % 12])
    for found in _NUMBER.finditer(reference):
        yield "number", _with(found, str(int(found[0]) + rng.choice([1, 2, 3, 5])))
    for found in _WORD.finditer(reference):
        at = _WORDS.index(found[0].lower())
        yield "number", _with(found, _WORDS[(at + rng.randrange(1, 12)) % 12])


def vaguer(reference: str) -> Iterator[str]:
    """A season or a year for a date, a month for a day, `a few` for a number."""
    month, year = _MONTH.search(reference), _YEAR.search(reference)
    if month and year:
        season = _SEASONS[(_MONTHS.index(month[0]) + 1) % 12 // 3]
        yield f"sometime in {season}"
        yield f"sometime in {season} {year[0]}"
        yield f"in {year[0]}"
        if re.search(r"\b\d{1,2}(?!\d)", reference):
            yield f"in {month[0]} {year[0]}"
    elif year:
        yield "some years ago"
    elif found := _NUMBER.search(reference) or _WORD.search(reference):
        for word in ("a few", "several"):
            yield _with(found, word)


def _with(found: re.Match[str], new: str) -> str:
    return found.string[: found.start()] + new + found.string[found.end() :]
