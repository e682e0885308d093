"""Numbers in a text, however they are written: digits, English words, Chinese numerals."""

from __future__ import annotations

import re
from typing import NamedTuple

_SMALL = (
    "zero one two three four five six seven eight nine ten eleven twelve thirteen fourteen fifteen sixteen "
    "seventeen eighteen nineteen"
)
_TENS = "twenty thirty forty fifty sixty seventy eighty ninety"
_RANKS = (
    "zeroth first second third fourth fifth sixth seventh eighth ninth tenth eleventh twelfth thirteenth "
    "fourteenth fifteenth sixteenth seventeenth eighteenth nineteenth"
)
_VALUES = {word: value for value, word in enumerate(_SMALL.split())}
_VALUES |= {word: value for value, word in enumerate(_TENS.split(), 2) for value in [value * 10]}
_ORDINALS = {word: value for value, word in enumerate(_RANKS.split())}
_ORDINALS |= {f"{word[:-1]}ieth": value for word, value in _VALUES.items() if value >= 20}
_TIMES = {"once": 1, "twice": 2, "thrice": 3, "dozen": 12, "double": 2, "triple": 3, "pair": 2, "couple": 2}
_SCALES = {"hundred": 100, "thousand": 1000, "million": 1_000_000, "billion": 1_000_000_000}
_UNIT = "|".join(sorted([*_VALUES, *_ORDINALS, *_TIMES], key=len, reverse=True))
_SCALE = "|".join(_SCALES)
_WORDED = re.compile(
    rf"\b(?:(?:{_UNIT}|a)[\s-]+(?:{_SCALE})s?\b(?:[\s-]+(?:and[\s-]+)?(?:{_UNIT})\b)*"
    rf"|(?:{_UNIT})\b(?:[\s-](?:{_UNIT})\b)?)",
    re.IGNORECASE,
)
_WORD = re.compile("[a-z]+")
_KNOWN = frozenset((*_VALUES, *_ORDINALS, *_TIMES, *_SCALES, *(f"{scale}s" for scale in _SCALES)))
_OF_TIME = re.compile(r"(?:\d|\ba|\bper|\beach|\bevery|\bsplit)[\s-]*$", re.IGNORECASE)
_DIGITS = {sign: value for value, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_STEPS = {"十": 10, "百": 100, "千": 1000, "万": 10_000, "亿": 100_000_000}
_CHINESE = re.compile("[零〇一二三四五六七八九十百千万亿两]{1,24}")
_NUMBER = re.compile(r"\d+(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?")
_RANK = re.compile(r"(?<=\d)(?:st|nd|rd|th)\b", re.IGNORECASE)
_MANY = re.compile(r"(?<=\d)\s?k\b", re.IGNORECASE)

_LASTING = re.compile(
    r"(?<!\d)(\d{1,9}(?:\.\d{1,9})?)(?:\s+|-)?(minute|hour|day|week|month|year|分钟|小时|天|周|星期|个?月|年)s?",
    re.IGNORECASE,
)
_LENGTHS = {"minute": 1 / 1440, "hour": 1 / 24, "day": 1, "week": 7, "month": 30.4, "year": 365}
_LENGTHS |= {
    "分钟": 1 / 1440,
    "小时": 1 / 24,
    "天": 1,
    "周": 7,
    "星期": 7,
    "月": 30.4,
    "个月": 30.4,
    "年": 365,
}
_NEARLY = 0.07


class Lasting(NamedTuple):
    """A length of time in days, and the unit that it was given in."""

    days: float
    unit: str

    def same(self, other: Lasting) -> bool:
        """Equal in the same unit, nearly equal in another: a month has 30.4 days."""
        return abs(self.days - other.days) <= (_NEARLY * self.days if self.unit != other.unit else 1e-9)


def in_digits(text: str) -> str:
    """The text with number words as digits: `twenty-one` is 21, `third` 3, `twice` 2, `三十` 30."""
    text = text if text.isascii() else _CHINESE.sub(_from_chinese, text)
    if _KNOWN.isdisjoint(_WORD.findall(text.lower())):
        return text  # looking for every number word at every place costs most of the reading
    return _WORDED.sub(_from_english, text)


def numbers_in(text: str) -> list[float]:
    """Every number of a text that `in_digits` has passed, in order. `10k` is ten thousand."""
    return [_value(found.group(), text, found.end()) for found in _NUMBER.finditer(text)]


def without_ranks(text: str) -> str:
    """`7th` becomes `7`, so that both are the same word."""
    return _RANK.sub("", text)


def _value(digits: str, text: str, end: int) -> float:
    value = float(digits.replace(",", "")[:300])
    return value * 1000 if _MANY.match(text, end) else value


def _from_english(found: re.Match[str]) -> str:
    words = _WORD.findall(found.group().lower())
    if words in (["double"], ["pair"]) or (
        words == ["second"] and _OF_TIME.search(found.string, max(0, found.start() - 8), found.start())
    ):
        return found.group()
    total, part = 0, 0
    for word in words:
        if word.rstrip("s") in _SCALES:
            part = max(part, 1) * _SCALES[word.rstrip("s")]
            total, part = (total + part, 0) if part >= 1000 else (total, part)
        else:
            value = _VALUES.get(word, _ORDINALS.get(word, _TIMES.get(word, 0)))
            if part and not (part % 10 == 0 and part >= 20 and value < 10) and part % 100:
                return found.group() if len(words) > 2 else f"{part} {value}"
            part += value
    return str(total + part)


def _from_chinese(found: re.Match[str]) -> str:
    signs = found.group()
    if not any(sign in _STEPS for sign in signs):
        return "".join(str(_DIGITS[sign]) for sign in signs)
    total = part = digit = 0
    for sign in signs:
        if sign in _DIGITS:
            digit = _DIGITS[sign]
        elif _STEPS[sign] >= 10_000:
            total, part, digit = (total + part + digit or 1) * _STEPS[sign], 0, 0
        else:
            part, digit = part + (digit or 1) * _STEPS[sign], 0
    return str(total + part + digit)


def durations_in(text: str) -> list[Lasting]:
    """Lengths of time: `2 weeks` and `14 days` are the same."""
    found = ((match[1], match[2].lower()) for match in _LASTING.finditer(text))
    return [Lasting(float(count) * _LENGTHS[unit], unit) for count, unit in found]
