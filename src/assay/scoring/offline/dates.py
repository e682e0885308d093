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
from difflib import get_close_matches
from functools import lru_cache
from typing import NamedTuple

# The year of a date that has none. It is a leap year, so that 29 February exists.
ANY_YEAR = 2000
# Spans of at least this many days count as a month or more.
_MONTH_DAYS = 28


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


class Dated(NamedTuple):
    """A date, and the position of its words in the text."""

    span: Span
    start: int
    end: int


def _move_to_year(day: date, year: int) -> int:
    # 29 February becomes 28 February in other years.
    last_day = monthrange(year, day.month)[1]
    return date(year, day.month, min(day.day, last_day)).toordinal()


def overlap(one: Span, two: Span) -> bool:
    """Return whether two spans share a day. The year counts only if both have one."""
    if one.yearly == two.yearly:
        return one.first <= two.last and two.first <= one.last
    with_year, without_year = (two, one) if one.yearly else (one, two)
    first_year = date.fromordinal(with_year.first).year
    last_year = date.fromordinal(with_year.last).year
    # Also the year before: a range without a year may cross the turn of the year.
    return any(overlap(without_year.in_year(year), with_year) for year in range(first_year - 1, last_year + 1))


def days_apart(one: Span, two: Span) -> int:
    """Return the number of days between two spans. 0 if they overlap."""
    if one.yearly != two.yearly:
        return 0 if overlap(one, two) else 365
    return max(0, one.first - two.last, two.first - one.last)


def _nearest_weekday(day: int, weekday: int, direction: int) -> int:
    """Return the nearest Monday (0) to Sunday (6) before (-1) or after (1) a day."""
    step = (date.fromordinal(day).weekday() - weekday) * -direction % 7 or 7
    return day + direction * step


# Spellings of dates.

