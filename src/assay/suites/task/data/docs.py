"""The documents of one split: read as a stream, never as a list."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import compress, count, repeat
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from assay.core import jsonl
from assay.core.errors import InputError, Problem
from assay.core.hashing import RepeatFinder, Twins, file_sha256, row_key
from assay.suites.task.data import csv_rows, json_rows, table_rows, text_rows
from assay.suites.task.data.files import opened
from assay.suites.task.data.shape import Shape, changed

_LINE, _ROW = ":{}", " row {}"
_decode = msgspec.json.Decoder().decode


class Format(NamedTuple):
    """How files of one kind are read."""

    rows: Callable[[Path, dict[str, Any], list[Problem]], Iterator[tuple[int, bytes]]]
    unit: Callable[[Path, dict[str, Any]], str]
    options: frozenset[str]


FORMATS = {
    "json": Format(json_rows.rows, json_rows.unit, frozenset({"field"})),
    "csv": Format(csv_rows.rows, lambda *_: _LINE, frozenset(csv_rows.CsvOptions.__struct_fields__)),
    "parquet": Format(table_rows.parquet_rows, lambda *_: _ROW, frozenset()),
    "arrow": Format(table_rows.arrow_rows, lambda *_: _ROW, frozenset()),
    "text": Format(text_rows.rows, text_rows.unit, text_rows.OPTIONS),
}


class Doc(msgspec.Struct, frozen=True, gc=False):
    """One document: its place in the data, its bytes, and where it stands in its file."""

    number: int
    raw: bytes
    path: Path
    place: int
    unit: str = _LINE

    @property
    def where(self) -> str:
        """How a message names it."""
        return f"{self.path}{self.unit.format(self.place)}"


class Facts(msgspec.Struct):
    """What one look at the data found; kept with the run, so that a later start need not look again."""

    total: int = 0
    columns: list[str] = []
    twins: int = 0
    lines: list[int] = []
    """How many lines each file has, where every line is a row: then rows can be jumped to."""
    changes: dict[str, Any] = {}
    """What data set libraries make of the values of some columns; mostly nothing (see `shape`)."""
    kinds: dict[str, str] = {}
    """The type of each column in one word."""
    made: list[str] = []
    """What the task's own code made of the documents and of the pool of examples, by content."""


class Docs:
    """One split of a data set."""

    def __init__(self, kind: str, files: list[Path], options: dict[str, Any] | None = None) -> None:
        self.kind = kind
        self.files = files
        self.options = options or {}
        self.facts = Facts()
        self._repeated: list[str] = []

    def look(self) -> Facts:
        """Read everything once: refuse bad rows, count, learn the columns, find equal rows."""
        problems: list[Problem] = []
        shape = self._shape()
        finder = RepeatFinder()
        counts: list[int] = []
        dense = self._in_lines()
        for path, unit, rows in self._sources(problems):
            count, last = _learn(rows, Doc(0, b"", path, 0, unit), problems, shape, finder)
            counts.append(count)
            dense = dense and count == last > 0
        if problems:
            raise InputError(problems)
        self._repeated = finder.repeated()
        lines = counts if dense else []
        changes = self._changes(shape)
        self.facts = Facts(sum(counts), shape.columns, len(self._repeated), lines, changes, shape.kinds())
        return self.facts

    def _shape(self) -> Shape:
        return Shape(times=self.kind == "json" and "field" not in self.options, fill="field" in self.options)

    def _changes(self, shape: Shape) -> dict[str, Any]:
        """Only JSON has values without types."""
        return shape.changes() if self.kind == "json" else {}

    def recall(self, facts: Facts) -> None:
        """Take over what an earlier look found in the same bytes."""
        self.facts = facts
        if facts.twins:
            self.look()

    def twins(self) -> Twins:
        """A fresh numbering of equal rows, for one pass in data order."""
        return Twins(self._repeated)

    def identity(self) -> list[str]:
        """The data by content: equal data, wherever it lies, is the same."""
        return [file_sha256(path) for path in self.files]

    def _in_lines(self) -> bool:
        return self.kind == "json" and all(
            json_rows.layout(path, self.options) == "lines" for path in self.files
        )

    def rows(self, limit: int | None = None, skip: Callable[[int], bool] | None = None) -> Iterator[Doc]:
        """The documents in data order, without those to be skipped by their number."""
        if self.facts.lines:
            return self._jump(self.facts.total if limit is None else min(limit, self.facts.total), skip)
        return self._rows(limit, skip)

    def _jump(self, count: int, skip: Callable[[int], bool] | None) -> Iterator[Doc]:
        """The same where every line is a row: those that are skipped pass by without a step of ours."""
        before = 0
        for path, lines in zip(self.files, self.facts.lines, strict=True):
            numbers = range(before, min(before + lines, count))
            wanted = repeat(1, len(numbers)) if skip is None else (1 - skip(n) for n in numbers)
            with opened(path) as file:
                for place, raw in compress(enumerate(file, 1), wanted):
                    yield Doc(before + place - 1, jsonl.body(raw, place), path, place)
            before += lines

    def _rows(self, limit: int | None, skip: Callable[[int], bool] | None) -> Iterator[Doc]:
        numbers = count()
        for path, unit, rows in self._sources([]):
            for (place, raw), number in zip(rows, numbers, strict=False):
                if number == limit:
                    return
                if skip is None or not skip(number):
                    yield Doc(number, raw, path, place, unit)

    def parse(self, doc: Doc) -> dict[str, Any]:
        """A row with every column, in one order, as data set libraries give it: null where it has none."""
        value: dict[str, Any] = _decode(doc.raw)
        facts = self.facts
        if facts.changes:
            for column, change in facts.changes.items():
                if column in value:
                    value[column] = changed(change, value[column])
        if list(value) == facts.columns:
            return value
        return {column: value.get(column) for column in facts.columns}

    def values(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The documents as dicts."""
        return (self.parse(doc) for doc in self.rows(limit))

    def _sources(self, problems: list[Problem]) -> Iterator[tuple[Path, str, Iterator[tuple[int, bytes]]]]:
        """Every file with its rows and what their places are; what is wrong with it goes to `problems`."""
        form = FORMATS[self.kind]
        for path in self.files:
            yield path, form.unit(path, self.options), form.rows(path, self.options, problems)


def _learn(
    rows: Iterator[tuple[int, bytes]], at: Doc, problems: list[Problem], shape: Shape, finder: RepeatFinder
) -> tuple[int, int]:
    """Look at the rows of one file: how many they are, and the place of the last."""
    see, add = shape.see, finder.add
    count = place = 0
    for place, raw in rows:
        try:
            value = _decode(raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            value = None
        if type(value) is dict:
            see(value)
            add(row_key(raw))
            count += 1
        else:
            jsonl.parse_object(raw, msgspec.structs.replace(at, place=place), problems)
    return count, place
