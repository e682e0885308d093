"""Finds numbers and durations in a text: in digits, in English words, in Chinese numerals."""

from __future__ import annotations

import re
from typing import NamedTuple

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_ORDINAL_WORDS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_VALUES = {word: value for value, word in enumerate(_SMALL.split())}
_VALUES |= {word: tens * 10 for tens, word in enumerate(_TENS.split(), 2)}
_ORDINALS = {word: value for value, word in enumerate(_ORDINAL_WORDS.split())}
_ORDINALS |= {f"{word[:-1]}ieth": value for word, value in _VALUES.items() if value >= 20}
_MULTIPLES = {
    "once": 1,
    "twice": 2,
    "thrice": 3,
    "dozen": 12,
    "double": 2,
    "triple": 3,
    "pair": 2,
    "couple": 2,
}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000}
_UNIT = "|".join(sorted([*_VALUES, *_ORDINALS, *_MULTIPLES], key=len, reverse=True))
_SCALE = "|".join(_SCALES)
_NUMBER_WORDS = re.compile(
    rf"\b(?:(?:{_UNIT}|a)[\s-]+(?:{_SCALE})s?\b(?:[\s-]+(?:and[\s-]+)?(?:{_UNIT})\b)*"
    rf"|(?:{_UNIT})\b(?:[\s-](?:{_UNIT})\b)?)",
    re.IGNORECASE,
)
_WORD = re.compile("[a-z]+")
_ALL_NUMBER_WORDS = frozenset((*_VALUES, *_ORDINALS, *_MULTIPLES, *_SCALES, *(f"{scale}s" for scale in _SCALES)))
# After these words `second` is a unit of time and not the number 2: `5 second`, `a second`, `per second`.
_BEFORE_SECOND = re.compile(r"(?:\d|\ba|\bper|\beach|\bevery|\bsplit)[\s-]*$", re.IGNORECASE)
_CHINESE_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_CHINESE_STEPS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}
# `一` is no number in 一共, 一起, 一些 and other words.
_CHINESE = re.compile("(?!一[共起直样定些下般切旦致])[零〇一二三四五六七八九十百千万亿两]{1,24}")
# A number, and whether it counts thousands. Begins with one digit, so that a search skips everything else.
_NUMBER = re.compile(r"(\d\d*(?:(?:,\d{3})+(?:\.\d+)?|\.\d+)?)(\s?[kK]\b)?")

_ENGLISH_UNIT = "minute|hour|day|week|month|year"
_DURATION = re.compile(
    rf"(?<!\d)(\d{{1,9}}(?:\.\d{{1,9}})?)(?:\s+|-)?({_ENGLISH_UNIT}|分钟|个?小时|天|周|个?星期|个?月|年)s?",
    # Of ASCII letters only: otherwise `i` also matches the Turkish i without a dot.
    re.IGNORECASE | re.ASCII,
)
# Days of each unit. A month is a twelfth of a year.
DAYS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1, "week": 7, "month": 30.4, "year": 365}
DAYS |= {"分钟": 1 / 1440, "小时": 1 / 24, "天": 1, "周": 7, "星期": 7, "月": 30.4, "年": 365}
# Durations in different units may differ by this share, so that 30 days equal a month and 52 weeks equal a year.
UNIT_TOLERANCE = 0.07
_HALF = re.compile(
    rf"(?<!\d)(?P<count>\d{{1,9}}) and (?:a )?half (?P<unit>{_ENGLISH_UNIT})"
    rf"|\b(?P<one>an?|\d{{1,9}}) (?P<of>{_ENGLISH_UNIT})s? and a half"
    rf"|\bhalf[\s-](?:an? )?(?P<half>{_ENGLISH_UNIT})",
    re.IGNORECASE,
)
# `a week` is a duration after these words, before `ago` and similar words, and where a text or a clause begins.
# Elsewhere it is a rate (`twice a week`) or a point in time. `a day or two` is not one day.
_ARTICLE = re.compile(
    r"(?P<before>(?:^|[(,:;]|\b(?:for|about|around|approximately|roughly|nearly|almost|over|under|only|just|in|within"
    r"|after|took|takes?|lasts?|lasted|spent|spends?|than|least|most|is|was|be))\s*)"
    rf"\ban?\s(?=(?:{_ENGLISH_UNIT})\b(?! or\b))"
    rf"|(?<!\d )(?<!times )\ban?\s(?=(?:{_ENGLISH_UNIT}) (?:before|after|later|ago|earlier|prior)\b)",
    re.IGNORECASE,
)
# Most texts have none of these in lower case.
_UNIT_HINT = re.compile(f"{_ENGLISH_UNIT}|[分小天周星月年]")
_ARTICLE_HINT = re.compile(rf"(?:\ban?|half)[\s-](?:an? )?(?:{_ENGLISH_UNIT}|half)", re.IGNORECASE)
# `1. ` or `2) ` before an item of a list.
_LIST_MARKER = re.compile(r"(?<![\w.,$])(\d{1,2})[.)](?=[\s*]+\S)")


