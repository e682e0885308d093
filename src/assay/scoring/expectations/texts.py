"""Values as texts: whole where they are searched, short where a sentence names them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

_LONGEST = 80
_MOST_NAMES = 8


def as_text(value: Any) -> str:
    """A text as it is, anything else as JSON, so that `contains:` may look into lists and objects."""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def shown(value: Any) -> str:
    """For a sentence: texts in quotes, the rest as JSON, both cut when long."""
    text = repr(value) if isinstance(value, str) else as_text(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def unequal(expected: Any, actual: Any) -> str:
    """The sentence for two values that are not the same; the type is named where it is what differs."""
    if isinstance(actual, (dict, list, tuple)):
        found = container(actual)
    elif isinstance(actual, str) and not isinstance(expected, str):
        found = f"the text {shown(actual)}"
    else:
        found = shown(actual)
    return f"expected {shown(expected)}, found {found}"


def container(value: Any) -> str:
    """An object by its keys, a list by its length."""
    if not isinstance(value, dict):
        return f"a list of {counted(len(value), 'item')}"
    return f"an object with {counted(len(value), 'key')}: {listed(value)}" if value else "an empty object"


def counted(count: int, noun: str) -> str:
    """`1 item`, `2 items`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def listed(keys: Iterable[Any]) -> str:
    """The first few names, and how many there are besides."""
    names = [str(key) for key in keys]
    more = len(names) - _MOST_NAMES
    return ", ".join(names[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")
