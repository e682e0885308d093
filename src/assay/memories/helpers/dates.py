"""Reads the date of a session, for systems that take a moment instead of a text."""

from __future__ import annotations

import re
from datetime import UTC, datetime

_MONTHS = ("jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec")
_MONTH = rf"(?P<month>{'|'.join(_MONTHS)})[a-z]*"
# 2023-05-20, 2023/05/20, 2023年5月20日; 8 May, 2023; May 8, 2023
_DAYS = (
    re.compile(r"(?P<year>\d{4})\s*[-/.年]\s*(?P<month>\d{1,2})\s*[-/.月]\s*(?P<day>\d{1,2})"),
    re.compile(rf"(?P<day>\d{{1,2}})(?:st|nd|rd|th)?\s+(?:of\s+)?{_MONTH}\.?,?\s+(?P<year>\d{{4}})", re.IGNORECASE),
    re.compile(rf"{_MONTH}\.?\s+(?P<day>\d{{1,2}})(?:st|nd|rd|th)?,?\s+(?P<year>\d{{4}})", re.IGNORECASE),
)
_TIME = re.compile(r"(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(am|pm)?", re.IGNORECASE)


def read_date(text: str) -> datetime | None:
    """Return the moment that a text such as `1:56 pm on 8 May, 2023` names, in UTC. None if it names no day."""
    for pattern in _DAYS:
        if match := pattern.search(text):
            break
    else:
        return None
    month = match["month"].lower()
    number = _MONTHS.index(month[:3]) + 1 if month[:3] in _MONTHS else int(month)
    rest = text[: match.start()] + " " + text[match.end() :]
    hour, minute, second = _read_time(rest)
    try:
        return datetime(int(match["year"]), number, int(match["day"]), hour, minute, second, tzinfo=UTC)
    except ValueError:  # the 31st of February
        return None


def _read_time(text: str) -> tuple[int, int, int]:
    match = _TIME.search(text)
    if match is None:
        return 0, 0, 0
    hour = int(match[1])
    if match[4]:
        hour = hour % 12 + 12 * (match[4].lower() == "pm")
    return hour, int(match[2]), int(match[3] or 0)