_MONTH_NAMES = "january february march april may june july august september october november december"
MONTHS = tuple(_MONTH_NAMES.split())
_MONTH_NUMBERS = {name: number for number, name in enumerate(MONTHS, 1)}
_MONTH_NUMBERS |= {name[:3]: number for number, name in enumerate(MONTHS, 1)} | {"sept": 9}
# Typing errors of months are at least so similar to the month, on difflib's scale.
_TYPO = 0.85
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
_UNAMBIGUOUS = "|".join(name for name in MONTHS if name not in ("may", "march"))
_BEFORE_MONTH = (
    r"(?:^\s*|\b(?:in|of|by|during|since|until|till|last|next|this|between|early|late|mid|around|about|from|to|every|and|or|through)"
    r"[\s-]+|[,/–(-]\s*)"
)
# `May`, `Mar` and other short names have other meanings too. They are months only if they are capitalised and
# follow a word that usually precedes a month.
_LONE_MONTH = rf"{_BEFORE_MONTH}(?P<month>(?-i:{_SHORT}))\b"
# Every form needs one of these hints. The search for them spares most texts most forms. Names are searched in lower
# case, because a pattern that ignores case is ten times slower.
_DAY_HINT, _YEAR_HINT, _NUMERIC_HINT, _DECADE_HINT = "day", "year", "2023-05-07", "1990s"
_HOLIDAY_HINT, _SEASON_HINT, _MONTH_HINT, _CHINESE_HINT = "holiday", "season", "month", "Chinese"
_HAS_DIGIT = re.compile(r"\d")
_HAS_YEAR = re.compile(r"(?:1[5-9]|2[01])\d\d")
_HAS_NUMERIC = re.compile(r"\d[-/.]\d")
_HAS_DECADE = re.compile(r"0['’]?s")
# Words beside a number, as the two forms with a day and the name of a month have them. For ASCII in lower case.
_WORD_AFTER_DAY = re.compile(r"[0-9](?:st|nd|rd|th)?[\s`]*(?:of\s+)?([a-z]{3,11})\b")
_WORD_BEFORE_DAY = re.compile(r"\b([a-z]{3,11}+)\.?\s+(?:the\s+)?[0-9]")
_NAME_HINTS = {
    **dict.fromkeys(_HOLIDAYS, _HOLIDAY_HINT),
    **dict.fromkeys(_SEASONS, _SEASON_HINT),
    **{name[:3]: _MONTH_HINT for name in MONTHS},
}
# Without groups, because a search for plain words skips all positions where none of them can begin.
_HAS_NAME = re.compile("|".join(_NAME_HINTS))
# From the strictest to the loosest form, because later forms do not see the text that earlier forms have matched.
_FORMS = [
    (hint, re.compile(pattern, re.IGNORECASE))
    for hint, pattern in (
        (_NUMERIC_HINT, rf"(?<![\d.]){_YEAR}[-/.](?P<month>\d{{1,2}})[-/.](?P<day>\d{{1,2}})(?!\d)"),
        (_NUMERIC_HINT, rf"(?<![\d/.])(?P<month>\d{{1,2}})/(?P<day>\d{{1,2}})/{_YEAR}"),
        (_CHINESE_HINT, rf"(?<!\d){_YEAR}\s*年\s*(?P<month>\d{{1,2}})\s*月\s*(?P<day>\d{{1,2}})\s*[日号]?"),
        (_CHINESE_HINT, rf"(?<!\d){_YEAR}\s*年\s*(?P<month>\d{{1,2}})\s*月份?"),
        (_CHINESE_HINT, rf"(?:(?<!\d){_YEAR}\s*年\s*的?)?(?P<season>[春夏秋冬])[天季]"),
        (_CHINESE_HINT, rf"(?<!\d){_YEAR}\s*年"),
        (_CHINESE_HINT, r"(?<!\d)(?P<month>\d{1,2})\s*月\s*(?P<day>\d{1,2})\s*[日号]"),
        (_CHINESE_HINT, r"(?<!\d)(?P<month>\d{1,2})\s*月份?"),
        (_DAY_HINT, rf"(?<![\d.:$]){_DAY}{_TO}[\s`]*(?:of\s+)?{_NAME}\b{_OF_YEAR}?"),
        (_DAY_HINT, rf"\b{_NAME}\.?\s+(?:the\s+)?{_DAY}{_TO}(?![\d:%]|\s*[ap]\.?m\b){_OF_YEAR}?"),
        (_YEAR_HINT, rf"\b{_NAME}\b{_OF_YEAR}"),
        (_HOLIDAY_HINT, rf"\b(?P<holiday>{'|'.join(_HOLIDAYS)})\b(?: day\b)?{_OF_YEAR}?"),
        (_SEASON_HINT, rf"\b(?P<season>spring|summer|autumn|fall|winter)(?:time)?\b{_OF_YEAR}?"),
        (_MONTH_HINT, rf"\b(?P<month>{_UNAMBIGUOUS})\b"),
        (_MONTH_HINT, _LONE_MONTH),
        (_DECADE_HINT, r"(?<![\d.,$€£#-])(?P<decade>(?:1[5-9]|20|21)\d0)['’]?s\b"),
        (
            _YEAR_HINT,
            rf"(?<![\d.,$€£#]){_YEAR}(?![.,]\d|%|\s*(?:points|people|dollars|calories|words|miles|km|steps)\b)",
        ),
    )
]


def dates_in(text: str) -> list[Dated]:
    """Return all dates in order. A range is one date; `the week before 9 June 2023` is a date of seven days."""
    hints = _hints_of(text)
    if not hints:
        return []
    dates: list[Dated] = []
    remaining = text
    for hint, form in _FORMS:
        if hint not in hints:
            continue
        count = len(dates)
        for match in form.finditer(remaining):
            groups = {name: value.lower() for name, value in match.groupdict().items() if value}
            span = _span_of(groups)
            if span is not None:
                start, end = min(map(match.start, groups)), match.end()
                dates.append(Dated(span, start, end))
                # Blanked out, so that later and looser forms do not match it again.
                remaining = remaining[:start] + "\0" * (end - start) + remaining[end:]
        if len(dates) > count:
            hints = _hints_of(remaining)
    if not dates:
        return dates
    dates.sort(key=lambda dated: dated.start)
    return _relate(text, dates)


