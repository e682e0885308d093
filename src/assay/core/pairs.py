"""`key=value,key=value` as people write it on a command line."""

from __future__ import annotations

import ast
from typing import Any

import msgspec

from assay.core.errors import UsageError

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse_pairs(text: str) -> dict[str, Any]:
    """`a=1,b=x` as a dict, values read as literals where they are some; a JSON object is taken as it is."""
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UsageError(f"not a JSON object: {error}: {text!r}") from None
    pairs = {}
    for item in filter(None, text.split(",")):
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"expected key=value, found {item!r} in {text!r}")
        pairs[key.strip()] = _literal(value.strip())
    return pairs


def _literal(value: str) -> Any:
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
