"""Infers the column types that Hugging Face `datasets` gives to JSON data.

`datasets` stores rows in Arrow, where every column has one type: in a column with 1 and 2.5 the 1 becomes 1.0,
a column with only dates becomes timestamps, and all structs of a column have their keys in one order.
lm-evaluation-harness shows and hashes documents after this conversion, so assay must convert them too.
`ColumnTypes` learns the types row by row and returns the conversions that change a value, usually none;
`convert_value` applies one.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import msgspec

# Texts that Arrow's JSON reader parses as a timestamp.
_TIMESTAMP = re.compile(r"\d{4}-\d\d-\d\d([T ]\d\d(:\d\d(:\d\d)?)?(Z|[+-]\d\d(:?\d\d)?)?)?")
_NESTED = (list, dict)
# Limits the memory for data in which every row has different keys or types.
_MAX_ROW_FORMS = 10_000
_SCALARS = {int: "int", float: "float", bool: "bool", str: "str", type(None): "null"}


class ColumnTypes:
    """The types of the rows seen so far. `see` adds one row.

    With `times`, columns of dates become timestamps. With `fill`, if the structs of a column have different keys, each
    gets all keys, with None for missing ones.
    """

    def __init__(self, *, times: bool, fill: bool = False) -> None:
        self._rows = _StructType(times=times)
        self._fill = fill
        self.see = self._rows.see

    @property
    def columns(self) -> list[str]:
        """Every column, in the order of first appearance."""
        return list(self._rows.keys)

    def changes(self) -> dict[str, Any]:
        """Return the conversion of each column whose values change. Usually there is none."""
        changes = {}
        for name, node in self._rows.keys.items():
            change = node.change(fill=self._fill)
            if change is not None:
                changes[name] = change
        return changes

    def kinds(self) -> dict[str, str]:
        """Return the type of each column in one word, such as `int`, `str` or `list`."""
        return {name: node.kind for name, node in self._rows.keys.items()}


class _StructType:
    """The type of rows, or of the structs in one column."""

    __slots__ = ("_form", "_maybe_times", "_nested", "_seen_forms", "_times", "keys", "reordered", "uneven")

    def __init__(self, *, times: bool) -> None:
        self.keys: dict[str, _ValueType] = {}
        self.reordered = self.uneven = False
        self._times = times
        # Key: the names and Python types of a row. Value: its nested columns, each with its `see` method.
        self._seen_forms: dict[tuple[Any, ...], list[tuple[str, Callable[[Any], None]]]] = {}
        # The form of the last row and its nested columns: most rows of a file have one form.
        self._form: list[Any] = []
        self._nested: list[tuple[str, Callable[[Any], None]]] = []
        self._maybe_times: list[str] = []

    def see(self, value: dict[str, Any]) -> None:
        """Add the types of one struct. A flat struct with the keys and types of the last one costs a comparison."""
        form = [*value, *map(type, value.values())]
        if form != self._form:
            nested = self._seen_forms.get(tuple(form))
            self._nested = self._learn_form(tuple(form), value) if nested is None else nested
            self._form = form
        for name, see in self._nested:
            see(value[name])
        # A text column may hold timestamps until one text is not a date, so each of its texts is checked.
        if self._maybe_times:
            for name in self._maybe_times:
                self.keys[name].see(value.get(name))
            self._maybe_times = [name for name in self._maybe_times if self.keys[name].may_be_time]

    def _learn_form(self, form: tuple[Any, ...], value: dict[str, Any]) -> list[tuple[str, Callable[[Any], None]]]:
        if self.keys and list(self.keys) != list(value):
            self.reordered = True
            self.uneven = self.uneven or self.keys.keys() != value.keys()
        nested = []
        for name, item in value.items():
            if name not in self.keys:
                self.keys[name] = _ValueType(times=self._times)
            self.keys[name].see(item)
            if type(item) in _NESTED:
                nested.append((name, self.keys[name].nested_learner(item)))
        if len(self._seen_forms) < _MAX_ROW_FORMS:
            self._seen_forms[form] = nested
        self._maybe_times = [name for name, node in self.keys.items() if node.may_be_time]
        return nested

    def change(self, *, fill: bool) -> dict[str, Any] | None:
        """Return the conversion by key; None if no value changes. Uneven structs change only with `fill`."""
        if not self.keys or (self.uneven and not fill):
            return None
        changes = {key: node.change(fill=fill) for key, node in self.keys.items()}
        if self.reordered or any(change is not None for change in changes.values()):
            return changes
        return None


class _ValueType:
    """The type of a column, of the items of a list, or of a key of a struct."""

    __slots__ = ("_items", "_settled", "_struct", "_times", "kinds", "may_be_time")

    def __init__(self, *, times: bool) -> None:
        self.kinds: set[str] = set()
        self.may_be_time = False
        self._times = times
        self._items: _ValueType | None = None
        self._settled: set[type] = set()
        self._struct = _StructType(times=times)

    @property
    def kind(self) -> str:
        """The type in one word."""
        kinds = self.kinds - {"null"}
        if kinds == {"int", "float"}:
            return "float"
        if len(kinds) == 1:
            return next(iter(kinds))
        return "json" if kinds else "null"

    def see(self, value: Any) -> None:
        """Add the type of one value."""
        kind = _SCALARS.get(type(value))
        if kind == "str":
            if "str" not in self.kinds:
                self.kinds.add("str")
                self.may_be_time = self._times
            if self.may_be_time and not (_TIMESTAMP.fullmatch(value) and _parse_time(value)):
                self.may_be_time = False
        elif kind:
            self.kinds.add(kind)
        else:
            self.nested_learner(value)(value)

    def nested_learner(self, value: Any) -> Callable[[Any], None]:
        """Return the method that adds the types inside a value: one for lists, one for structs."""
        if isinstance(value, list):
            self.kinds.add("list")
            return self._see_list
        self.kinds.add("dict")
        return self._struct.see

    def _see_list(self, value: list[Any]) -> None:
        # The types in `_settled` are already recorded. This check makes long lists, such as embeddings, cheap.
        if self._settled.issuperset(map(type, value)):
            return
        if self._items is None:
            self._items = _ValueType(times=self._times)
        items = self._items
        for item in value:
            items.see(item)
        kinds = {kind for kind in map(type, value) if kind in _SCALARS}
        # Texts that may be timestamps must still be looked at one by one.
        self._settled |= kinds - {str} if items.may_be_time else kinds

    def change(self, *, fill: bool) -> Any:
        """Return the conversion: a name in `_CONVERSIONS`, a list or dict of conversions, or None."""
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


def convert_value(change: Any, value: Any) -> Any:
    """Convert a value to the type of its column. `change` is a result of `ColumnTypes.changes`."""
    if value is None or change is None:
        return value
    if isinstance(change, dict):
        return {key: convert_value(inner, value.get(key)) for key, inner in change.items()}
    if isinstance(change, list):
        return [convert_value(change[0], item) for item in value]
    return _CONVERSIONS[change](value)


def _parse_time(text: str) -> datetime | None:
    try:
        moment = datetime.fromisoformat(text)
        return moment.astimezone(UTC).replace(tzinfo=None) if moment.tzinfo else moment
    except (ValueError, OverflowError):  # 0001-01-01 with a time zone is before the first year in UTC
        return None


def _decode_text(value: Any) -> Any:
    """Decode a text that is valid JSON, as `datasets` does in columns that mix text with other types."""
    if not isinstance(value, str):
        return value
    try:
        return msgspec.json.decode(value)
    except (msgspec.DecodeError, UnicodeError, RecursionError):
        return value


def _to_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # an integer of more than 308 digits stays exact
        return value


_CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "float": _to_float,
    "int": int,
    "bool": lambda value: value.lower() == "true" if isinstance(value, str) else bool(value),
    "time": lambda value: str(_parse_time(value)),
    "json": _decode_text,
}
