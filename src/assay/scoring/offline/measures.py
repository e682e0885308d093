"""Finds measures that a bare number does not tell apart: times of day, rates and units.

`7 am` and `7 pm` have the same number, as have `3 times a day` and `3 times a week`, or `$20` and `20 euros`. All
functions expect the result of `words.fold` and `numbers.in_digits`.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from assay.scoring.offline.numbers import DAYS, UNIT_TOLERANCE, number_of

# Of ASCII letters only: otherwise `i` also matches the Turkish i without a dot, which no table of names has.
_ANY_CASE = re.IGNORECASE | re.ASCII

# Times of day.

_DIAL = 12 * 60
_PART_OF_DAY = {"morning": "am", "afternoon": "pm", "evening": "pm", "noon": "pm", "midnight": "am"}
_PART_OF_DAY |= {"上午": "am", "早上": "am", "凌晨": "am", "下午": "pm", "晚上": "pm", "傍晚": "pm"}
_CLOCK = re.compile(
    r"(?<![\d:.,$])(?P<hour>\d{1,2})(?::(?P<minute>\d\d))?(?![\d:])\s*(?:o['’]?clock\s*)?"
    r"(?:(?P<half>am|pm)\b|in the (?P<part>morning|afternoon|evening)\b)?"
    r"|\b(?P<name>noon|midnight)\b"
    r"|(?P<before>上午|早上|凌晨|下午|晚上|傍晚)(?P<point>\d{1,2})[点时:]",
    re.IGNORECASE,
)
_CLOCK_HINT = re.compile(
    r"\d\s*[ap]m\b|\d:\d|clock|in the (?:morning|afternoon|evening)|noon|midnight|[点时]", re.IGNORECASE
)


class ClockTime(NamedTuple):
    """A time of day in minutes on a dial of twelve hours, and its half of the day, which is empty if unknown."""

    minutes: int
    half: str


def clock_times_in(text: str) -> list[ClockTime]:
    """Return the times of day: `7 pm`, `19:30`, `7 in the evening`, `noon`. A bare number is no time."""
    if not _CLOCK_HINT.search(text):
        return []
    times = []
    for match in _CLOCK.finditer(text):
        part = (match["part"] or match["name"] or match["before"] or "").lower()
        half = (match["half"] or "").lower() or _PART_OF_DAY.get(part, "")
        if match["name"]:
            times.append(ClockTime(0, half))
            continue
        hour = int(match["hour"] or match["point"])
        if hour > 24 or not (half or match["minute"]):
            continue
        if hour > 12 or (hour == 0 and match["minute"]):
            half = "am" if hour in (0, 24) else "pm"
        times.append(ClockTime((hour * 60 + int(match["minute"] or 0)) % _DIAL, half))
    return times


# Rates.

_PERIODS = DAYS | {"fortnight": 14, "morning": 1, "afternoon": 1, "evening": 1, "night": 1, "weekend": 7}
_PERIODS |= dict.fromkeys(("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday"), 7)
_ADVERBS = {"hourly": "hour", "daily": "day", "nightly": "day", "weekly": "week", "monthly": "month"}
_ADVERBS |= {"yearly": "year", "annually": "year", "annual": "year"}
_PERIOD = "|".join(name for name in _PERIODS if name.isascii())
_RATE = re.compile(
    rf"\b(?:every|each|per)\s+(?:single\s+)?(?:(?P<count>other|\d{{1,3}})\s+)?(?P<period>{_PERIOD})s?\b"
    rf"|(?:\d|\b(?:times?|minutes?|hours?|days?|nights?))\s+an?\s+(?P<of>{_PERIOD})\b"
    rf"|\b(?P<adverb>{'|'.join(_ADVERBS)})\b|每(?P<chinese>天|周|个?星期|个?月|年|个?小时)",
    _ANY_CASE,
)
# Every rate has one of these in lower case.
_RATE_HINT = re.compile("day|week|month|year|hour|minute|night|morning|evening|afternoon|annual|daily|每")


def rates_in(text: str) -> list[float]:
    """Return the days between two times: 7 for `every week`, `weekly` and `3 times a week`, 14 for `every 2 weeks`."""
    if not _RATE_HINT.search(text.lower()):
        return []
    rates: list[float] = []
    for match in _RATE.finditer(text):
        if adverb := match["adverb"]:
            period = _ADVERBS[adverb.lower()]
        else:
            period = (match["period"] or match["of"] or match["chinese"]).lower().removeprefix("个")
        count = match["count"] or "1"
        rates.append(_PERIODS[period] * (2 if count.lower() == "other" else int(count)))
    return rates


def same_rate(one: float, other: float) -> bool:
    """Return whether two rates are equal, with the tolerance of durations."""
    return abs(one - other) <= UNIT_TOLERANCE * one


# Units.

# Each line is one unit. `pound` is a weight and a currency, `¥` is two currencies.
_UNIT_NAMES = """
dollar dollars usd buck bucks $ 美元 美金
euro euros eur € 欧元
sterling gbp quid £ pound pounds 英镑
yen jpy ¥ 日元
yuan rmb cny ¥ 元 块 人民币
rupee rupees inr ₹
percent % 百分
mile miles
kilometer kilometers kilometre kilometres km kms 公里 千米
meter meters metre metres 米
foot feet ft
inch inches
centimeter centimeters centimetre centimetres cm 厘米
yard yards
kilogram kilograms kilo kilos kg kgs 公斤 千克
lb lbs pound pounds
ounce ounces oz
gram grams
liter liters litre litres
gallon gallons
celsius
fahrenheit
"""
_UNIT_LINES = [frozenset(line.split()) for line in _UNIT_NAMES.splitlines()]
_UNITS = {
    name: frozenset(number for number, line in enumerate(_UNIT_LINES) if name in line)
    for name in sorted(frozenset().union(*_UNIT_LINES))
}
_SIGNS = "".join(name for name in _UNITS if len(name) == 1 and not name.isalnum() and name != "%")
_NAMES = "|".join(sorted((name for name in _UNITS if name not in _SIGNS), key=len, reverse=True))
_NUMBER = r"\d+(?:,\d{3})*(?:\.\d+)?"
_MEASURE = re.compile(
    rf"(?P<sign>[{re.escape(_SIGNS)}])\s?(?P<after>{_NUMBER})"
    rf"|(?<![\d.,])(?P<before>{_NUMBER})(?:[\s-]?degrees?)?[\s-]?(?P<unit>{_NAMES}|[{re.escape(_SIGNS)}])(?![a-z])",
    _ANY_CASE,
)


def units_in(text: str) -> dict[float, frozenset[int]]:
    """Map each number that has a unit to the units that it may have: `$20` and `20 dollars` have the same."""
    units: dict[float, frozenset[int]] = {}
    for match in _MEASURE.finditer(text):
        value = number_of(match["after"] or match["before"])
        unit = _UNITS[(match["sign"] or match["unit"]).lower()]
        units[value] = units.get(value, frozenset()) | unit
    return units


def number_of_other_unit(reference: str, response: str) -> float | None:
    """Return a number that has a unit in both texts, but not the same. None if there is none."""
    expected = units_in(reference)
    units = units_in(response) if expected else {}
    others = (value for value in expected if value in units and expected[value].isdisjoint(units[value]))
    return next(others, None)
