"""What is made of a model's reply: the text, JSON, a number, a match, a list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from itertools import islice
from math import isfinite
from typing import Any

import msgspec

from assay.solvers.steps.failing import StepFailed

Parser = Callable[[str], Any]
NAMES = ("text", "json", "regex", "number", "list")
_SAME = {"none": "text", "str": "text", "string": "text"}
_FENCE = re.compile(r"```[\w-]*\s*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"(?:(?<![\w.])[-+])?(?:\d[\d,]*(?:\.\d+)?|\.\d+)(?:[eE][-+]?\d+)?")
_BEGIN = re.compile(r"[{\[]")
_decoder = json.JSONDecoder()
_SHOWN = 200
_MOST_BEGINNINGS = 100
"""A text of many brackets would be read again from each of them."""


def parser(told: Any) -> Parser:
    """From `json`, or `{type: regex, pattern: ..., group: 1}`. Raises ValueError with what is wrong."""
    settings: Mapping[str, Any] = told if isinstance(told, dict) else {"type": told or "text"}
    name = _SAME.get(str(settings.get("type", "text")), str(settings.get("type", "text")))
    if name not in NAMES:
        raise ValueError(f"there is no parser {name!r}; known: {', '.join(NAMES)}")
    if name == "regex":
        return _regex(settings)
    return _PARSERS[name]


def parse_json(text: str) -> Any:
    """The JSON of a reply: all of it, what a code fence holds, or the first object or list in it."""
    for piece in _pieces(text):
        try:
            return msgspec.json.decode(piece.strip())
        except (ValueError, RecursionError):  # text that is no JSON, or nested a thousand deep
            continue
    raise StepFailed(f"the reply holds no JSON: {_cut(text)}", "bad_output")


def _pieces(text: str) -> Iterator[str]:
    """Where JSON may stand, the likeliest first."""
    yield text
    for fenced in _FENCE.finditer(text):
        yield fenced[1]
    for begin in islice(_BEGIN.finditer(text), _MOST_BEGINNINGS):
        try:
            end = _decoder.raw_decode(text, begin.start())[1]
        except (ValueError, RecursionError):
            continue
        yield text[begin.start() : end]  # read once more: Python's decoder takes NaN, a journal does not


def _number(text: str) -> float | int:
    """The last number in the text. A hyphen after a letter or digit is no minus; 85% is 85."""
    found = _NUMBER.findall(text)
    if not found:
        raise StepFailed(f"the reply holds no number: {_cut(text)}", "bad_output")
    digits = found[-1].replace(",", "")
    value = float(digits)
    if not isfinite(value):
        raise StepFailed(f"the number {_cut(digits)} is too large", "bad_output")
    return value if set(".eE") & set(digits) else int(digits)


def _list(text: str) -> list[str]:
    return [piece.strip() for piece in text.split(",") if piece.strip()]


def _regex(settings: Mapping[str, Any]) -> Parser:
    pattern, group = settings.get("pattern"), settings.get("group")
    if not isinstance(pattern, str):
        raise ValueError("a regex parser needs a `pattern`")  # noqa: TRY004 - a file is wrong, not a program
    try:
        compiled = re.compile(pattern, re.DOTALL)
    except re.error as error:
        raise ValueError(f"the pattern does not compile: {error}") from None
    named = group is None and bool(compiled.groupindex)
    group = (1 if compiled.groups else 0) if group is None else group
    if not _has(compiled, group):
        raise ValueError(f"the pattern has no group {group!r}")

    def find(text: str) -> Any:
        match = compiled.search(text)
        if match is None:
            raise StepFailed(f"the pattern {pattern!r} does not match: {_cut(text)}", "bad_output")
        return match.groupdict() if named else match[group]

    return find


def _has(pattern: re.Pattern[str], group: Any) -> bool:
    if type(group) is int:
        return 0 <= group <= pattern.groups
    return isinstance(group, str) and group in pattern.groupindex


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


_PARSERS: dict[str, Parser] = {"text": str.strip, "json": parse_json, "number": _number, "list": _list}
