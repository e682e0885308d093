"""Reads a labelled file, whatever its form; every problem is told at once, with its place."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core import jsonl
from assay.core.errors import InputError, Problem, unreadable
from assay.suites.calibration.row import Fields, Row, majority, votes_of

UNLABELLED, TIED = "without a label", "as many votes for as against"
_LINES = frozenset({".jsonl", ".ndjson"})
_BOM, _LINE_END = b"\xef\xbb\xbf", b"\n"
_NAME = re.compile(r"[A-Za-z_]\w*")
_BYTE = re.compile(r"\(byte (\d+)\)")
_MOST = 200


class Placed(NamedTuple):
    """Something that may be a row, where it stands, and the name of the list that holds it."""

    place: str
    value: Any
    within: str


class Labelled(NamedTuple):
    """The rows that have a label, in the order of the file, and how many were left out for which reason."""

    rows: list[Row]
    left_out: dict[str, int]
    passed_over: list[str]
    """Places of lists that hold no rows."""


def read(path: Path, told: Mapping[str, str]) -> Labelled:
    """All rows that have a label. InputError has every problem of the file, before anything is asked."""
    reader = _Reader(path, Fields(told))
    for placed in reader.placed():
        reader.add(placed)
    reader.refuse()
    return Labelled(reader.rows, dict(reader.left_out), reader.passed_over)


class _Reader:
    """One file as it is read."""

    def __init__(self, path: Path, fields: Fields) -> None:
        self._path = path
        self._fields = fields
        self._problems: list[Problem] = []
        self.rows: list[Row] = []
        self.left_out: Counter[str] = Counter()
        self.passed_over: list[str] = []

    def placed(self) -> Iterator[Placed]:
        """Everything that may be a row."""
        try:
            data = self._path.read_bytes().removeprefix(_BOM)
        except OSError as error:
            raise InputError(unreadable(self._path, error, "--labels names it")) from None
        if self._path.suffix in _LINES or _is_lines(data):
            for row in jsonl.rows(self._path, self._problems):
                yield Placed(f"{self._path}:{row.number}", row.value, "")
            return
        lists = list(self._lists(self._decoded(data), "$", ""))
        several = len(lists) > 1
        for place, within, values in lists:
            for at, value in enumerate(values):
                yield Placed(f"{self._path} {place}[{at}]", value, within if several else "")

    def _decoded(self, data: bytes) -> Any:
        try:
            return msgspec.json.decode(data)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise InputError(Problem(_line(self._path, data, str(error)), f"not JSON: {error}")) from None

    def _lists(self, value: Any, place: str, name: str) -> Iterator[tuple[str, str, list[Any]]]:
        """Lists that hold a row, with their place and name, however deep in objects."""
        if isinstance(value, dict):
            for key, inner in value.items():
                step = f".{key}" if _NAME.fullmatch(key) else f'["{key}"]'
                yield from self._lists(inner, place + step, key)
        elif isinstance(value, list) and any(map(self._fields.looks_like_a_row, value)):
            yield place, name, value
        elif isinstance(value, list) and any(isinstance(one, dict) for one in value):
            self.passed_over.append(f"{self._path} {place}")

    def add(self, placed: Placed) -> None:
        """One row: kept, left out and counted, or a problem."""
        place, value, within = placed
        if not isinstance(value, dict):
            self._problems.append(Problem(place, "a row must be an object"))
            return
        label_field, label = self._fields.found(value, "label")
        if not label_field:
            self.left_out[UNLABELLED] += 1
            return
        try:
            votes = votes_of(label)
        except ValueError as error:
            self._problems.append(Problem(_at(place, label_field), str(error)))
            return
        if (said := majority(votes)) is None:
            self.left_out[TIED] += 1
            return
        before = len(self._problems)
        row = self._row(placed, value, said, votes, within)
        if len(self._problems) == before:
            self.rows.append(row)

    def _row(
        self, placed: Placed, value: dict[str, Any], said: bool, votes: tuple[bool, ...], within: str
    ) -> Row:
        by_rubric = bool(self._fields.found(value, "rubric")[0])
        wanted = ("rubric", "text") if by_rubric else ("question", "reference", "response")
        texts = {name: self._text(placed.place, value, name, needed=True) for name in wanted}
        return Row(
            place=placed.place,
            label=said,
            votes=votes,
            response=texts["text" if by_rubric else "response"] or "",
            question=texts.get("question") or "",
            reference=self._text(placed.place, value, "reference") if by_rubric else texts["reference"],
            rubric=texts.get("rubric") or "",
            evidence=self._evidence(placed.place, value),
            category=self._text(placed.place, value, "category") or "",
            cluster=self._text(placed.place, value, "cluster") or within or None,
        )

    def _text(self, place: str, value: dict[str, Any], name: str, *, needed: bool = False) -> str | None:
        """A text or a number; none where the field is not there."""
        field, found = self._fields.found(value, name)
        if not field:
            if needed:
                message = f"it has no {name} (looked for {self._fields.names(name)})"
                self._problems.append(Problem(place, message))
            return None
        if isinstance(found, bool) or not isinstance(found, (str, int, float)):
            self._problems.append(Problem(_at(place, field), "must be a text or a number"))
            return None
        return str(found)

    def _evidence(self, place: str, value: dict[str, Any]) -> tuple[str, ...]:
        field, found = self._fields.found(value, "evidence")
        if not field:
            return ()
        if not isinstance(found, list) or not all(isinstance(one, str) for one in found):
            self._problems.append(Problem(_at(place, field), "must be a list of texts"))
            return ()
        return tuple(found)

    def refuse(self) -> None:
        """Raise if something is wrong, if there is nothing to judge, or if two judges would be needed."""
        if not self._problems and not self.rows:
            self._problems.append(Problem(str(self._path), self._nothing()))
        kinds = {bool(row.rubric): row.place for row in reversed(self.rows)}
        if len(kinds) > 1:
            message = f"it has a rubric, and {kinds[False]} has none; put them into files of their own"
            self._problems.append(Problem(kinds[True], message))
        if len(self._problems) > _MOST:
            more = len(self._problems) - _MOST
            self._problems[_MOST:] = [Problem(str(self._path), f"and {more:,} more problems")]
        if self._problems:
            raise InputError(self._problems)

    def _nothing(self) -> str:
        if self.left_out[UNLABELLED]:
            named = self._fields.names("label")
            return f"no row has a label (looked for {named}); name its field with --label-field"
        if self.left_out[TIED]:
            return "the votes of every row are tied; there is nothing to hold a judge against"
        names = f"{self._fields.names('question')}; {self._fields.names('response')}"
        return f"there are no rows in it (looked for {names}); name fields with --question-field and others"


def _is_lines(data: bytes) -> bool:
    """Whether a file without the name of one is JSON lines: its first line is an object, and not the last."""
    first, _, rest = data.strip().partition(b"\n")
    if not first.startswith(b"{") or not rest.strip().startswith(b"{"):
        return False
    try:
        msgspec.json.decode(first)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return False
    return True


def _at(place: str, field: str) -> str:
    """The place of a field: a line of its own has no path yet."""
    return f"{place}.{field}" if " $" in place else f"{place} $.{field}"


def _line(path: Path, data: bytes, message: str) -> str:
    found = _BYTE.search(message)
    return f"{path}:{data.count(_LINE_END, 0, int(found[1])) + 1}" if found else str(path)
