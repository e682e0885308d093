"""Values of tables and of Python as JSON has them, the way samples files show them."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

import msgspec

_encode = msgspec.json.Encoder().encode
_AS_TEXT = (datetime, date, time, timedelta, Decimal, UUID)
_AS_IS = frozenset({str, int, float, bool, type(None)})


class Unreadable(ValueError):
    """A value that no prompt and no file can hold."""


def encode_row(row: Mapping[str, Any]) -> bytes:
    """One row as a line of JSON."""
    return _encode(plain(row))


def plain(value: Any) -> Any:
    """Tuples are lists, scalars of numpy are numbers, points in time are text; a picture is refused."""
    kind = type(value)
    if kind in _AS_IS:
        return value
    if kind is list or isinstance(value, (list, tuple, set, frozenset)):
        return (
            value if _AS_IS.issuperset(map(type, value)) and kind is list else [plain(item) for item in value]
        )
    if isinstance(value, Mapping):
        return {_key(key): plain(item) for key, item in value.items()}
    if isinstance(value, _AS_TEXT):
        return str(value)
    return _foreign(value)


def _key(key: Any) -> str:
    if not isinstance(key, str):
        raise Unreadable(f"a key is {key!r}, expected text")
    return key


def _foreign(value: Any) -> Any:
    """Subclasses of what JSON has, and numpy by its two ways out."""
    for kind in (str, bool, int, float):
        if isinstance(value, kind):
            return kind(value)
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return plain(value.tolist())
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    raise Unreadable(f"a value is of type {name}, expected text, numbers, lists or mappings")
