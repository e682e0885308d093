"""Days as spans: of a day, a week, a month, a season, a year, or a day of any year."""

from __future__ import annotations

from calendar import monthrange
from datetime import date
from typing import NamedTuple

ANY_YEAR = 2000
"""Stands for the year of a date without one; it has a 29 February."""
_FIRST, _LAST = 1500, 2199


class Span(NamedTuple):
    """Days from `first` to `last`, by number. `yearly`: they are of `ANY_YEAR`, for want of a year.

    `relation` is how it hangs on `anchor`: `the week before 9 June` hangs on 9 June by `week before`.
    """

    first: int
    last: int
    yearly: bool = False
    relation: str = ""
    anchor: tuple[int, int] = (0, 0)

    @property
    def days(self) -> int:
        """How many."""
        return self.last - self.first + 1

    def of_year(self, year: int) -> Span:
        """The same days of a given year, where none was given."""
        if not self.yearly:
            return self
        first, last = date.fromordinal(self.first), date.fromordinal(self.last)
        moved = Span(_moved(first, year), _moved(last, year + last.year - first.year))
        return moved.as_range() if self.relation == "range" else moved

    def as_range(self) -> Span:
        """Marked as a range that was given by its two ends."""
        return self._replace(relation="range", anchor=(self.first, self.last))

    def shifted(self, days: int) -> Span:
        """So many days later."""
        return self._replace(first=self.first + days, last=self.last + days)


class Dated(NamedTuple):
    """A date, and where it stands in the text."""

    span: Span
    start: int
    end: int


def of_days(year: int | None, month: int, day: int, last: int = 0) -> Span | None:
    """One day, or the days up to `last` of the same month; None where there is no such day."""
    known = ANY_YEAR if year is None else year
    if not (_FIRST <= known <= _LAST and 1 <= month <= 12):
        return None
    most = monthrange(known, month)[1]
    last = last or day
    if not 1 <= day <= last <= most:
        return None
    first = date(known, month, day).toordinal()
    return Span(first, first + last - day, year is None)


def of_month(year: int | None, month: int) -> Span | None:
    """A whole month."""
    known = ANY_YEAR if year is None else year
    return of_days(year, month, 1, monthrange(known, month)[1]) if 1 <= month <= 12 else None


def of_season(year: int | None, month: int) -> Span | None:
    """Three months from the given one on. Winter begins in December."""
    first = of_month(year, month)
    if first is None:
        return None
    later = month + 2
    known = ANY_YEAR if year is None else year
    end = date(known + (later > 12), (later - 1) % 12 + 1, 28).toordinal()
    return Span(first.first, end, first.yearly)


def of_years(first: int, last: int) -> Span:
    """Whole years."""
    return Span(date(first, 1, 1).toordinal(), date(last, 12, 31).toordinal())


def overlap(one: Span, two: Span) -> bool:
    """Whether they have a day in common, where the year counts only if both have one."""
    if one.yearly == two.yearly:
        return one.first <= two.last and two.first <= one.last
    with_year, without = (two, one) if one.yearly else (one, two)
    years = range(_year(with_year.first) - 1, _year(with_year.last) + 1)
    return any(overlap(without.of_year(year), with_year) for year in years)


def apart(one: Span, two: Span) -> int:
    """Days between them; 0 where they overlap."""
    if one.yearly != two.yearly:
        return 0 if overlap(one, two) else 365
    return max(0, one.first - two.last, two.first - one.last)


def weekday(span: Span, day: int, way: int) -> Span:
    """The nearest Monday (0) to Sunday (6) before (-1) or after (1) a span."""
    edge = span.first if way < 0 else span.last
    step = (date.fromordinal(edge).weekday() - day) * -way % 7 or 7
    return Span(edge + way * step, edge + way * step, span.yearly)


def _year(day: int) -> int:
    return date.fromordinal(day).year


def _moved(day: date, year: int) -> int:
    last = monthrange(year, day.month)[1]
    return date(year, day.month, min(day.day, last)).toordinal()
