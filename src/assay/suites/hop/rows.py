"""The rows of a JSONL file: inputs, results of earlier batches in both forms, or all of them mixed.

The file is read three times: to check it and to know what is asked, to run it, to write its results. Rows of
a small file are held meanwhile; of a large one a row costs eight bytes and a line one, whatever is in it.
"""

from __future__ import annotations

import hashlib
from array import array
from collections.abc import Callable, Iterator
from operator import xor
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import replace

from assay.core import jsonl
from assay.core.errors import InputError, Problem, unreadable
from assay.core.hashing import first_ones, repeated
from assay.core.hop_records import is_pair
from assay.core.spec import limited
from assay.suites.hop.contract import Contract
from assay.suites.hop.row import Fault, HopRow, RowReader, gold_digest

_HELD_BYTES = 1 << 23
"""Files up to this size are parsed once. Their rows take some ten times as much."""
_MOST_ERRORS, _MOST_WARNINGS = 1000, 200
_NO_ROW, _ROW, _REPEAT = 0, 1, 2
_PAIRS = "pairs of a status and a result"
_NO_INPUTS = "have no inputs to run; name the file that was run to get them"
_MOST_LINES = 5
_TORN = "the last line is cut off and left out; the file was probably being written"
_CHANGED = "the file has changed while it was read"
_CUT = "not JSON: Input data was truncated"
_LIST = "expected an object, found a list"
_OTHER_GOLD = Fault("id", "the same row stands above with other expectations; those count", "warning")


class Look(NamedTuple):
    """What one pass over a file found. `skipped` are lines and rows that do not run, by what they are."""

    total: int
    asked: str
    gold: str
    skipped: dict[str, int]
    warnings: list[Problem]


class Rows:
    """The rows of a file, for a function with this contract; rows equal in id and inputs are one.

    `limit` keeps the first rows; below 1 it is a share of them, rounded up.
    """

    def __init__(self, path: Path, contract: Contract | None = None, limit: float | None = None) -> None:
        self.path = path
        self._reader = RowReader(contract)
        self._limit = limit
        self._kinds = bytearray()
        self._keys = array("Q")
        self._held: list[HopRow] = []
        self._look: Look | None = None

    def look(self) -> Look:
        """Read and check everything once; raises InputError with every error in the file."""
        if self._look is None:
            seen = _Pass(self.path, self._reader)
            seen.refuse()
            self._kinds, self._keys, self._held = seen.kinds, seen.kept, seen.held
            count = limited(self._limit, len(self._keys))
            self._look = Look(count, seen.asked, seen.gold, seen.skipped, seen.warnings())
        return self._look

    def rows(self, skip: Callable[[int], bool] = lambda _: False) -> Iterator[HopRow]:
        """Every row in the order of the file, except those whose index is to be skipped."""
        total, index = self.look().total, 0
        if self._held:
            yield from (row for row in self._held[:total] if not skip(row.index))
            return
        for at, line in enumerate(_lines(self.path)):
            if index >= total:
                return
            if at >= len(self._kinds):
                break
            if self._kinds[at] != _ROW:
                continue
            if not skip(index):
                yield self._row(line, index)
            index += 1
        if index < total:
            raise InputError(Problem(str(self.path), _CHANGED))

    def _row(self, line: jsonl.Line, index: int) -> HopRow:
        row = self._reader.row(_record_of(line, self.path, self._reader), line.number, index)
        if int(row.key, 16) != self._keys[index]:
            raise InputError(Problem(f"{self.path}:{line.number}", _CHANGED))
        return row


class _Spot(NamedTuple):
    """What is kept of a row to tell of a disagreement with a later one."""

    line: int
    id: int | str
    key: str
    inputs: str
    numbered: bool


