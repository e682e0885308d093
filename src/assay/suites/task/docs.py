"""The documents of a task: JSON lines, JSON, CSV or Parquet files, read as a stream, never as a list."""

from __future__ import annotations

import csv
import glob
import re
from collections.abc import Callable, Iterator
from itertools import compress, repeat
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec

from assay.core import jsonl
from assay.core.errors import InputError, Problem
from assay.core.hashing import RepeatFinder, Twins, row_key

FORMATS = ("json", "csv", "parquet")
_MISSING = frozenset(
    {
        "",
        "#N/A",
        "#NA",
        "-1.#IND",
        "-nan",
        "1.#IND",
        "<NA>",
        "N/A",
        "NA",
        "NULL",
        "NaN",
        "None",
        "n/a",
        "nan",
        "null",
    }
)
_WHOLE = re.compile(r"[+-]?\d{1,18}")
_LINE = ":{}"
_encode = msgspec.json.Encoder().encode


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


class Docs:
    """One split of a data set."""

    def __init__(self, kind: str, files: list[Path]) -> None:
        self.kind = kind
        self.files = files
        self.facts = Facts()
        self._repeated: list[str] = []

    def look(self) -> Facts:
        """Read everything once: refuse bad rows, count, learn the columns, find equal rows."""
        problems: list[Problem] = []
        columns: dict[str, None] = {}
        finder = RepeatFinder()
        last: dict[Path, int] = {}
        total = 0
        for doc in self._checked(problems):
            value = jsonl.parse_object(doc.raw, doc, problems)
            if value is not None:
                if value.keys() != columns.keys():
                    columns |= dict.fromkeys(value)
                finder.add(row_key(doc.raw))
                total += 1
                last[doc.path] = doc.place
        if problems:
            raise InputError(problems)
        self._repeated = finder.repeated()
        dense = list(last) == self.files and sum(last.values()) == total and self._in_lines()
        self.facts = Facts(total, list(columns), len(self._repeated), list(last.values()) if dense else [])
        return self.facts

    def recall(self, facts: Facts) -> None:
        """Take over what an earlier look found in the same bytes."""
        self.facts = facts
        if facts.twins:
            self.look()

    def twins(self) -> Twins:
        """A fresh numbering of equal rows, for one pass in data order."""
        return Twins(self._repeated)

    def _in_lines(self) -> bool:
        return self.kind == "json" and all(_unit(self.kind, path) == _LINE for path in self.files)

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
            with path.open("rb", buffering=1 << 18) as file:
                for place, raw in compress(enumerate(file, 1), wanted):
                    yield Doc(before + place - 1, jsonl.body(raw, place), path, place)
            before += lines

    def _rows(self, limit: int | None, skip: Callable[[int], bool] | None) -> Iterator[Doc]:
        number = 0
        for path in self.files:
            unit = _unit(self.kind, path)
            for place, raw in _READERS[self.kind](path, []):
                if number == limit:
                    return
                if skip is None or not skip(number):
                    yield Doc(number, raw, path, place, unit)
                number += 1

    def parse(self, doc: Doc) -> dict[str, Any]:
        """A row with every column, in one order, as data set libraries give it: null where it has none."""
        value: dict[str, Any] = msgspec.json.decode(doc.raw)
        if list(value) == self.facts.columns:
            return value
        return {column: value.get(column) for column in self.facts.columns}

    def values(self, limit: int | None = None) -> Iterator[dict[str, Any]]:
        """The documents as dicts."""
        return (self.parse(doc) for doc in self.rows(limit))

    def _checked(self, problems: list[Problem]) -> Iterator[Doc]:
        """Every row, with what is wrong in the files that hold them."""
        for path in self.files:
            unit = _unit(self.kind, path)
            for place, raw in _READERS[self.kind](path, problems):
                yield Doc(0, raw, path, place, unit)


def find_files(named: str | list[str], beside: Path) -> list[Path]:
    """Files by name or pattern, relative to the working directory, else to the task file; may be none."""
    found: list[Path] = []
    for name in [named] if isinstance(named, str) else named:
        for base in (Path(), beside):
            matches = [base / name] if (base / name).is_file() else _matching(base, name)
            if matches:
                found += matches
                break
        else:
            return []
    return found


