"""Rows of CSV files, with the types pandas would give their columns."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterator
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from assay.core.errors import InputError, Problem
from assay.suites.task.data.files import opened, readable

Rows = Iterator[tuple[int, bytes]]
_MISSING = frozenset(
    {"", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "-NaN", "-nan"}
) | {*("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN")}
_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
_MOST, _LEAST = 2**64 - 1, -(2**63)
_encode = msgspec.json.Encoder().encode


class CsvOptions(msgspec.Struct, frozen=True):
    """How a file is written; the names are those of pandas."""

    sep: str = ","
    delimiter: str | None = None
    names: list[str] | None = None
    column_names: list[str] | None = None
    header: int | str | None = "infer"
    quotechar: str = '"'
    quoting: int = csv.QUOTE_MINIMAL
    escapechar: str | None = None
    doublequote: bool = True
    skipinitialspace: bool = False
    skiprows: int | None = None
    encoding: str | None = None
    na_values: str | list[str] | None = None
    keep_default_na: bool = True
    na_filter: bool = True

    @property
    def own_names(self) -> list[str] | None:
        """Column names that stand in no line."""
        return self.column_names or self.names

    @property
    def has_header(self) -> bool:
        """Whether a line of the file is to be read as names, or thrown away for others."""
        return self.header == 0 or (self.header == "infer" and self.own_names is None)

    @property
    def missing(self) -> frozenset[str]:
        """What counts as no value."""
        if not self.na_filter:
            return frozenset()
        more = [self.na_values] if isinstance(self.na_values, str) else self.na_values or []
        return frozenset(more) | (_MISSING if self.keep_default_na else frozenset())


def rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    """Columns get the narrowest type that fits all their values, as pandas reads them."""
    table = _Table(path, msgspec.convert(options, CsvOptions))
    columns = table.columns(problems)
    for line, cells in table.rows():
        if len(cells) <= len(columns):
            row = {
                name: column.read(cell) for (name, column), cell in zip(columns.items(), cells, strict=False)
            }
            yield line, _encode(dict.fromkeys(columns) | row if len(row) < len(columns) else row)


class _Table:
    """One file: its lines as cells."""

    def __init__(self, path: Path, options: CsvOptions) -> None:
        self._path = path
        self._options = options

    def columns(self, problems: list[Problem]) -> dict[str, _Column]:
        """Every column with its type. A short row has nothing in its last columns, a long one is wrong."""
        missing = self._options.missing
        columns = {name: _Column(missing) for name in self._names()}
        for line, cells in self.rows():
            if len(cells) > len(columns):
                found = f"expected {len(columns)} columns, found {len(cells)}"
                problems.append(Problem(f"{self._path}:{line}", found))
                continue
            for column, cell in zip(columns.values(), cells, strict=False):
                column.see(cell)
            for column in list(columns.values())[len(cells) :]:
                column.missing = True
        return columns

    def _names(self) -> list[str]:
        options = self._options
        first = next(self._records(), (0, []))[1]
        if options.own_names is not None:
            return options.own_names
        return _unlike(first) if options.has_header else [str(number) for number in range(len(first))]

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """The rows below the header."""
        records = self._records()
        if self._options.has_header:
            next(records, None)
        return records

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Records that are not blank, with the line they end at."""
        csv.field_size_limit(1 << 31)
        with readable(self._path), opened(self._path) as file:
            text = _Lines(io.TextIOWrapper(file, self._options.encoding or "utf-8-sig", newline=""))
            reader = csv.reader(text, **self._dialect())
            for _ in range(self._options.skiprows or 0):
                next(text, None)
            try:
                yield from self._checked(reader, text)
            except (csv.Error, UnicodeDecodeError) as error:
                raise InputError(Problem(str(self._path), f"not CSV in UTF-8: {error}")) from None

    def _checked(self, reader: Any, text: _Lines) -> Iterator[tuple[int, list[str]]]:
        skipped = self._options.skiprows or 0
        start = 1
        for cells in reader:
            if text.ended:
                where = f"{self._path}:{start + skipped}"
                raise InputError(Problem(where, "a quote is opened here and never closed"))
            start = reader.line_num + 1
            if cells and (len(cells) > 1 or not cells[0].isspace()):
                yield reader.line_num + skipped, cells

    def _dialect(self) -> dict[str, Any]:
        options = self._options
        return {
            "delimiter": options.delimiter or options.sep,
            "quotechar": options.quotechar,
            "quoting": options.quoting,
            "escapechar": options.escapechar,
            "doublequote": options.doublequote,
            "skipinitialspace": options.skipinitialspace,
        }


class _Lines:
    """Lines that know when they have ended: a record that comes later was still open."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.ended = False

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        for line in self._lines:
            return line
        self.ended = True
        raise StopIteration


def _unlike(names: list[str]) -> list[str]:
    """Column names as pandas makes them: none empty, none twice."""
    found: dict[str, None] = {}
    for number, written in enumerate(names):
        name = plain = written or f"Unnamed: {number}"
        count = 0
        while name in found or (count and name in names):
            count += 1
            name = f"{plain}.{count}"
        found[name] = None
    return list(found)


class _Column:
    """What a column holds: whole numbers (numbers, if some are missing), numbers, booleans, else text."""

    def __init__(self, missing: frozenset[str]) -> None:
        self._kinds: list[Callable[[str], Any]] = [_whole, _number, _boolean]
        self._none = missing
        self._low = self._high = 0
        self._seen = False
        self.missing = False

    def see(self, cell: str) -> None:
        """Note what a cell cannot be."""
        if cell in self._none:
            self.missing = True
        elif self._kinds:
            self._seen = True
            self._kinds = [kind for kind in self._kinds if _fits(kind, cell)]
            if self._kinds and self._kinds[0] is _whole:
                self._bound(int(cell))

    def _bound(self, number: int) -> None:
        """Negative numbers and those above 63 bits have no type in common."""
        self._low, self._high = min(self._low, number), max(self._high, number)
        if self._low < 0 and self._high >= 2**63:
            self._kinds = []

    def read(self, cell: str) -> Any:
        """A cell's value."""
        if cell in self._none:
            return None
        if not self._kinds or not self._seen:
            return cell
        kind = self._kinds[0]
        return float(cell) if kind is _whole and self.missing else kind(cell)


def _fits(kind: Callable[[str], Any], cell: str) -> bool:
    try:
        kind(cell)
    except ValueError:
        return False
    return True


def _whole(cell: str) -> int:
    if not _WHOLE.fullmatch(cell) or not _LEAST <= (number := int(cell)) <= _MOST:
        raise ValueError(cell)
    return number


def _number(cell: str) -> float:
    if not _NUMBER.fullmatch(cell) or not isfinite(number := float(cell)):
        raise ValueError(cell)
    return number


def _boolean(cell: str) -> bool:
    if cell not in _BOOLEANS:
        raise ValueError(cell)
    return _BOOLEANS[cell]