class _Pass:
    """One pass over a file: digests of every row, and all that is wrong."""

    def __init__(self, path: Path, reader: RowReader) -> None:
        self._path, self._reader = path, reader
        self.kinds = bytearray()
        self.held: list[HopRow] = []
        self._holds = True
        self._ids, self._keys, self._gold = array("Q"), array("Q"), array("Q")
        self._errors: list[tuple[int, Problem]] = []
        self._more = 0
        self._told: dict[Fault, list[int]] = {}
        self._cut: int | None = None
        self._pairs: list[int] = []
        self.skipped = {"meta or observer lines": 0, "repeated rows": 0, _PAIRS: 0}
        self._read()
        self._collapse()
        del self._ids, self._keys, self._gold

    def _read(self) -> None:
        left = _HELD_BYTES
        for line in _lines(self._path):
            left -= len(line.raw)
            if left < 0:
                self._holds, self.held = False, []
            if self._cut is not None:
                self._error(self._cut, _CUT)
            self._cut = None
            self.kinds.append(_NO_ROW)
            try:
                value = _parsed(line, self._path)
                if isinstance(value, dict):
                    self._value(value, line.number)
                elif value is None:
                    self._cut = line.number
                else:
                    self._pair(line.number)
            except ValueError as error:
                self._error(line.number, str(error))
            except RecursionError:
                self._error(line.number, "nested too deeply")
        if not self._keys and not self._errors:
            self._error(0, self._without_rows())

    def _without_rows(self) -> str:
        told = "there is no row in this file"
        if self.skipped[_PAIRS]:
            return f"{told}: {_PAIRS} {_NO_INPUTS}"
        return f"{told}, only meta or observer lines" if self.skipped["meta or observer lines"] else told

    def _pair(self, line: int) -> None:
        """A result without its row: it does not run, and stops nothing."""
        self.skipped[_PAIRS] += 1
        if len(self._pairs) < _MOST_LINES:
            self._pairs.append(line)

    def _value(self, value: dict[str, Any], line: int) -> None:
        record = self._reader.record(value)
        if record is None:
            self.skipped["meta or observer lines"] += 1
            return
        row = self._reader.row(record, line, len(self._keys))
        faults = self._reader.faults(record, row)
        for fault in faults:
            self._fault(fault, line)
        if all(fault.level != "error" for fault in faults):
            self.kinds[-1] = _ROW
            if self._holds:
                self.held.append(row)
            self._ids.append(_digest(row.id))
            self._keys.append(int(row.key, 16))
            self._gold.append(int(row.gold, 16))

    def _fault(self, fault: Fault, line: int) -> None:
        if fault.level == "error":
            self._error(line, fault.message, fault.key)
        elif fault in self._told:
            self._told[fault][1] += 1
        elif len(self._told) < _MOST_WARNINGS:
            self._told[fault] = [line, 1]

    def _error(self, line: int, message: str, key: str = "") -> None:
        if len(self._errors) >= _MOST_ERRORS:
            self._more += 1
            return
        self._errors.append((line, Problem(_place(self._path, line, key), message)))

    def _collapse(self) -> None:
        """Of equal rows the first one stays. One id with different inputs is an error."""
        first = first_ones(self._keys)
        places = (at for at, kind in enumerate(self.kinds) if kind == _ROW)
        for at, kept in zip(places, first, strict=True):
            if not kept:
                self.kinds[at] = _REPEAT
        stay = (row for row, flag in zip(self.held, first, strict=False) if flag)
        self.held = [row if row.index == at else replace(row, index=at) for at, row in enumerate(stay)]
        self.skipped["repeated rows"] = first.count(0)
        self.kept = _where(self._keys, first)
        self.asked = hashlib.sha256(self.kept).hexdigest()
        self.gold = hashlib.sha256(_where(self._gold, first)).hexdigest()
        twice = repeated(_where(self._ids, first))
        differing = self._differing(first)
        if twice or differing:
            self._again(twice, differing)

    def _differing(self, first: bytearray) -> set[int]:
        """The keys of rows that are there again with other expectations."""
        if 0 not in first:
            return set()
        pairs = first_ones(array("Q", map(xor, self._keys, self._gold)))
        return {key for key, pair, kept in zip(self._keys, pairs, first, strict=True) if pair and not kept}

    def _again(self, twice: set[int], differing: set[int]) -> None:
        """Read once more to name the lines of rows that disagree."""
        ids: dict[str, _Spot] = {}
        golds: dict[str, str] = {}
        for record, row in self._rows():
            if _digest(row.id) in twice:
                spot = _Spot(row.line, row.id, row.key, gold_digest(row.fields), record.get("id") is None)
                before = ids.setdefault(str(row.id), spot)
                if before.key != row.key:
                    self._error(row.line, _clash(before, spot), "id")
            if int(row.key, 16) in differing and golds.setdefault(row.key, row.gold) != row.gold:
                self._fault(_OTHER_GOLD, row.line)

    def _rows(self) -> Iterator[tuple[dict[str, Any], HopRow]]:
        for at, line in enumerate(_lines(self._path)):
            if at < len(self.kinds) and self.kinds[at] != _NO_ROW:
                record = _record_of(line, self._path, self._reader)
                yield record, self._reader.row(record, line.number)

    def refuse(self) -> None:
        """Raise all errors at once, in the order of lines."""
        if self._errors:
            problems = [problem for _, problem in sorted(self._errors, key=lambda error: error[0])]
            more = [Problem(str(self._path), f"and {self._more:,} more errors")] if self._more else []
            raise InputError(problems + more)

    def warnings(self) -> list[Problem]:
        """One for each thing there is to say, with the first line it is said of."""
        found = [
            Problem(_place(self._path, line, fault.key), _times(fault.message, count), "warning")
            for fault, (line, count) in self._told.items()
        ]
        if self._pairs:
            found.append(Problem(_place(self._path, self._pairs[0]), self._left_out(), "warning"))
        if self._cut is not None:
            found.append(Problem(_place(self._path, self._cut), _TORN, "warning"))
        return found

    def _left_out(self) -> str:
        count = self.skipped[_PAIRS]
        lines = ", ".join(map(str, self._pairs)) + (", …" if count > len(self._pairs) else "")
        if count == 1:
            return "a pair of a status and a result has no inputs to run, and is left out"
        return f"{_PAIRS} have no inputs to run; {count:,} lines are left out: {lines}"


