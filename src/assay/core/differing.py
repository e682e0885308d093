"""Where two JSON values differ."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def differences(before: Any, now: Any, at: str = "") -> Iterator[str]:
    """Dotted places at which two JSON values differ. Lists of [name, value] are read by name."""
    before, now = _named(before), _named(now)
    if isinstance(before, dict) and isinstance(now, dict):
        for key in [*before, *(key for key in now if key not in before)]:
            yield from differences(before.get(key), now.get(key), f"{at}.{key}" if at else str(key))
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        for position, (one, other) in enumerate(zip(before, now, strict=True)):
            yield from differences(one, other, f"{at}[{position}]")
    elif before != now:
        yield at


def _named(value: Any) -> Any:
    if not isinstance(value, list) or not any(_is_named(item) for item in value):
        return value
    return {
        item[0] if _is_named(item) else at: item[1] if _is_named(item) else item
        for at, item in enumerate(value)
    }


def _is_named(item: Any) -> bool:
    return (
        isinstance(item, list) and len(item) == 2 and isinstance(item[0], str) and isinstance(item[1], dict)
    )
