"""`key=value,key=value` as people write it on a command line."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import UsageError

_WORDS = {"true": True, "false": False, "none": None, "null": None}


def parse_pairs(text: str) -> dict[str, Any]:
    """`a=1,b=x` as a dict, values read as literals; a JSON object as it is; or a JSON file with one."""
    if text.endswith(".json") and "=" not in text:
        text = _file(text)
    if text.lstrip().startswith("{"):
        try:
            return msgspec.json.decode(text, type=dict[str, Any])
        except msgspec.DecodeError as error:
            raise UsageError(f"not a JSON object: {error}: {text!r}") from None
    pairs = {}
    for item in filter(None, _split(text)):
        key, equals, value = item.partition("=")
        if not equals:
            raise UsageError(f"expected key=value, found {item!r} in {text!r}")
        pairs[key.strip()] = _literal(value.strip())
    return pairs


def _split(text: str) -> list[str]:
    """At commas that stand in no brackets and no quotes: `stop=["a","b"]` is one pair."""
    parts, depth, quote = [""], 0, ""
    for char in text:
        if quote:
            quote = "" if char == quote else quote
        elif char in "\"'" and (depth or parts[-1].endswith("=")):
            quote = char
        else:
            depth = max(0, depth + (char in "[({") - (char in "])}"))
        if char == "," and not depth and not quote:
            parts.append("")
        else:
            parts[-1] += char
    return parts


def _file(name: str) -> str:
    try:
        return Path(name).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{name!r} cannot be read: {error}") from None


def _literal(value: str) -> Any:
    if value.lower() in _WORDS:
        return _WORDS[value.lower()]
    try:
        return ast.literal_eval(value)
    except (ValueError, SyntaxError):
        return value
