"""Budgets in words. A character of a script without spaces counts as a word."""

from __future__ import annotations

import re
from collections.abc import Iterable

WITHOUT_SPACES = (
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff"
    "\uac00-\ud7af\uf900-\ufaff\U00020000-\U0003ffff"
)
"""Thai and Lao, Myanmar, Khmer, kana, Han, Hangul: ranges for a class of a regular expression."""
_WORD = re.compile(rf"[{WITHOUT_SPACES}]|[^\s{WITHOUT_SPACES}]+")


def words_in(text: str) -> int:
    """How many words it has."""
    return len(_WORD.findall(text))


def first_words(text: str, most: int) -> str:
    """Its beginning, with all white space between the words that stay."""
    places = [word.end() for word in _WORD.finditer(text)]
    return text if len(places) <= most else text[: places[most - 1] if most > 0 else 0]


def last_words(text: str, most: int) -> str:
    """Its end."""
    places = [word.start() for word in _WORD.finditer(text)]
    return text if len(places) <= most else text[places[-most] if most > 0 else len(text) :]


def newest(texts: Iterable[str], most: int) -> str:
    """A line each, in order; the last words of all where the budget is smaller."""
    return last_words("\n".join(texts), most)
