"""Finds the dates of a text: `7 May 2023`, `May 7th`, `2023-05-07`, `2023年5月7日`, `spring 2022`."""

from __future__ import annotations

import re
from collections.abc import Callable

from assay.scoring.offline import relations
from assay.scoring.offline.spans import Dated, Span, of_days, of_month, of_season, of_years

_YEAR_OF_MONTHS = "january february march april may june july august september october november december"
MONTHS = tuple(_YEAR_OF_MONTHS.split())
_NUMBERS = {name: at for at, name in enumerate(MONTHS, 1)} | {
    name[:3]: at for at, name in enumerate(MONTHS, 1)
}
_NUMBERS["sept"] = 9
_SEASONS = {
    "spring": 3,
    "summer": 6,
    "autumn": 9,
    "fall": 9,
    "winter": 12,
    "春": 3,
    "夏": 6,
    "秋": 9,
    "冬": 12,
}
_HOLIDAYS = {
    "christmas eve": (12, 24),
    "christmas": (12, 25),
    "new year eve": (12, 31),
    "new year day": (1, 1),
}
_HOLIDAYS |= {"halloween": (10, 31), "valentine day": (2, 14)}
_NAME = r"(?P<month>[a-z]{3,11})"
_SHORT = "|".join(("March", "Sept", *(name[:3].capitalize() for name in MONTHS)))
_YEAR = r"(?P<year>(?:1[5-9]|20|21)\d\d)(?![\d:])"
_OF_YEAR = rf"(?:[\s.,]*(?:of\s+|in\s+)?{_YEAR})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_TO = r"(?:\s*(?:-|–|—|to|and|&|or|through)\s*(?P<last>\d{1,2})(?:st|nd|rd|th)?)?"
_PLAIN = "|".join(name for name in MONTHS if name not in ("may", "march"))
_LONE = (
    r"(?:^\s*|\b(?:in|of|by|during|since|until|till|last|next|this|between|early|late|mid|around|about|from|to|every|and|or|through)"
    r"[\s-]+|[,/–(-]\s*)"
)


def dates_in(text: str) -> list[Dated]:
    """All dates, in order; a range is one, and `the week before 9 June 2023` is those seven days."""
    if not _HINT.search(text):
        return []
    found: list[Dated] = []
    left = text
    for pattern, build in _FORMS:
        for match in pattern.finditer(left):
            span = build(match)
            if span is not None:
                start = match.start("month") if pattern is _LONE_FORM else match.start()
                found.append(Dated(span, start, match.end()))
                left = left[:start] + "\0" * (match.end() - start) + left[match.end() :]
    found.sort(key=lambda each: each.start)
    return relations.related(text, found)


def month_of(name: str) -> int:
    """The month that a word names, with one slip of the pen at most; 0 where it names none."""
    name = name.lower()
    if name in _NUMBERS:
        return _NUMBERS[name]
    return next((at for at, month in enumerate(MONTHS, 1) if len(month) > 4 and _one_slip(name, month)), 0)


def _one_slip(said: str, meant: str) -> bool:
    """One letter missing, added, changed, or two neighbours swapped. The first letter is right."""
    if said[0] != meant[0] or abs(len(said) - len(meant)) > 1:
        return False
    same = next(
        (at for at, (a, b) in enumerate(zip(said, meant, strict=False)) if a != b), min(len(said), len(meant))
    )
    rest, wanted = said[same:], meant[same:]
    return (
        rest[1:] in (wanted, wanted[1:])
        or rest == wanted[1:]
        or (rest[1::-1] == wanted[:2] and rest[2:] == wanted[2:])
    )


def _day(match: re.Match[str]) -> Span | None:
    parts = match.groupdict()
    month = parts["month"]
    year = int(parts["year"]) if parts.get("year") else None
    number = int(month) if month.isdecimal() else month_of(month)
    if not number:
        return None
    span = of_days(year, number, int(parts["day"]), int(parts.get("last") or 0))
    return span.as_range() if span and parts.get("last") else span


def _month(match: re.Match[str]) -> Span | None:
    parts = match.groupdict()
    month = parts["month"]
    number = int(month) if month.isdecimal() else month_of(month)
    return of_month(int(parts["year"]) if parts.get("year") else None, number)


def _holiday(match: re.Match[str]) -> Span | None:
    year = match["year"]
    return of_days(int(year) if year else None, *_HOLIDAYS[match["name"].lower()])


def _season(match: re.Match[str]) -> Span | None:
    year = match["year"]
    return of_season(int(year) if year else None, _SEASONS[match["season"].lower()])


def _year(match: re.Match[str]) -> Span | None:
    year = int(match["year"])
    return of_years(year, year)


def _decade(match: re.Match[str]) -> Span | None:
    first = int(match["year"])
    return of_years(first, first + 9)


def _form(
    pattern: str, build: Callable[[re.Match[str]], Span | None]
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], Span | None]]:
    return re.compile(pattern, re.IGNORECASE), build


_HINTS = "|".join((*_HOLIDAYS, *_SEASONS, *(name[:3] for name in MONTHS)))
_HINT = re.compile(rf"\d|{_HINTS}", re.IGNORECASE)
# Words of other meanings too: only in capitals, and after what stands before months.
_LONE_FORM = re.compile(rf"(?i:{_LONE})(?P<month>{_SHORT})\b")
_FORMS = [
    _form(rf"(?<![\d.]){_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?!\d)", _day),
    _form(rf"(?<![\d/.])(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/{_YEAR}", _day),
    _form(rf"(?<!\d){_YEAR}\s*年\s*(?P<month>\d{{1,2}})\s*月\s*(?P<day>\d{{1,2}})\s*[日号]?", _day),
    _form(rf"(?<!\d){_YEAR}\s*年\s*(?P<month>\d{{1,2}})\s*月份?", _month),
    _form(rf"(?:(?<!\d){_YEAR}\s*年\s*的?)?(?P<season>[春夏秋冬])[天季]", _season),
    _form(rf"(?<!\d){_YEAR}\s*年", _year),
    _form(r"(?<!\d)(?P<month>\d{1,2})\s*月\s*(?P<day>\d{1,2})\s*[日号]", _day),
    _form(r"(?<!\d)(?P<month>\d{1,2})\s*月份?", _month),
    _form(rf"(?<![\d.:$]){_DAY}{_TO}[\s`]*(?:of\s+)?{_NAME}\b{_OF_YEAR}?", _day),
    _form(rf"\b{_NAME}\.?\s+(?:the\s+)?{_DAY}{_TO}(?![\d:%]|\s*[ap]\.?m\b){_OF_YEAR}?", _day),
    _form(rf"\b{_NAME}\b{_OF_YEAR}", _month),
    _form(rf"\b(?P<name>{'|'.join(_HOLIDAYS)})\b(?: day\b)?{_OF_YEAR}?", _holiday),
    _form(rf"\b(?P<season>spring|summer|autumn|fall|winter)(?:time)?\b{_OF_YEAR}?", _season),
    _form(rf"\b(?P<month>{_PLAIN})\b", _month),
    (_LONE_FORM, _month),
    _form(r"(?<![\d.,$€£#-])(?P<year>(?:1[5-9]|20|21)\d0)['’]?s\b", _decade),
    _form(
        rf"(?<![\d.,$€£#]){_YEAR}(?![.,]\d|%|\s*(?:points|people|dollars|calories|words|miles|km|steps)\b)",
        _year,
    ),
]
