"""Replies of a model, read leniently. What has no clear meaning is None, never a guess."""

from __future__ import annotations

import re

_THOUGHTS = re.compile(r"<think>.*?</think>", re.DOTALL)
_SCALE = re.compile(r"(?:/|out of|1 to|1-|1–|between 1 and)\s*10\b", re.IGNORECASE)
_NUMBER = re.compile(r"(?<![\d.\-−])\d+(?:\.\d+)?(?!\.?\d|%)")
_MARKER = re.compile(r"^\s*(?:[-*•]|\(?\d{1,3}[.):])\s*")
_WORD = re.compile(r"[^\W\d_]+")
_YES, _NO = frozenset({"yes", "true"}), frozenset({"no", "false"})


def text_in(reply: str) -> str | None:
    """What was said, without what was thought aloud before it."""
    return _THOUGHTS.sub("", reply).strip() or None


def lines_in(reply: str) -> list[str] | None:
    """Its lines without bullets and numbers in front; one that ends with a colon introduces the others."""
    lines = [_MARKER.sub("", line).strip() for line in (text_in(reply) or "").splitlines()]
    return [line for line in lines if line and not line.endswith((":", "："))] or None


def rating_in(reply: str) -> float | None:
    """The one number from 1 to 10 that it names, as in `7`, `7/10` or `I would say 7 out of 10`."""
    named = {float(number) for number in _NUMBER.findall(_SCALE.sub(" ", text_in(reply) or ""))}
    return rating if len(named) == 1 and 1 <= (rating := named.pop()) <= 10 else None


def choice_in(reply: str) -> bool | None:
    """Yes or no, as its first or its last word; where both are there and differ, neither."""
    words = [word.lower() for word in _WORD.findall(text_in(reply) or "")]
    ends = {word in _YES for word in (*words[:1], *words[-1:]) if word in _YES | _NO}
    return ends.pop() if len(ends) == 1 else None