def _hints_of(text: str) -> set[str]:
    """Return the hints that a text has. Without any of them it has no date."""
    hints: set[str] = set()
    lower = text.lower()
    if _HAS_DIGIT.search(text):
        # Most numbers stand beside other words than months: `5 coins`.
        words = [*_WORD_AFTER_DAY.findall(lower), *_WORD_BEFORE_DAY.findall(lower)]
        if not text.isascii() or any(map(month_of, words)):
            hints.add(_DAY_HINT)
        if _HAS_YEAR.search(text):
            hints.add(_YEAR_HINT)
            if _HAS_NUMERIC.search(text):
                hints.add(_NUMERIC_HINT)
            if _HAS_DECADE.search(lower):
                hints.add(_DECADE_HINT)
    if text.isascii():
        hints.update(map(_NAME_HINTS.__getitem__, _HAS_NAME.findall(lower)))
    else:
        # Patterns that ignore case also match letters such as the Turkish i without a dot.
        hints |= {_HOLIDAY_HINT, _SEASON_HINT, _MONTH_HINT, _CHINESE_HINT}
    return hints


def _span_of(groups: dict[str, str]) -> Span | None:
    """Return the span of a match, given the groups of its form. None if there is no such date."""
    year = int(groups["year"]) if "year" in groups else None
    if "season" in groups:
        # Three months, up to the 28th, which exists in every month. Winter ends in the next year.
        month, placed_year = _SEASONS[groups["season"]], year or ANY_YEAR
        last_day = date(placed_year + (month == 12), (month + 1) % 12 + 1, 28)
        return Span(date(placed_year, month, 1).toordinal(), last_day.toordinal(), year is None)
    if "holiday" in groups:
        return _span_of_days(year, *_HOLIDAYS[groups["holiday"]])
    if "month" not in groups:
        first = int(groups.get("decade") or groups["year"])
        last = first + 9 if "decade" in groups else first
        return Span(date(first, 1, 1).toordinal(), date(last, 12, 31).toordinal())
    month = int(groups["month"]) if groups["month"].isdecimal() else month_of(groups["month"])
    if "day" not in groups:
        return _span_of_days(year, month)
    span = _span_of_days(year, month, int(groups["day"]), int(groups.get("last", 0)))
    return span.as_range() if span and "last" in groups else span


def _span_of_days(year: int | None, month: int, day: int | None = None, last: int = 0) -> Span | None:
    """Return one day, the days up to `last`, or without a day the month. None if there is no such day."""
    if not 1 <= month <= 12:
        return None
    placed_year = year or ANY_YEAR
    length = monthrange(placed_year, month)[1]
    day, last = (1, length) if day is None else (day, last or day)
    if not 1 <= day <= last <= length:
        return None
    first = date(placed_year, month, day).toordinal()
    return Span(first, first + last - day, year is None)


@lru_cache(1 << 12)
def month_of(name: str) -> int:
    """Return the number of the month that a word in lower case names, or 0. A typing error is allowed."""
    if name not in _MONTH_NUMBERS and len(name) > 4:
        name = next(iter(get_close_matches(name, MONTHS, 1, _TYPO)), name)
    return _MONTH_NUMBERS.get(name, 0)


# Words before a date that move it, and words between two dates that make a range or a list.

_WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_WEEKDAY = "|".join(_WEEKDAYS)
_UNIT_DAYS = {"day": 1, "night": 1, "week": 7, "weekend": 7, "month": 30, "year": 365}
_COUNTS = {"a": 1, "couple": 2, "couple of": 2, "few": 3, "several": 3}
# Larger counts would exceed the range of Python's dates.
_MOST_UNITS = 1000
# Number of characters before a date in which words that move it are searched.
_WINDOW = 48
# Characters between two dates of a list or range. A thousand commas would take a million steps.
_MAX_BETWEEN = 200
# What may stand between such a word and its date: `before 7:20 pm on Friday, 9 June`.
_TO_DATE = rf"(?:\d{{1,2}}(?::\d\d)?\s*[ap]m,?\s+(?:on\s+)?)?(?:the\s+)?(?:(?:{_WEEKDAY}),?\s+)?"
_RELATION = re.compile(
    r"(?:(?P<count>\d+|couple(?: of)?|few|several)\s+)?"
    rf"(?P<unit>{'|'.join(_UNIT_DAYS)}|{_WEEKDAY})s?\s+(?:just\s+|right\s+)?"
    r"(?P<way>before|prior to|preceding|leading up to|ahead of|after|following)\s+"
    rf"{_TO_DATE}$",
    re.IGNORECASE,
)
# `before 9 June` alone does not say how long before. It is read as the week before, `on or before` with the day itself.
_BESIDE = re.compile(rf"\b(?P<on>on or )?(?P<way>before|prior to|after|following)\s+{_TO_DATE}$", re.IGNORECASE)
# `around 9 June` is also the day before and the day after; in an answer, only for a reference with a relative date.
_AROUND_DAY = "around"
_NEAR = re.compile(rf"\b(?:around|approximately|roughly|circa)\s+{_TO_DATE}$", re.IGNORECASE)
# Words of which each of the patterns needs one, in lower case. Most dates have none of them before.
_RELATION_HINT = re.compile("before|prior|preceding|leading|ahead|after|following")
_BESIDE_HINT = re.compile("before|prior|after|following")
_NEAR_HINT = re.compile("around|approximately|roughly|circa")
_AROUND_HINT = re.compile("week")
_PART_HINT = re.compile("[1-4]|early|mid|late|beginning|start|end|last")
_AROUND = re.compile(rf"(?P<unit>week|weekend)\s+of\s+(?:the\s+)?(?:(?:{_WEEKDAY}),?\s+)?$", re.IGNORECASE)
_PART = re.compile(
    r"(?P<part>early|mid|middle|late|beginning|start|end|1|2|3|4|last)(?:st|nd|rd|th)?[\s-]+(?P<unit>week|weekend)?\s*"
    r"(?:of\s+|in\s+)?(?:the\s+)?$",
    re.IGNORECASE,
)
# Thirds of a month or a year.
_THIRDS = {"early": 0, "beginning": 0, "start": 0, "mid": 1, "middle": 1, "late": 2, "end": 2}
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
            start, end = earlier.span, later.span
            if end.last < start.first and start.yearly:
                # The range crosses the turn of the year. ANY_YEAR is a leap year.
                end = Span(end.first + 366, end.last + 366)
            # With years, ends in the wrong order are swapped.
            span = Span(min(start.first, end.first), max(start.last, end.last), start.yearly).as_range()
            moved[index : index + 2] = [Dated(span, earlier.start, later.end)]
    return moved


def _move_by_words(text: str, dated: Dated) -> Dated:
    before = text[max(0, dated.start - _WINDOW) : dated.start]
    lower = before.lower() if before.isascii() else ""
    for hint, pattern, move in _MOVES:
        if lower and not hint.search(lower):
            continue
        match = pattern.search(before)
        span = move(match, dated.span) if match else None
        if match and span:
            return Dated(span, dated.start - len(before) + match.start(), dated.end)
    return dated


