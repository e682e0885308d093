"""Finds the paths at which two JSON values differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted paths at which two JSON values differ. Lists of [name, {...}] pairs are matched by name."""
    before, after = _by_name(before), _by_name(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from differences(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for position, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}[{position}]")
    elif before != after:
        yield path


def _by_name(value: Any) -> Any:
    """Return a list of [name, {...}] pairs as an object. Other items get their position as key."""
    if not isinstance(value, list):
        return value
    items: dict[str | int, Any] = {}
    pairs = 0
    for position, item in enumerate(value):
        if isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], dict):
            items[item[0]] = item[1]
            pairs += 1
        else:
            items[position] = item
    return items if pairs else value
