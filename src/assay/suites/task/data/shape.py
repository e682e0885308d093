"""What data set libraries make of values: they give a column one type, where JSON has none.

A column of 1 and 2.5 is a column of floats, and so its 1 is 1.0. A column of nothing but dates holds times.
Structs have their keys in one order. A shape learns, row by row, whether that matters, and says which few
values it changes.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

# The texts that Arrow's JSON reader takes for a point in time.
_STAMP = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d)?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_NestedKey = tuple[str, Callable[[Any], None]]
_NESTED = (list, dict)
_MOST_KINDS = 10_000
"""Rows of many kinds must not fill the memory."""
_SCALARS = {int: "int", float: "float", bool: "bool", str: "str", type(None): "null"}


class Shape:
    """The rows seen so far, and what of their values a data set library would change."""

    def __init__(self, *, times: bool, fill: bool = False) -> None:
        self._rows = _Struct(times=times)
        self._fill = fill
        self.see = self._rows.see
        """Learn from one row."""

    @property
    def columns(self) -> list[str]:
        """Every column, in the order of their first values."""
        return list(self._rows.keys)

    def changes(self) -> dict[str, Any]:
        """By column, what has to be done to its values; mostly nothing."""
        found = {name: node.change(fill=self._fill) for name, node in self._rows.keys.items()}
        return {name: change for name, change in found.items() if change is not None}

    def kinds(self) -> dict[str, str]:
        """By column, its type in one word, as `int`, `str` or `list`."""
        return {name: node.kind for name, node in self._rows.keys.items()}


class _Struct:
    """Rows, or structs at one place in them."""

    __slots__ = ("_known", "_open", "_times", "keys", "reordered", "uneven")

    def __init__(self, *, times: bool) -> None:
        self.keys: dict[str, _Node] = {}
        self.reordered = self.uneven = False
        self._times = times
        self._known: dict[tuple[Any, ...], list[_NestedKey]] = {}
        self._open: list[str] = []

    def see(self, value: dict[str, Any]) -> None:
        """Learn from one. Most are of a kind seen before, and flat: they cost one look-up."""
        kind = (*value, *map(type, value.values()))
        nested = self._known.get(kind)
        if nested is None:
            nested = self._learn(kind, value)
        for name, see in nested:
            see(value[name])
        if self._open:
            self._look_for_times(value)

    def _learn(self, kind: tuple[Any, ...], value: dict[str, Any]) -> list[_NestedKey]:
        if self.keys and list(self.keys) != list(value):
            same = self.keys.keys() == value.keys()
            self.reordered, self.uneven = True, self.uneven or not same
        for name, item in value.items():
            if name not in self.keys:
                self.keys[name] = _Node(times=self._times)
            self.keys[name].see(item)
        nested = [
            (name, self.keys[name].looker(item)) for name, item in value.items() if type(item) in _NESTED
        ]
        if len(self._known) < _MOST_KINDS:
            self._known[kind] = nested
        self._open = [name for name, node in self.keys.items() if node.may_be_time]
        return nested

    def _look_for_times(self, value: dict[str, Any]) -> None:
        for name in self._open:
            self.keys[name].see(value.get(name))
        self._open = [name for name in self._open if self.keys[name].may_be_time]

    def change(self, *, fill: bool) -> dict[str, Any] | None:
        """What is to be done inside. Structs of different keys stay as they are, or are filled up."""
        if not self.keys or (self.uneven and not fill):
            return None
        changes = {key: node.change(fill=fill) for key, node in self.keys.items()}
        return changes if self.reordered or any(change is not None for change in changes.values()) else None


class _Node:
    """One place in the rows: a column, the items of a list, a key of a struct."""

    __slots__ = ("_items", "_settled", "_struct", "_times", "kinds", "may_be_time")

    def __init__(self, *, times: bool) -> None:
        self.kinds: set[str] = set()
        self.may_be_time = False
        self._times = times
        self._items: _Node | None = None
        self._settled: set[type] = set()
        self._struct = _Struct(times=times)

    @property
    def kind(self) -> str:
        """One word for it."""
        kinds = self.kinds - {"null"}
        if kinds == {"int", "float"}:
            return "float"
        return next(iter(kinds)) if len(kinds) == 1 else "json" if kinds else "null"

    def see(self, value: Any) -> None:
        """Learn from one value."""
        kind = _SCALARS.get(type(value))
        if kind == "str":
            self._see_text(value)
        elif kind:
            self.kinds.add(kind)
        else:
            self.looker(value)(value)

    def looker(self, value: Any) -> Callable[[Any], None]:
        """What learns from values like this list or struct."""
        self.kinds.add("list" if isinstance(value, list) else "dict")
        return self._see_list if isinstance(value, list) else self._struct.see

    def _see_text(self, value: str) -> None:
        if "str" not in self.kinds:
            self.kinds.add("str")
            self.may_be_time = self._times
        if self.may_be_time and not _is_time(value):
            self.may_be_time = False

    def _see_list(self, value: list[Any]) -> None:
        """A list of nothing but types that were seen, and can teach no more, costs one look."""
        if self._settled.issuperset(map(type, value)):
            return
        if self._items is None:
            self._items = _Node(times=self._times)
        items = self._items
        for item in value:
            items.see(item)
        kinds = {kind for kind in map(type, value) if kind in _SCALARS}
        self._settled |= kinds - {str} if items.may_be_time else kinds

    def change(self, *, fill: bool) -> Any:
        """What has to be done to values here: a name, or what is to be done inside them."""
        kinds = self.kinds - {"null"}
        if kinds == {"int", "float"}:
            return "float"
        if kinds == {"str"}:
            return "time" if self.may_be_time else None
        if kinds == {"list"}:
            inside = self._items.change(fill=fill) if self._items else None
            return None if inside is None else [inside]
        if kinds == {"dict"}:
            return self._struct.change(fill=fill)
        return "json" if "str" in kinds else None


def changed(change: Any, value: Any) -> Any:
    """A value as a data set library gives it."""
    if value is None or change is None:
        return value
    if isinstance(change, dict):
        return {key: changed(inner, value.get(key)) for key, inner in change.items()}
    if isinstance(change, list):
        return [changed(change[0], item) for item in value]
    return _CHANGES[change](value)


def _is_time(text: str) -> bool:
    return _STAMP.fullmatch(text) is not None and _moment(text) is not None


def _moment(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment


def _from_text(value: Any) -> Any:
    """In a column of text and other things, text that is JSON is what it says."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return value


_CHANGES: dict[str, Any] = {
    "float": float,
    "int": int,
    "bool": lambda value: value.lower() == "true" if isinstance(value, str) else bool(value),
    "time": lambda value: str(_moment(value)),
    "json": _from_text,
}
