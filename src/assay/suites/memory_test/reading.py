"""Reads a JSON file of conversations: every value knows its place, and every problem is told at once."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import InputError, Problem, unreadable
from assay.core.registry import unknown
from assay.suites.memory_test.conversation import Conversation

_BOM, _LINE_END = b"\xef\xbb\xbf", b"\n"
_MISSING: Any = object()
_NAME = re.compile(r"[A-Za-z_]\w*")
_BYTE = re.compile(r"\(byte (\d+)\)")
_MOST = 200


class Node:
    """A value at its place in the file. What it is asked for and is not, it notes, and gives an empty one."""

    def __init__(self, value: Any, at: str, problems: list[Problem]) -> None:
        self.value = value
        self._at = at
        self._problems = problems

    def __getitem__(self, key: str) -> Node:
        """The value of a key. One that is missing is noted as soon as something is wanted of it."""
        step = f".{key}" if _NAME.fullmatch(key) else f'["{key}"]'
        value = self.value.get(key, _MISSING) if isinstance(self.value, dict) else _MISSING
        return Node(value, self._at + step, self._problems)

    def __contains__(self, key: str) -> bool:
        """Whether there is such a key, and something under it."""
        return isinstance(self.value, dict) and self.value.get(key) is not None

    def note(self, message: str) -> None:
        """Something is wrong with this value."""
        self._problems.append(Problem(self._at, message))

    def mapping(self) -> dict[str, Any]:
        """An object."""
        found: dict[str, Any] = self._typed((dict,), "an object", {})
        return found

    def items(self) -> list[Node]:
        """The values of a list."""
        found: list[Any] = self._typed((list,), "a list", [])
        return [Node(value, f"{self._at}[{at}]", self._problems) for at, value in enumerate(found)]

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


Build = Callable[[int, Node], Conversation]


def read(path: Path, build: Build) -> Iterator[Conversation]:
    """The conversations of a file that holds a list of them, or one.

    The whole file is looked at before the first one is given; InputError has every problem.
    """
    records = _records(path)
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for at, conversation in enumerate(_built(path, records, build, problems)):
        if (before := first.setdefault(conversation.sample_id, at)) != at:
            message = f"the id {conversation.sample_id!r} stands at $[{before}] already; each needs its own"
            problems.append(Problem(f"{path} $[{at}]", message))
    if problems:
        raise InputError(_told(path, problems))
    return _built(path, records, build, problems)


def first_keys(path: Path) -> frozenset[str]:
    """The keys of the first conversation; none where it is no object."""
    found = msgspec.json.decode(_records(path)[0])
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _built(
    path: Path, records: list[msgspec.Raw], build: Build, problems: list[Problem]
) -> Iterator[Conversation]:
    """One at a time. What cannot be built is noted, and an empty one stands in its place."""
    for index, raw in enumerate(records):
        at = f"{path} $[{index}]"
        conversation = Conversation(index, f"$[{index}]", (), ())
        try:
            node = Node(msgspec.json.decode(raw), at, problems)
            if node.mapping():
                conversation = build(index, node)
            elif node.value == {}:
                node.note("is empty")
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            problems.append(Problem(at, f"not JSON: {error}"))
        except InputError as error:
            problems += [problem._replace(where=f"{at} ({problem.where})") for problem in error.problems]
        yield conversation


def _records(path: Path) -> list[msgspec.Raw]:
    """The conversations as they stand there, so that one is decoded at a time."""
    try:
        data = path.read_bytes().removeprefix(_BOM)
    except OSError as error:
        raise InputError(unreadable(path, error, "--data names it")) from None
    try:
        if data.lstrip()[:1] == b"{":
            return [msgspec.json.decode(data, type=msgspec.Raw)]
        records = msgspec.json.decode(data, type=list[msgspec.Raw])
    except msgspec.ValidationError:
        message = "must be a list of conversations, or one as an object"
        raise InputError(Problem(f"{path} $", message)) from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InputError(Problem(_line(path, data, str(error)), f"not JSON: {error}")) from None
    if not records:
        raise InputError(Problem(str(path), "there is no conversation in it"))
    return records


def _line(path: Path, data: bytes, message: str) -> str:
    """`file:line` of the byte that a message names."""
    found = _BYTE.search(message)
    if found is None:
        return str(path)
    return f"{path}:{data.count(_LINE_END, 0, int(found[1])) + 1}"


def _told(path: Path, problems: list[Problem]) -> list[Problem]:
    if len(problems) <= _MOST:
        return problems
    return [*problems[:_MOST], Problem(str(path), f"and {len(problems) - _MOST:,} more problems")]


def _kind(value: Any) -> str:
    names = {dict: "an object", list: "a list", str: "a text", bool: "true or false", type(None): "null"}
    return names.get(type(value), "a number")