def _matching(base: Path, pattern: str) -> list[Path]:
    """Files by a pattern; the folder it is relative to is no part of the pattern."""
    full = str(Path(glob.escape(str(base))) / pattern)
    return [path for path in map(Path, sorted(glob.glob(full, recursive=True))) if path.is_file()]  # noqa: PTH207


def _unit(kind: str, path: Path) -> str:
    """What the places of a file are: lines, items of a list, or rows."""
    if kind == "json":
        return " $[{}]" if _starts_with_bracket(path) else _LINE
    return _LINE if kind == "csv" else " row {}"


def _json_rows(path: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes]]:
    return _array_rows(path, problems) if _starts_with_bracket(path) else jsonl.lines(path)


def _starts_with_bracket(path: Path) -> bool:
    return next((line.raw[:1] == b"[" for line in jsonl.lines(path)), False)


def _array_rows(path: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes]]:
    """A JSON file that is one list. It has no lines, so places are `$[n]`."""
    try:
        items = msgspec.json.decode(path.read_bytes().removeprefix(b"\xef\xbb\xbf"), type=list[msgspec.Raw])
    except msgspec.DecodeError as error:
        problems.append(Problem(str(path), f"not JSON: {error}"))
        return
    for position, item in enumerate(items):
        yield position, bytes(item)


def _csv_rows(path: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes]]:
    """Columns get the narrowest type that fits all their values, as pandas reads them."""
    columns = _csv_columns(path, problems)
    lines = _csv_lines(path)
    header = next(lines, (0, []))[1]
    for line, cells in lines:
        if len(cells) == len(header):
            row = {name: column.read(cell) for name, column, cell in zip(header, columns, cells, strict=True)}
            yield line, _encode(row)


def _csv_lines(path: Path) -> Iterator[tuple[int, list[str]]]:
    csv.field_size_limit(1 << 31)
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.reader(file)
        for cells in reader:
            if cells:
                yield reader.line_num, cells


def _csv_columns(path: Path, problems: list[Problem]) -> list[_Column]:
    columns: list[_Column] = []
    try:
        for line, cells in _csv_lines(path):
            if not columns:
                columns = [_Column() for _ in cells]
            elif len(cells) != len(columns):
                found = f"expected {len(columns)} columns, found {len(cells)}"
                problems.append(Problem(f"{path}:{line}", found))
            else:
                for column, cell in zip(columns, cells, strict=True):
                    column.see(cell)
    except (csv.Error, UnicodeDecodeError) as error:
        raise InputError([*problems, Problem(str(path), f"not CSV in UTF-8: {error}")]) from None
    return columns


class _Column:
    """What a column holds: whole numbers (numbers, if some are missing), numbers, booleans, else text."""

    def __init__(self) -> None:
        self._kinds: list[Any] = [_whole, _number, _boolean]
        self._missing = False
        self._seen = False

    def see(self, cell: str) -> None:
        if cell in _MISSING:
            self._missing = True
        elif self._kinds:
            self._seen = True
            self._kinds = [kind for kind in self._kinds if _fits(kind, cell)]

    def read(self, cell: str) -> Any:
        if cell in _MISSING:
            return None
        if not self._kinds or not self._seen:
            return cell
        kind = self._kinds[0]
        return float(cell) if kind is _whole and self._missing else kind(cell)


def _fits(kind: Any, cell: str) -> bool:
    try:
        kind(cell)
    except ValueError:
        return False
    return True


def _whole(cell: str) -> int:
    if not _WHOLE.fullmatch(cell):
        raise ValueError(cell)
    return int(cell)


def _number(cell: str) -> float:
    if not isfinite(number := float(cell)) or "_" in cell:
        raise ValueError(cell)
    return number


def _boolean(cell: str) -> bool:
    if cell.lower() not in ("true", "false"):
        raise ValueError(cell)
    return cell.lower() == "true"


def _parquet_rows(path: Path, problems: list[Problem]) -> Iterator[tuple[int, bytes]]:
    import duckdb

    try:
        with duckdb.connect() as database:
            cursor = database.execute("select * from read_parquet(?)", [str(path)])
            names = [column[0] for column in cursor.description or ()]
            number = 0
            while batch := cursor.fetchmany(1000):
                for row in batch:
                    number += 1
                    yield number, _encode(dict(zip(names, row, strict=True)))
    except duckdb.Error as error:
        problems.append(Problem(str(path), f"not Parquet: {error}"))


_READERS = {"json": _json_rows, "csv": _csv_rows, "parquet": _parquet_rows}
