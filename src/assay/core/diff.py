"""Where two JSON values differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differences(before: Any, after: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted paths at which two JSON values differ. Lists of [name, {...}] pairs are read by name."""
    before, after = _by_name(before), _by_name(after)
    if isinstance(before, dict) and isinstance(after, dict):
        for key in [*before, *(key for key in after if key not in before)]:
            yield from differences(before.get(key), after.get(key), f"{path}.{key}" if path else str(key))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for place, (old, new) in enumerate(zip(before, after, strict=True)):
            yield from differences(old, new, f"{path}[{place}]")
    elif before != after:
        yield path


def _by_name(value: Any) -> Any:
    """Return a list of [name, {...}] pairs as an object. Other items are named by their place."""
    if not isinstance(value, list):
        return value
    named: dict[str | int, Any] = {}
    pairs = 0
    for place, item in enumerate(value):
        if (
            isinstance(item, list)
            and len(item) == 2
            and isinstance(item[0], str)
            and isinstance(item[1], dict)
        ):
            named[item[0]] = item[1]
            pairs += 1
        else:
            named[place] = item
    return named if pairs else value
