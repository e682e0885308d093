"""Reads JSON of others: every value knows its place, and every problem is told at once."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.core.registry import unknown

_BOM, _LINE_END = b"\xef\xbb\xbf", b"\n"
_MISSING: Any = object()
_NAME = re.compile(r"[A-Za-z_]\w*")
_BYTE = re.compile(r"\(byte (\d+)\)")
_MOST = 200


class Node:
    """A value at its place in the file. What it is asked for and is not, it notes, and gives an empty one."""

    __slots__ = ("_above", "_problems", "_step", "value")

    def __init__(
        self, value: Any, step: str | int, problems: list[Problem], above: Node | None = None
    ) -> None:
        self.value = value
        self._step = step
        self._problems = problems
        self._above = above

    @property
    def at(self) -> str:
        """Where it stands. Put together when it is wanted: nearly all values are as they should be."""
        if self._above is None:
            return str(self._step)
        if isinstance(self._step, int):
            return f"{self._above.at}[{self._step}]"
        step = f".{self._step}" if _NAME.fullmatch(self._step) else f'["{self._step}"]'
        return self._above.at + step

    def __getitem__(self, key: str) -> Node:
        """The value of a key. One that is missing is noted as soon as something is wanted of it."""
        value = self.value.get(key, _MISSING) if isinstance(self.value, dict) else _MISSING
        return Node(value, key, self._problems, self)

    def __contains__(self, key: str) -> bool:
        """Whether there is such a key, and something under it."""
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def get(self, key: str, default: Any) -> Node:
        """The value of a key that may be absent or null; then it is the default, at the same place."""
        value = self.value.get(key) if isinstance(self.value, dict) else None
        return Node(default if value is None else value, key, self._problems, self)

    def either(self, *keys: str) -> Node:
        """The value of the first of these keys that has one; where none has, that of the first key."""
        return self[next((key for key in keys if key in self), keys[0])]

    def note(self, message: str, level: str = "error") -> None:
        """Something is wrong with this value."""
        self._problems.append(Problem(self.at, message, level))

    def mapping(self) -> dict[str, Any]:
        """An object."""
        found: dict[str, Any] = self._typed((dict,), "an object", {})
        return found

    def items(self) -> list[Node]:
        """The values of a list."""
        found: list[Any] = self._typed((list,), "a list", [])
        return [Node(value, at, self._problems, self) for at, value in enumerate(found)]

    def objects(self) -> list[Node]:
        """The values of a list of objects; what is none is noted and left out."""
        return [item for item in self.items() if item.mapping() is item.value]

    def filled(self) -> str:
        """A text with something in it."""
        if isinstance(self.value, str) and not self.value.strip():
            self.note("is empty")
        return self.text()

    def text(self) -> str:
        """A text."""
        found: str = self._typed((str,), "a text", "")
        return found

    def texts(self) -> list[str]:
        """A list of texts; one text alone is a list of one."""
        return [self.value] if isinstance(self.value, str) else [item.text() for item in self.items()]

    def name(self) -> str:
        """What something is called: a text with something in it, or a whole number as a text."""
        return str(self.value) if type(self.value) is int else self.filled()

    def answer(self) -> Any:
        """A text, a number or a truth, as the data has it."""
        return self._typed((str, int, float, bool), "a text or a number", None)

    def truth(self) -> bool:
        """True or false."""
        found: bool = self._typed((bool,), "true or false", default=False)
        return found

    def known(self, keys: Iterable[str]) -> None:
        """Every key must be one of these; a wrong one is named with the nearest right one."""
        names = sorted(keys)
        for key in self.mapping():
            if key not in names:
                self[key].note(unknown("key", key, names))

    def _typed(self, kinds: tuple[type, ...], wanted: str, default: Any) -> Any:
        if type(self.value) in kinds:
            return self.value
        self.note("is missing" if self.value is _MISSING else f"must be {wanted}, not {_kind(self.value)}")
        return default


class Record(NamedTuple):
    """One of the values that a file holds, not decoded yet, and its JSON path."""

    at: str
    raw: msgspec.Raw


def records(path: Path, thing: str, hint: str) -> list[Record]:
    """The values of a file that holds a list of them, or one object; one is decoded at a time."""
    try:
        data = path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise InputError(unreadable(path, error, hint)) from None
    try:
        if data.lstrip()[:1] == b"{":
            return [Record("$", msgspec.json.decode(data, type=msgspec.Raw))]
        found = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        message = f"must be a list of {thing}s, or one as an object"
        raise InputError(Problem(f"{path} $", message)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(Problem(_line(path, data, str(error)), f"not JSON: {error}")) from None
    if not found:
        raise InputError(Problem(str(path), f"there is no {thing} in it"))
    return [Record(f"$[{at}]", raw) for at, raw in enumerate(found)]


def decoded(raw: msgspec.Raw | bytes, at: str, problems: list[Problem]) -> Node | None:
    """An object with something in it; None after noting what it is instead."""
    try:
        node = Node(msgspec.json.decode(raw), at, problems)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        problems.append(Problem(at, f"not JSON: {error}"))
        return None
    if node.mapping():
        return node
    if node.value == {}:
        node.note("is empty")
    return None


def told(path: Path, problems: list[Problem]) -> list[Problem]:
    """The first problems, and how many more there are."""
    if len(problems) <= _MOST:
        return problems
    return [*problems[:_MOST], Problem(str(path), f"and {len(problems) - _MOST:,} more problems")]


def _line(path: Path, data: bytes, message: str) -> str:
    """`file:line` of the byte that a message names."""
    found = _BYTE.search(message)
    if found is None:
        return str(path)
    return f"{path}:{data.count(_LINE_END, 0, int(found[1])) + 1}"


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
