"""Finds dates in a text, and compares two dates.

    [dated] = dates_in("the week before 9 June 2023")
    dated.span.days  # 7

Dates are recognised in many spellings: `7 May 2023`, `May 7th`, `2023-05-07`, `2023年5月7日`, `spring 2022`. Words
before a date move it (`two days after`, `late`), and two dates may be the ends of a range.

The file has four parts: spans of days (`Span`), spellings of dates (`dates_in`), words that move a date, and the
comparison (`agree`).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date
from typing import NamedTuple

# The year of a date that has none. It is a leap year, so that 29 February exists.
ANY_YEAR = 2000
# Numbers of four digits outside this range are not years.
_FIRST_YEAR, _LAST_YEAR = 1500, 2199


class Span(NamedTuple):
    """The days from `first` to `last`, as ordinals of Python's `date`.

    `yearly` marks a date without a year; its days are in `ANY_YEAR`. A date that is relative to another date
    remembers it: `the week before 9 June` has the days of 9 June as `anchor`, and a `relation` that names the
    count, the unit and the direction.
    """

    first: int
    last: int
    yearly: bool = False
    relation: str = ""
    anchor: tuple[int, int] = (0, 0)

    @property
    def days(self) -> int:
        """Number of days."""
        return self.last - self.first + 1

    def in_year(self, year: int) -> Span:
        """Return the same days in this year. A span that has a year is returned unchanged."""
        if not self.yearly:
            return self
        first, last = date.fromordinal(self.first), date.fromordinal(self.last)
        span = Span(_move_to_year(first, year), _move_to_year(last, year + last.year - first.year))
        return span.as_range() if self.relation == "range" else span

    def as_range(self) -> Span:
        """Return the span, marked as a range of which the text gives both ends."""
        return self._replace(relation="range", anchor=(self.first, self.last))

    def shifted(self, days: int) -> Span:
        """Return the span, moved by this number of days."""
        return self._replace(first=self.first + days, last=self.last + days)


class Dated(NamedTuple):
    """A date, and the position of its words in the text."""

    span: Span
    start: int
    end: int


def _move_to_year(day: date, year: int) -> int:
    # 29 February becomes 28 February in other years.
    last_day = monthrange(year, day.month)[1]
    return date(year, day.month, min(day.day, last_day)).toordinal()


def _span_of_days(year: int | None, month: int, day: int, last: int = 0) -> Span | None:
    """Return one day, or the days up to `last` of the same month. None if there is no such day."""
    placed_year = ANY_YEAR if year is None else year
    if not (_FIRST_YEAR <= placed_year <= _LAST_YEAR and 1 <= month <= 12):
        return None
    last = last or day
    if not 1 <= day <= last <= monthrange(placed_year, month)[1]:
        return None
    first = date(placed_year, month, day).toordinal()
    return Span(first, first + last - day, year is None)


def _span_of_month(year: int | None, month: int) -> Span | None:
    if not 1 <= month <= 12:
        return None
    placed_year = ANY_YEAR if year is None else year
    return _span_of_days(year, month, 1, monthrange(placed_year, month)[1])


def _span_of_season(year: int | None, month: int) -> Span | None:
    """Return three months from this one on. Winter begins in December and ends in the next year."""
    first = _span_of_month(year, month)
    if first is None:
        return None
    last_month = month + 2
    placed_year = ANY_YEAR if year is None else year
    # The season ends on the 28th, which exists in every month.
    end = date(placed_year + (last_month > 12), (last_month - 1) % 12 + 1, 28).toordinal()
    return Span(first.first, end, first.yearly)


def _span_of_years(first: int, last: int) -> Span:
    return Span(date(first, 1, 1).toordinal(), date(last, 12, 31).toordinal())


def overlap(one: Span, two: Span) -> bool:
    """Return whether two spans share a day. The year counts only if both have one."""
    if one.yearly == two.yearly:
        return one.first <= two.last and two.first <= one.last
    with_year, without_year = (two, one) if one.yearly else (one, two)
    first_year = date.fromordinal(with_year.first).year
    last_year = date.fromordinal(with_year.last).year
    # Also the year before: a range without a year may cross the turn of the year.
    return any(
        overlap(without_year.in_year(year), with_year) for year in range(first_year - 1, last_year + 1)
    )


def days_apart(one: Span, two: Span) -> int:
    """Return the number of days between two spans. 0 if they overlap."""
    if one.yearly != two.yearly:
        return 0 if overlap(one, two) else 365
    return max(0, one.first - two.last, two.first - one.last)


def _nearest_weekday(span: Span, day: int, direction: int) -> Span:
    """Return the nearest Monday (0) to Sunday (6) before (-1) or after (1) a span."""
    edge = span.first if direction < 0 else span.last
    step = (date.fromordinal(edge).weekday() - day) * -direction % 7 or 7
    weekday = edge + direction * step
    return Span(weekday, weekday, span.yearly)


# Spellings of dates. A form is a pattern and the function that returns the span of a match.

_MONTH_NAMES = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTH_NAMES.split())
_MONTH_NUMBERS = {name: number for number, name in enumerate(MONTHS, 1)}
_MONTH_NUMBERS |= {name[:3]: number for number, name in enumerate(MONTHS, 1)}
_MONTH_NUMBERS["sept"] = 9
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
    "halloween": (10, 31),
    "valentine day": (2, 14),
}
_NAME = r"(?P<month>[a-z]{3,11})"
_SHORT = "|".join(("March", "Sept", *(name[:3].capitalize() for name in MONTHS)))
_YEAR = r"(?P<year>(?:1[5-9]|20|21)\d\d)(?![\d:])"
_OF_YEAR = rf"(?:[\s.,]*(?:of\s+|in\s+)?{_YEAR})"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_TO = r"(?:\s*(?:-|–|—|to|and|&|or|through)\s*(?P<last>\d{1,2})(?:st|nd|rd|th)?)?"
_UNAMBIGUOUS = "|".join(name for name in MONTHS if name not in ("may", "march"))
_BEFORE_MONTH = (
    r"(?:^\s*|\b(?:in|of|by|during|since|until|till|last|next|this|between|early|late|mid|around|about|from|to|every|and|or|through)"
    r"[\s-]+|[,/–(-]\s*)"
)


def dates_in(text: str) -> list[Dated]:
    """Return all dates in order. A range is one date; `the week before 9 June 2023` is a date of seven days."""
    if not _HINT.search(text):
        return []
    dates: list[Dated] = []
    remaining = text
    for pattern, build in _FORMS:
        for match in pattern.finditer(remaining):
            span = build(match)
            if span is not None:
                start = match.start("month") if pattern is _LONE_MONTH else match.start()
                dates.append(Dated(span, start, match.end()))
                # Blanked out, so that later and looser forms do not match it again.
                blank = "\0" * (match.end() - start)
                remaining = remaining[:start] + blank + remaining[match.end() :]
    dates.sort(key=lambda dated: dated.start)
    return _relate(text, dates)


def month_of(name: str) -> int:
    """Return the number of the month that a word names, or 0. One typing error is allowed."""
    name = name.lower()
    if name in _MONTH_NUMBERS:
        return _MONTH_NUMBERS[name]
    for number, month in enumerate(MONTHS, 1):
        if len(month) > 4 and _is_typo(name, month):
            return number
    return 0


def _is_typo(word: str, meant: str) -> bool:
    """Return whether one letter is missing, added or changed, or two adjacent letters are swapped.

    The first letter must be right.
    """
    if word[0] != meant[0] or abs(len(word) - len(meant)) > 1:
        return False
    common = 0
    while common < min(len(word), len(meant)) and word[common] == meant[common]:
        common += 1
    rest, wanted = word[common:], meant[common:]
    return (
        rest[1:] in (wanted, wanted[1:])
        or rest == wanted[1:]
        or (rest[1::-1] == wanted[:2] and rest[2:] == wanted[2:])
    )


def _year_of(match: re.Match[str]) -> int | None:
    year = match.groupdict().get("year")
    return int(year) if year else None


def _month_number(match: re.Match[str]) -> int:
    month = match["month"]
    return int(month) if month.isdecimal() else month_of(month)


def _day(match: re.Match[str]) -> Span | None:
    month = _month_number(match)
    if not month:
        return None
    last = match.groupdict().get("last")
    span = _span_of_days(_year_of(match), month, int(match["day"]), int(last or 0))
    return span.as_range() if span and last else span


def _month(match: re.Match[str]) -> Span | None:
    return _span_of_month(_year_of(match), _month_number(match))


def _holiday(match: re.Match[str]) -> Span | None:
    return _span_of_days(_year_of(match), *_HOLIDAYS[match["name"].lower()])


def _season(match: re.Match[str]) -> Span | None:
    return _span_of_season(_year_of(match), _SEASONS[match["season"].lower()])


def _year(match: re.Match[str]) -> Span | None:
    year = int(match["year"])
    return _span_of_years(year, year)


def _decade(match: re.Match[str]) -> Span | None:
    first = int(match["year"])
    return _span_of_years(first, first + 9)


def _form(
    pattern: str, build: Callable[[re.Match[str]], Span | None]
) -> tuple[re.Pattern[str], Callable[[re.Match[str]], Span | None]]:
    return re.compile(pattern, re.IGNORECASE), build


# A text without any of these has no date. This search spares most texts the patterns below.
_HINTS = "|".join((*_HOLIDAYS, *_SEASONS, *(name[:3] for name in MONTHS)))
_HINT = re.compile(rf"\d|{_HINTS}", re.IGNORECASE)
# `May`, `Mar` and other short names have other meanings too. They are months only if they are capitalised and
# follow a word that usually precedes a month.
_LONE_MONTH = re.compile(rf"(?i:{_BEFORE_MONTH})(?P<month>{_SHORT})\b")
# From the strictest to the loosest form, because later forms do not see the text that earlier forms have matched.
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
    _form(rf"\b(?P<month>{_UNAMBIGUOUS})\b", _month),
    (_LONE_MONTH, _month),
    _form(r"(?<![\d.,$€£#-])(?P<year>(?:1[5-9]|20|21)\d0)['’]?s\b", _decade),
    _form(
        rf"(?<![\d.,$€£#]){_YEAR}(?![.,]\d|%|\s*(?:points|people|dollars|calories|words|miles|km|steps)\b)",
        _year,
    ),
]

# Words before a date that move it, and words between two dates that make a range or a list.

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = "|".join(_WEEKDAYS)
_UNIT_DAYS = {"day": 1, "night": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
# Number for `few` and `several`.
_FEW = 3
_COUNTS = {"a": 1, "couple": 2, "couple of": 2, "few": _FEW, "several": _FEW}
# Larger counts would exceed the range of Python's dates.
_MOST_UNITS = 1000
# Number of characters before a date in which words that move it are searched.
_WINDOW = 48
# Characters between two dates of a list or range. A thousand commas would take a million steps.
_MAX_BETWEEN = 200
_RELATION = re.compile(
    r"(?:(?P<count>\d+|couple(?: of)?|few|several)\s+)?"
    rf"(?P<unit>{'|'.join(_UNIT_DAYS)}|{_WEEKDAY})s?\s+(?:just\s+|right\s+)?"
    r"(?P<way>before|prior to|preceding|leading up to|ahead of|after|following|of)\s+"
    rf"(?:the\s+)?(?:(?:{_WEEKDAY}),?\s+)?$",
    re.IGNORECASE,
)
_PART = re.compile(
    r"(?P<part>early|mid|middle|late|beginning|start|end|1|2|3|4|last)(?:st|nd|rd|th)?[\s-]+(?P<unit>week|weekend|half)?\s*"
    r"(?:of\s+|in\s+)?(?:the\s+)?$",
    re.IGNORECASE,
)
# Thirds of a month or a year: start and end of each.
_THIRDS = {
    "early": (0, 1),
    "beginning": (0, 1),
    "start": (0, 1),
    "mid": (1, 2),
    "middle": (1, 2),
    "late": (2, 3),
    "end": (2, 3),
}
_RANGE = re.compile(
    r"[\s,]*(?:-|–|—|to|until|till|through|至|到|~)[\s,]*(?:the\s+)?(?:(?:early|mid|late)[\s-]+)?",
    re.IGNORECASE,
)
_LIST = re.compile(
    r"[\s,]*(?:and|or|&|,|/|to|-|–|和|、)[\s,]*(?:in\s+|on\s+)?(?:(?:early|mid|late)[\s-]+)?", re.IGNORECASE
)
_BETWEEN = re.compile(r"between\s+(?:the\s+)?$", re.IGNORECASE)


def _relate(text: str, dates: list[Dated]) -> list[Dated]:
    """Return the dates, moved by the words before them, and with ranges joined.

    A date without a year gets the year of the next date of the list: `May 3 and May 7, 2023`.
    """
    moved = [_move_by_words(text, dated) for dated in dates]
    # From the end, so that a year can pass through a list of several dates.
    for index in range(len(moved) - 2, -1, -1):
        earlier, later = moved[index : index + 2]
        is_near = 0 <= later.start - earlier.end <= _MAX_BETWEEN
        between = text[earlier.end : later.start] if is_near else "?"
        is_list = _LIST.fullmatch(between)
        if is_list and earlier.span.yearly and not later.span.yearly:
            # Usually the year of the later date, but the year before it in `December and January 2024`.
            year = date.fromordinal(later.span.first).year
            span = earlier.span.in_year(year)
            if span.first > later.span.last:
                span = earlier.span.in_year(year - 1)
            earlier = moved[index] = earlier._replace(span=span)
        is_bounded = is_list and _BETWEEN.search(text, max(0, earlier.start - _WINDOW), earlier.start)
        if (_RANGE.fullmatch(between) or is_bounded) and earlier.span.yearly == later.span.yearly:
            span = _join_range(earlier.span, later.span)
            moved[index : index + 2] = [Dated(span, earlier.start, later.end)]
    return moved


def _join_range(start: Span, end: Span) -> Span:
    """Return the range of two dates.

    Without years it may cross the turn of the year. With years, ends in the wrong order are swapped.
    """
    if end.last < start.first and start.yearly:
        end = end.shifted(366)  # ANY_YEAR is a leap year
    return Span(min(start.first, end.first), max(start.last, end.last), start.yearly).as_range()


def _move_by_words(text: str, dated: Dated) -> Dated:
    before = text[max(0, dated.start - _WINDOW) : dated.start]
    for pattern, move in ((_RELATION, _related_span), (_PART, _part_of_span)):
        match = pattern.search(before)
        span = move(match, dated.span) if match else None
        if match and span:
            return Dated(span, dated.start - len(before) + match.start(), dated.end)
    return dated


def _related_span(match: re.Match[str], span: Span) -> Span | None:
    """Return the span for `two days before`, `the Friday after` or `the week of` a date."""
    unit, way = match["unit"].lower(), match["way"].lower()
    count = _COUNTS.get((match["count"] or "a").lower()) or min(int(match["count"]), _MOST_UNITS)
    if way == "of":
        return _week_around(unit, span)
    sign = 1 if way in ("after", "following") else -1
    if unit in _WEEKDAYS:
        moved = _nearest_weekday(span, _WEEKDAYS.index(unit), sign)
    elif unit == "weekend":
        sunday = _nearest_weekday(span, 6, sign)
        moved = Span(sunday.first - 1, sunday.last, span.yearly).shifted(sign * 7 * (count - 1))
    else:
        moved = _distant_span(count, _UNIT_DAYS[unit], sign, span)
    return moved._replace(
        yearly=span.yearly, relation=f"{count} {unit} {sign}", anchor=(span.first, span.last)
    )


def _distant_span(count: int, length: int, sign: int, span: Span) -> Span:
    """Return the span at a distance of `count` units.

    `a week before` is the seven days before. `two weeks before` is that day, give or take half a week.
    """
    edge = span.first if sign < 0 else span.last
    if length == 1:
        return Span(edge + sign * count, edge + sign * count)
    if count == 1:
        near, far = edge + sign, edge + sign * length
    else:
        near = edge + sign * (length * count - length // 2)
        far = edge + sign * (length * count + length // 2)
    return Span(min(near, far), max(near, far))


def _week_around(unit: str, span: Span) -> Span | None:
    """Return the span of `the week of 9 June` or `the weekend of 9 June`. None for other units."""
    if span.days > 7:
        return None
    anchor = (span.first, span.last)
    if unit == "week":
        if span.days > 2:
            return span  # it is already a week
        # From the first day of a week that is centred on the date to the last day of a week that begins with it.
        return Span(span.first - 3, span.last + 6, span.yearly, "week of", anchor)
    if unit == "weekend":
        saturday = _nearest_weekday(Span(span.first + 3, span.first + 3), 5, -1)
        first, last = min(saturday.first, span.first), max(saturday.first + 1, span.first)
        return Span(first, last, span.yearly, "weekend of", anchor)
    return None


def _part_of_span(match: re.Match[str], span: Span) -> Span | None:
    """Return the span of `late May`, `the second week of May` or `the first half of 2023`.

    None for spans shorter than a month.
    """
    part, unit = match["part"].lower(), (match["unit"] or "").lower()
    if span.days < 28:
        return None
    if unit in ("week", "weekend") and span.days <= 31:
        return _week_of_month(part, unit, span)
    if part in _THIRDS and not unit:
        first, last = _THIRDS[part]
        third = span.days / 3
        return span._replace(first=span.first + int(third * first), last=span.first + int(third * last))
    if unit == "half" and part in ("1", "2"):
        middle = span.first + span.days // 2
        return span._replace(last=middle) if part == "1" else span._replace(first=middle)
    return None


def _week_of_month(part: str, unit: str, span: Span) -> Span | None:
    if part == "last":
        week = span._replace(first=span.last - 6)
    elif part.isdecimal():
        first = span.first + 7 * (int(part) - 1)
        week = span._replace(first=first, last=min(first + 6, span.last))
    else:
        return None
    if unit == "weekend":
        saturday = _nearest_weekday(Span(week.first - 1, week.first - 1), 5, 1)
        return week._replace(first=saturday.first, last=saturday.first + 1)
    return week


# Comparison.

# Spans of at least this many days count as a month or more.
_MONTH_DAYS = 28


def agree(response: Span, reference: Span) -> bool:
    """Return whether two dates overlap and the response is not much vaguer than the reference.

    Two dates with the same relation agree if their anchors are equal, and only then: the words have been read in
    the same way, so the days need not be compared.
    """
    if response.relation and reference.relation and response.yearly == reference.yearly:
        if response.relation == reference.relation:
            return response.anchor == reference.anchor
        if response.anchor == reference.anchor:
            return overlap(response, reference)
    if is_vaguer(response, reference):
        return False
    # A relative date may be off by one day.
    slack = 1 if response.relation or reference.relation else 0
    return days_apart(response, reference) <= slack


def is_vaguer(response: Span, reference: Span) -> bool:
    """Return whether the response is too vague: a month for a day, or a season for a month.

    A month is accepted for `early August`. For a day that is relative to another date, such as `the Friday
    before`, its week is accepted.
    """
    if reference.days >= _MONTH_DAYS:
        factor = 1.5
    elif reference.days > 1:
        factor = 2.0 if reference.relation else 3.0
    else:
        factor = 10.0 if reference.relation else 2.0
    return response.days > factor * reference.days


def nearness(response: Span, reference: Span) -> float:
    """Return how near a date comes that does not agree, from 0 to 1. Relative dates may be further away."""
    gap = days_apart(response, reference)
    if is_vaguer(response, reference):
        return 0.5 if gap == 0 else 0.0
    reach = 7 if reference.relation else 2
    return max(0.0, 1 - gap / reach) if gap else 0.9