class Duration(NamedTuple):
    """A duration in days, and the unit in which the text gives it."""

    days: float
    unit: str

    def equals(self, other: Duration) -> bool:
        """Return whether two durations are equal. With different units they only have to be nearly equal."""
        tolerance = 1e-9 if self.unit == other.unit else UNIT_TOLERANCE * self.days
        return abs(self.days - other.days) <= tolerance


def in_digits(text: str) -> str:
    """Return the text with number words as digits: `twenty-one` is 21, `third` 3, `twice` 2, `三十` 30."""
    text = text if text.isascii() else _CHINESE.sub(_from_chinese, text)
    # The pattern tries every number word at every position, which is slow. Most texts contain none of them.
    if _ALL_NUMBER_WORDS.isdisjoint(_WORD.findall(text.lower())):
        return text
    return _NUMBER_WORDS.sub(_from_english, text)


def numbers_in(text: str) -> list[float]:
    """Return all numbers of a text in order. Expects the result of `in_digits`. `10k` is ten thousand."""
    numbers = []
    for digits, thousands in _NUMBER.findall(text):
        value = number_of(digits)
        numbers.append(value * 1000 if thousands else value)
    return numbers


def number_of(digits: str) -> float:
    """Return the value of digits with commas between thousands."""
    # Cut, because numbers of more than 308 digits exceed a float.
    return float(digits.replace(",", "")[:300])


def without_list_markers(text: str) -> str:
    """Return the text without the numbers of list items, `1. tea 2. coffee`: they say nothing about how many.

    They begin with 1, and there are at least two.
    """
    markers: list[re.Match[str]] = []
    for match in _LIST_MARKER.finditer(text):
        if int(match[1]) == len(markers) + 1:
            markers.append(match)
    if len(markers) < 2:
        return text
    for match in reversed(markers):
        text = f"{text[: match.start()]} {text[match.end() :]}"
    return text


def durations_in(text: str) -> list[Duration]:
    """Return all durations of a text. `2 weeks` and `14 days` are equal, as are `an hour` and `60 minutes`."""
    if not _UNIT_HINT.search(text.lower()):
        return []
    if _ARTICLE_HINT.search(text):
        text = _ARTICLE.sub(lambda match: f"{match['before'] or ''}1 ", _HALF.sub(_with_half, text))
    matches = ((float(match[1]), match[2].lower().removeprefix("个")) for match in _DURATION.finditer(text))
    return [Duration(count * DAYS[unit], unit) for count, unit in matches]


def _with_half(match: re.Match[str]) -> str:
    """Return `2.5 hour` for `2 and a half hours`, `1.5 hour` for `an hour and a half`, `0.5 hour` for half an hour."""
    if match["half"]:
        return f"0.5 {match['half']}"
    count = match["count"] or match["one"]
    return f"{count if count.isdecimal() else 1}.5 {match['unit'] or match['of']}"


def _from_english(match: re.Match[str]) -> str:
    words = _WORD.findall(match.group().lower())
    if words == ["second"] and _BEFORE_SECOND.search(match.string, max(0, match.start() - 8), match.start()):
        return match.group()
    total, part = 0, 0
    for word in words:
        scale = _SCALES.get(word.rstrip("s"))
        if scale:
            part = max(part, 1) * scale
            if part >= 1000:
                total, part = total + part, 0
            continue
        value = _VALUES.get(word, _ORDINALS.get(word, _MULTIPLES.get(word, 0)))
        continues = part % 10 == 0 and part >= 20 and value < 10
        if part and not continues and part % 100:
            # Two separate numbers side by side, such as `two three`.
            return match.group() if len(words) > 2 else f"{part} {value}"
        part += value
    return str(total + part)


def _from_chinese(match: re.Match[str]) -> str:
    signs = match.group()
    if not any(sign in _CHINESE_STEPS for sign in signs):
        return "".join(str(_CHINESE_DIGITS[sign]) for sign in signs)
    total = part = digit = 0
    for sign in signs:
        if sign in _CHINESE_DIGITS:
            digit = _CHINESE_DIGITS[sign]
        elif _CHINESE_STEPS[sign] >= 10_000:
            total, part, digit = (total + part + digit or 1) * _CHINESE_STEPS[sign], 0, 0
        else:
            part, digit = part + (digit or 1) * _CHINESE_STEPS[sign], 0
    return str(total + part + digit)