def _related_span(match: re.Match[str], span: Span) -> Span:
    """Return the span for `two days before` or `the Friday after` a date.

    `a week before` is the seven days before. `two weeks before` is that day, give or take half a week.
    """
    unit, sign = match["unit"].lower(), 1 if match["way"].lower() in ("after", "following") else -1
    count = _COUNTS.get((match["count"] or "a").lower()) or min(int(match["count"]), _MOST_UNITS)
    edge = span.first if sign < 0 else span.last
    if unit in _WEEKDAYS:
        near = far = _nearest_weekday(edge, _WEEKDAYS.index(unit), sign)
    elif unit == "weekend":
        far = _nearest_weekday(edge, 6, sign) + sign * 7 * (count - 1)
        near = far - 1
    else:
        length = _UNIT_DAYS[unit]
        near, far = edge + sign * (length * count - length // 2), edge + sign * (length * count + length // 2)
        if count == 1:
            near, far = edge + sign, edge + sign * length
    relation = f"{count} {unit} {sign}"
    return Span(min(near, far), max(near, far), span.yearly, relation, (span.first, span.last))


def _span_beside(match: re.Match[str], span: Span) -> Span | None:
    """Return the week before or after a day. None for longer spans."""
    if span.days > 1:
        return None
    sign = 1 if match["way"].lower() in ("after", "following") else -1
    near = span.first if match["on"] else span.first + sign
    far = span.first + 7 * sign
    return Span(min(near, far), max(near, far), span.yearly, f"week {sign}", (span.first, span.last))


def _days_around(_: re.Match[str], span: Span) -> Span | None:
    """Return a day with the days beside it. None for longer spans."""
    if span.days > 1:
        return None
    return Span(span.first - 1, span.last + 1, span.yearly, _AROUND_DAY, (span.first, span.last))


def _week_around(match: re.Match[str], span: Span) -> Span | None:
    """Return the span of `the week of 9 June` or `the weekend of 9 June`. None for spans longer than a week."""
    if span.days > 7:
        return None
    if match["unit"].lower() == "weekend":
        saturday = _nearest_weekday(span.first + 3, 5, -1)
        first, last = min(saturday, span.first), max(saturday + 1, span.first)
    elif span.days > 2:
        return span  # it is already a week
    else:
        # From the first day of a week that is centred on the date to the last day of a week that begins with it.
        first, last = span.first - 3, span.last + 6
    return Span(first, last, span.yearly, f"{match['unit'].lower()} of", (span.first, span.last))


def _part_of_span(match: re.Match[str], span: Span) -> Span | None:
    """Return the span of `late May` or `the second week of May`. None for spans shorter than a month."""
    part, unit = match["part"].lower(), match["unit"]
    if span.days < _MONTH_DAYS:
        return None
    if part in _THIRDS and not unit:
        third, number = span.days / 3, _THIRDS[part]
        return span._replace(first=span.first + int(third * number), last=span.first + int(third * (number + 1)))
    if part in _THIRDS or not unit or span.days > 31:
        return None
    first = span.last - 6 if part == "last" else span.first + 7 * (int(part) - 1)
    if unit.lower() == "week":
        return span._replace(first=first, last=min(first + 6, span.last))
    saturday = _nearest_weekday(first - 1, 5, 1)
    return span._replace(first=saturday, last=saturday + 1)


_MOVES: tuple[tuple[re.Pattern[str], re.Pattern[str], Callable[[re.Match[str], Span], Span | None]], ...] = (
    (_RELATION_HINT, _RELATION, _related_span),
    (_BESIDE_HINT, _BESIDE, _span_beside),
    (_NEAR_HINT, _NEAR, _days_around),
    (_AROUND_HINT, _AROUND, _week_around),
    (_PART_HINT, _PART, _part_of_span),
)


# Comparison.


def agree(response: Span, reference: Span) -> bool:
    """Return whether two dates overlap and the response is not much vaguer than the reference.

    Two dates with the same relation agree if their anchors are equal, and only then: the words have been read in
    the same way, so the days need not be compared.
    """
    if response.relation == _AROUND_DAY and not reference.relation:
        first, last = response.anchor
        return agree(Span(first, last, response.yearly), reference)
    if response.relation and reference.relation and response.yearly == reference.yearly:
        if response.relation == reference.relation:
            return response.anchor == reference.anchor
        if response.anchor == reference.anchor:
            return overlap(response, reference)
    return not is_vaguer(response, reference) and overlap(response, reference)


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


def is_other_year(one: Span, two: Span) -> bool:
    """Return whether two days or months differ only in the year."""
    if one.yearly or two.yearly or max(one.days, two.days) > 31 or overlap(one, two):
        return False
    year = date.fromordinal(two.first).year
    return overlap(one._replace(yearly=True).in_year(year), two)


def nearness(response: Span, reference: Span) -> float:
    """Return how near a date comes that does not agree, from 0 to 1. Relative dates may be further away."""
    gap = days_apart(response, reference)
    if is_vaguer(response, reference):
        return 0.5 if gap == 0 else 0.0
    reach = 7 if reference.relation else 2
    return max(0.0, 1 - gap / reach) if gap else 0.9
