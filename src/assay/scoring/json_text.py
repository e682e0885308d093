"""JSON that a model wrote as text."""

from __future__ import annotations

import json
from typing import Any

_FENCE = "```"


def unfenced(text: str) -> str:
    """Without white space around it, and without one code fence around all of it."""
    text = text.strip()
    opening, newline, body = text.partition("\n")
    if newline and opening.startswith(_FENCE) and body.endswith(_FENCE) and "`" not in opening[3:]:
        return body.removesuffix(_FENCE).strip()
    return text


def read_json(text: str) -> Any:
    """The one value that the text is. ValueError for anything around it, NaN, or a key that stands twice."""
    try:
        return json.loads(unfenced(text), object_pairs_hook=_unique, parse_constant=_no_constant)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def _unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    values = dict(pairs)
    if len(values) < len(pairs):
        names = [key for key, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"the key {twice!r} stands there twice")
    return values


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
