"""What stands before a date and moves it: `the week before`, `late`, `two days after`; and ranges."""

from __future__ import annotations

import re
from datetime import date

from assay.scoring.offline.spans import Dated, Span, weekday

_WEEK = "monday tuesday wednesday thursday friday saturday sunday"
DAYS = tuple(_WEEK.split())
_DAY = "|".join(DAYS)
_MOST = 1000
_FEW = 3
_LENGTHS = {"day": 1, "night": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
_RELATION = re.compile(
    r"(?:(?P<count>\d+|couple(?: of)?|few|several)\s+)?"
    rf"(?P<unit>{'|'.join(_LENGTHS)}|{_DAY})s?\s+(?:just\s+|right\s+)?"
    r"(?P<way>before|prior to|preceding|leading up to|ahead of|after|following|of)\s+"
    rf"(?:the\s+)?(?:(?:{_DAY}),?\s+)?$",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?P<part>early|mid|middle|late|beginning|start|end|1|2|3|4|last)(?:st|nd|rd|th)?[\s-]+(?P<unit>week|weekend|half)?\s*"
    r"(?:of\s+|in\s+)?(?:the\s+)?$",
    re.IGNORECASE,
)
_JOIN = re.compile(
    r"[\s,]*(?:-|–|—|to|until|till|through|至|到|~)[\s,]*(?:the\s+)?(?:(?:early|mid|late)[\s-]+)?",
    re.IGNORECASE,
)
_AND = re.compile(
    r"[\s,]*(?:and|or|&|,|/|to|-|–|和|、)[\s,]*(?:in\s+|on\s+)?(?:(?:early|mid|late)[\s-]+)?", re.IGNORECASE
)
_BETWEEN = re.compile(r"between\s+(?:the\s+)?$", re.IGNORECASE)
_COUNTS = {"a": 1, "couple": 2, "couple of": 2, "few": _FEW, "several": _FEW}
_WINDOW = 48
_PARTS = {
    "early": (0, 1),
    "beginning": (0, 1),
    "start": (0, 1),
    "mid": (1, 2),
    "middle": (1, 2),
    "late": (2, 3),
    "end": (2, 3),
}


def related(text: str, found: list[Dated]) -> list[Dated]:
    """The dates with what moves them; a yearless one takes the year of the one that it is listed with."""
    moved = [_moved(text, each) for each in found]
    for at in range(len(moved) - 2, -1, -1):
        one, two = moved[at : at + 2]
        between = text[one.end : two.start] if one.end <= two.start else "?"
        listed = _AND.fullmatch(between)
        if listed and one.span.yearly and not two.span.yearly:
            one = moved[at] = one._replace(span=_before(one.span, two.span))
        bounded = listed and _BETWEEN.search(text, max(0, one.start - _WINDOW), one.start)
        ranged = _JOIN.fullmatch(between) or bounded
        if ranged and one.span.yearly == two.span.yearly:
            moved[at : at + 2] = [Dated(_from_to(one.span, two.span), one.start, two.end)]
    return moved


def _before(span: Span, later: Span) -> Span:
    """With the year of the date that follows it, or the year before that: `December and January 2024`."""
    year = date.fromordinal(later.first).year
    found = span.of_year(year)
    return found if found.first <= later.last else span.of_year(year - 1)


def _from_to(one: Span, two: Span) -> Span:
    """Without years, a range may go over the turn of the year. With years, a wrong order is put right."""
    if two.last < one.first and one.yearly:
        two = two.shifted(366)
    return Span(min(one.first, two.first), max(one.last, two.last), one.yearly).as_range()


def _moved(text: str, dated: Dated) -> Dated:
    before = text[max(0, dated.start - _WINDOW) : dated.start]
    for pattern, read in ((_RELATION, _at), (_PART, _part)):
        match = pattern.search(before)
        span = read(match, dated.span) if match else None
        if match and span:
            return Dated(span, dated.start - len(before) + match.start(), dated.end)
    return dated


def _at(match: re.Match[str], span: Span) -> Span | None:
    unit, way = match["unit"].lower(), match["way"].lower()
    count = _COUNTS.get((match["count"] or "a").lower()) or min(int(match["count"]), _MOST)
    if way == "of":
        return _containing(unit, span)
    sign = 1 if way in ("after", "following") else -1
    if unit in DAYS:
        moved = weekday(span, DAYS.index(unit), sign)
    elif unit == "weekend":
        sunday = weekday(span, 6, sign)
        moved = Span(sunday.first - 1, sunday.last, span.yearly).shifted(sign * 7 * (count - 1))
    else:
        moved = _distant(count, _LENGTHS[unit], sign, span)
    name = f"{count} {unit} {sign}"
    return moved._replace(yearly=span.yearly, relation=name, anchor=(span.first, span.last))


def _distant(count: int, length: int, sign: int, span: Span) -> Span:
    """`a week before` are the seven days before; `two weeks before` is that day, give or take."""
    edge = span.first if sign < 0 else span.last
    if length == 1:
        return Span(edge + sign * count, edge + sign * count)
    near, far = (
        edge + sign * (1 if count == 1 else length * count - length // 2),
        edge + sign * (length * count + (length // 2 if count > 1 else 0)),
    )
    return Span(min(near, far), max(near, far))


def _containing(unit: str, span: Span) -> Span | None:
    if span.days > 7:
        return None
    if unit == "week":
        if span.days > 2:
            return span  # the week itself
        return Span(span.first - 3, span.last + 6, span.yearly, "week of", (span.first, span.last))
    if unit == "weekend":
        saturday = weekday(Span(span.first + 3, span.first + 3), 5, -1)
        return Span(
            min(saturday.first, span.first),
            max(saturday.first + 1, span.first),
            span.yearly,
            "weekend of",
            (span.first, span.last),
        )
    return None


def _part(match: re.Match[str], span: Span) -> Span | None:
    part, unit = match["part"].lower(), (match["unit"] or "").lower()
    if span.days < 28:
        return None
    if unit in ("week", "weekend") and span.days <= 31:
        return _week(part, unit, span)
    if part in _PARTS and not unit:
        first, last = _PARTS[part]
        third = span.days / 3
        return span._replace(first=span.first + int(third * first), last=span.first + int(third * last))
    if unit == "half" and part in ("1", "2"):
        half = span.days // 2
        return (
            span._replace(last=span.first + half) if part == "1" else span._replace(first=span.first + half)
        )
    return None


def _week(part: str, unit: str, span: Span) -> Span | None:
    if part == "last":
        week = span._replace(first=span.last - 6)
    elif part.isdecimal():
        first = span.first + 7 * (int(part) - 1)
        week = span._replace(first=first, last=min(first + 6, span.last))
    else:
        return None
    if unit == "weekend":
        saturday = weekday(Span(week.first - 1, week.first - 1), 5, 1)
        return week._replace(first=saturday.first, last=saturday.first + 1)
    return week
