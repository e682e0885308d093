"""What is made of a model's reply: the text, JSON, a number, a match, a list."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from assay.solvers.steps.failing import StepFailed

Parser = Callable[[str], Any]
NAMES = ("text", "json", "regex", "number", "list")
_SAME = {"none": "text", "str": "text", "string": "text"}
_FENCE = re.compile(r"```[\w-]*\s*\n(.*?)```", re.DOTALL)
_NUMBER = re.compile(r"[-+]?(?:\d[\d,]*\.?\d*|\.\d+)(?:[eE][-+]?\d+)?")
_decoder = json.JSONDecoder()
_SHOWN = 200


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
    fenced = _FENCE.search(text)
    for piece in (text, fenced[1] if fenced else None):
        if piece is not None:
            try:
                return msgspec.json.decode(piece.strip())
            except msgspec.DecodeError:
                continue
    begin = min((at for at in (text.find("{"), text.find("[")) if at >= 0), default=-1)
    if begin >= 0:
        try:
            return _decoder.raw_decode(text, begin)[0]
        except ValueError:
            pass
    raise StepFailed(f"the reply holds no JSON: {_cut(text)}", "bad_output")


def _number(text: str) -> float | int:
    """The last number in the text."""
    found = _NUMBER.findall(text)
    if not found:
        raise StepFailed(f"the reply holds no number: {_cut(text)}", "bad_output")
    value = float(found[-1].replace(",", ""))
    return int(value) if value.is_integer() and not set(".eE") & set(found[-1]) else value


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
    group = (1 if compiled.groups else 0) if group is None else group

    def find(text: str) -> Any:
        match = compiled.search(text)
        if match is None:
            raise StepFailed(f"the pattern {pattern!r} does not match: {_cut(text)}", "bad_output")
        return match.groupdict() or match[group]

    return find


def _cut(text: str) -> str:
    return repr(text if len(text) <= _SHOWN else text[:_SHOWN] + "…")


_PARSERS: dict[str, Parser] = {"text": str.strip, "json": parse_json, "number": _number, "list": _list}