def _place(path: Path, line: int, key: str = "") -> str:
    where = f"{path}:{line}" if line else str(path)
    return f"{where} $.{key}" if key else where


def _record_of(line: jsonl.Line, path: Path, reader: RowReader) -> dict[str, Any]:
    """The record of a line that held one when the file was looked at."""
    at = jsonl.Place(path, line.number)
    value = jsonl.parse_object(line.raw, at)
    record = reader.record(value) if value is not None else None
    if record is None:
        raise InputError(Problem(at.where, _CHANGED))
    return record


def _lines(path: Path) -> Iterator[jsonl.Line]:
    try:
        yield from jsonl.lines(path)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


def _parsed(line: jsonl.Line, path: Path) -> dict[str, Any] | list[Any] | None:
    """The object or the pair of a line; None if it is cut off, ValueError if it is something else."""
    problems: list[Problem] = []
    value = jsonl.parse_object(line.raw, jsonl.Place(path, line.number), problems)
    if not problems:
        return value
    if problems[0].message == _CUT:
        return None
    if problems[0].message == _LIST and is_pair(pair := msgspec.json.decode(line.raw)):
        found: list[Any] = pair
        return found
    raise ValueError(problems[0].message)


def _clash(before: _Spot, row: _Spot) -> str:
    if before.inputs == row.inputs:
        return f"this id stands on line {before.line} as {before.id!r}; write it in one way"
    told = f"the id {str(row.id)!r} stands on line {before.line} with other inputs"
    if not (before.numbered or row.numbered):
        return told
    return f"{told}; a row without an id has the number of its line, so give every row one"


def _times(message: str, count: int) -> str:
    return message if count == 1 else f"{message} (so on {count:,} lines)"


def _digest(id_: int | str) -> int:
    """1 and "1" are the same id. It holds in this process only."""
    return hash(str(id_)) & 0xFFFFFFFFFFFFFFFF


def _where(numbers: array[int], wanted: bytearray) -> array[int]:
    return array("Q", (number for number, flag in zip(numbers, wanted, strict=True) if flag))
