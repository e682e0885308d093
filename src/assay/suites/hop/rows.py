"""The rows of a JSONL file: inputs, results of earlier batches in both forms, or all of them mixed.

file = read_rows(Path("verify.jsonl"), contract)
file.rows                  # what runs, each row once
file.warnings              # what a person should know
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct

from assay.core import jsonl
from assay.core.errors import InputError, Problem, unreadable
from assay.core.hashing import row_key
from assay.core.hop_records import is_meta, is_observer_line, is_pair, is_result_key, split_record, unwrap
from assay.core.schema import refuse
from assay.core.suite import Row
from assay.suites.hop.contract import Contract, OutputField, fits, read_truth

UNTAGGED = "(untagged)"
DIFFICULTIES = ("easy", "medium", "hard")
NO_ID = "there is no id; the number of the line stands for it"
NO_TAG = f"there is no tag; the row is counted as {UNTAGGED}"
META_LINES, REPEATED_ROWS, PAIRS = (
    "meta or observer lines",
    "repeated rows",
    "pairs of a status and a result",
)
"""Lines and rows that do not run."""

_WITHHELD = "is not given to the function; name it in the contract's inputs if it is one"
_MAX_WARNINGS = 200
_MAX_LINES_NAMED = 5
_TORN = "the last line is cut off and left out; the file was probably being written"
# What core/jsonl.py says of such lines.
_CUT = "not JSON: Input data was truncated"
_LIST = "expected an object, found a list"
_encode = msgspec.json.Encoder(order="deterministic").encode


class HopRow(Struct, frozen=True):
    """A row. `fields` go to the function, `expected` to the scorer, `record` to the files that are written.

    `record` has the row's id even where the file had none: a batch over its own output has the same rows.
    """

    id: int | str
    tag: str
    difficulty: str | None
    description: str | None
    fields: dict[str, Any]
    expected: dict[str, Any]
    record: dict[str, Any]
    line: int
    key: str
    """Made of id and fields."""
    gold: str
    """What is expected, in sixteen digits."""


class HopRows:
    """The rows of a file as the engine reads them. They are in memory."""

    def __init__(self, rows: list[HopRow], set_name: str, facts: dict[str, Any]) -> None:
        self._rows = rows
        self._set = set_name
        self.count = len(rows)
        self.facts = facts

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[HopRow]]:
        """Rows in the order of the file."""
        for number, row in enumerate(self._rows):
            if skip is None or not skip(number):
                yield Row(number, row.key, self._set, row)


class RowFile(NamedTuple):
    """What a file holds. Rows that are equal in id and inputs are one row; `skipped` counts what does not run."""

    rows: list[HopRow]
    skipped: dict[str, int]
    warnings: list[Problem]

    @property
    def keys_sha256(self) -> str:
        """What is asked, by content."""
        return hashlib.sha256("".join(row.key for row in self.rows).encode()).hexdigest()

    @property
    def gold_sha256(self) -> str:
        """What is expected, by content."""
        return hashlib.sha256("".join(row.gold for row in self.rows).encode()).hexdigest()


def read_rows(path: Path, contract: Contract | None = None) -> RowFile:
    """Read and check a file for a function with this contract; raises InputError with every error in it."""
    reader = _FileReader(path, RowReader(contract))
    try:
        for line in jsonl.lines(path):
            reader.add_line(line)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    return reader.file()


class _FileReader:
    def __init__(self, path: Path, reader: RowReader) -> None:
        self._path = path
        self._reader = reader
        self._rows: dict[str, HopRow] = {}  # by the text of the id: 1 and "1" are the same
        self._without_id: set[int] = set()  # lines of rows that have the number of their line
        self._errors: list[Problem] = []
        self._warnings: dict[RowProblem, list[int]] = {}  # with the first line and the number of lines
        self._cut_line = 0
        self._pair_lines: list[int] = []
        self._skipped = {META_LINES: 0, REPEATED_ROWS: 0, PAIRS: 0}

    def add_line(self, line: jsonl.Line) -> None:
        if self._cut_line:  # it was not the last one
            self._error(self._cut_line, _CUT)
            self._cut_line = 0
        problems: list[Problem] = []
        try:
            value = jsonl.parse_object(line.raw, jsonl.Place(self._path, line.number), problems)
            if value is not None:
                self._add_value(value, line.number)
            elif problems[0].message == _CUT:
                self._cut_line = line.number
            elif problems[0].message == _LIST and is_pair(msgspec.json.decode(line.raw)):
                self._skipped[PAIRS] += 1
                self._pair_lines.append(line.number)
            else:
                self._error(line.number, problems[0].message)
        except ValueError as error:
            self._error(line.number, str(error))
        except RecursionError:
            self._error(line.number, "nested too deeply")

    def _add_value(self, value: dict[str, Any], line: int) -> None:
        record = self._reader.record(value)
        if record is None:
            self._skipped[META_LINES] += 1
            return
        row = self._reader.row(record, line)
        failed = False
        for problem in self._reader.problems(record, row):
            if problem.level == "error":
                failed = True
                self._error(line, problem.message, problem.key)
            else:
                self._warn(problem, line)
        if not failed:
            self._add_row(row, has_id=record.get("id") is not None)

    def _add_row(self, row: HopRow, *, has_id: bool) -> None:
        """Of equal rows the first one stays. One id with different inputs is an error."""
        if not has_id:
            self._without_id.add(row.line)
        before = self._rows.setdefault(str(row.id), row)
        if before is row:
            return
        if before.key == row.key:
            self._skipped[REPEATED_ROWS] += 1
            if before.gold != row.gold:
                message = "the same row stands above with other expectations; those count"
                self._warn(RowProblem("id", message, "warning"), row.line)
            return
        if _encode(before.fields) == _encode(row.fields):
            message = f"this id stands on line {before.line} as {before.id!r}; write it in one way"
        else:
            message = f"the id {str(row.id)!r} stands on line {before.line} with other inputs"
            if self._without_id & {before.line, row.line}:
                message += "; a row without an id has the number of its line, so give every row one"
        self._error(row.line, message, "id")

    def _error(self, line: int, message: str, key: str = "") -> None:
        self._errors.append(Problem(_place(self._path, line, key), message))

    def _warn(self, problem: RowProblem, line: int) -> None:
        """Warnings that say the same are told once, with the number of lines."""
        if problem in self._warnings:
            self._warnings[problem][1] += 1
        elif len(self._warnings) < _MAX_WARNINGS:
            self._warnings[problem] = [line, 1]

    def file(self) -> RowFile:
        if not self._rows and not self._errors:
            message = "there is no row in this file"
            if self._skipped[PAIRS]:
                message += f": {PAIRS} have no inputs to run; name the file that was run to get them"
            elif self._skipped[META_LINES]:
                message += ", only meta or observer lines"
            self._error(0, message)
        refuse(self._errors, self._path)
        return RowFile(list(self._rows.values()), self._skipped, list(self._told_warnings()))

    def _told_warnings(self) -> Iterator[Problem]:
        for problem, (line, count) in self._warnings.items():
            message = problem.message if count == 1 else f"{problem.message} (so on {count:,} lines)"
            yield Problem(_place(self._path, line, problem.key), message, "warning")
        if count := self._skipped[PAIRS]:
            message = "a pair of a status and a result has no inputs to run, and is left out"
            if count > 1:
                lines = ", ".join(map(str, self._pair_lines[:_MAX_LINES_NAMED]))
                more = ", …" if count > _MAX_LINES_NAMED else ""
                message = f"{PAIRS} have no inputs to run; {count:,} lines are left out: {lines}{more}"
            yield Problem(_place(self._path, self._pair_lines[0]), message, "warning")
        if self._cut_line:
            yield Problem(_place(self._path, self._cut_line), _TORN, "warning")


def _place(path: Path, line: int, key: str = "") -> str:
    where = f"{path}:{line}" if line else str(path)
    return f"{where} $.{key}" if key else where


class RowProblem(NamedTuple):
    """Something wrong in a row, at one of its keys."""

    key: str
    message: str
    level: str = "error"


def _is_text(value: Any) -> bool:
    return isinstance(value, str) and bool(value.strip())


def _is_id(value: Any) -> bool:
    return _is_text(value) or (isinstance(value, int) and not isinstance(value, bool))


# What a row may say about itself, and what a wrong value is told to be.
_ROW_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (_is_id, "a whole number or a text"),
    "tag": (_is_text, "a text"),
    "difficulty": (lambda value: value in DIFFICULTIES, f"one of {', '.join(DIFFICULTIES)}"),
    "description": (lambda value: isinstance(value, str), "a text"),
}


class RowReader:
    """Makes rows of records, for a function with this contract."""

    def __init__(self, contract: Contract | None = None) -> None:
        self._contract = contract or Contract()
        self._inputs = tuple(self._contract.inputs)

    def record(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """The record within its wrappers; None for a line that holds no row. Raises ValueError without an end."""
        if is_meta(value) or is_observer_line(value):
            return None
        record = unwrap(value, self._inputs)
        if record is not value and (is_meta(record) or is_observer_line(record)):
            return None
        return record

    def row(self, record: dict[str, Any], line: int) -> HopRow:
        """The row of a record. What is said about it in a wrong way counts as not said."""
        has_id = _is_id(record.get("id"))
        id_: int | str = record["id"] if has_id else line
        fields, expected, kept = split_record(record, self._inputs)
        if not has_id and "id" not in self._inputs:
            kept = {"id": id_, **{key: value for key, value in kept.items() if key != "id"}}
        return HopRow(
            id_,
            record["tag"] if _is_text(record.get("tag")) else UNTAGGED,
            record["difficulty"] if record.get("difficulty") in DIFFICULTIES else None,
            record["description"] if isinstance(record.get("description"), str) else None,
            fields,
            expected,
            kept,
            line,
            row_key(_encode([id_, fields])),
            row_key(_encode(expected)),
        )

    def problems(self, record: dict[str, Any], row: HopRow) -> list[RowProblem]:
        """What is wrong with a record that was made a row, and what a person should know of it."""
        problems: list[RowProblem] = []
        self._check_about(record, problems)
        self._check_inputs(record, problems)
        if not row.fields and not self._inputs:
            problems.append(RowProblem("", "there is no input in this row"))
        if self._contract.outputs:
            for name, value in row.expected.items():
                if message := _never_right(self._contract.outputs.get(name), value):
                    problems.append(RowProblem(f"expected_{name}", message, "warning"))
        return problems

    def _check_about(self, record: dict[str, Any], problems: list[RowProblem]) -> None:
        """Check what is said about the row. What the contract calls an input is checked as one instead."""
        for key, (is_right, wanted) in _ROW_CHECKS.items():
            value = record.get(key)
            if value is not None and key not in self._inputs and not is_right(value):
                problems.append(RowProblem(key, f"expected {wanted}, found {_short(value)}"))
        if record.get("id") is None or ("id" in self._inputs and not _is_id(record["id"])):
            problems.append(RowProblem("id", NO_ID, "warning"))
        tag = record.get("tag")
        if tag is None or ("tag" in self._inputs and not _is_text(tag)):
            problems.append(RowProblem("tag", NO_TAG, "warning"))

    def _check_inputs(self, record: dict[str, Any], problems: list[RowProblem]) -> None:
        contract = self._contract
        for name, kind in contract.inputs.items():
            value = record.get(name)
            if value is None and name in contract.optional:
                continue
            if name not in record:
                problems.append(RowProblem(name, "the contract wants this input, and it is not there"))
            elif not fits(value, kind):
                problems.append(RowProblem(name, f"the contract wants {kind}, found {_short(value)}"))
        if contract.inputs:
            return
        if "expected" in record:
            problems.append(RowProblem("expected", f"`expected` {_WITHHELD}", "warning"))
        if "profile" in record and not any(is_result_key(key) and key != "profile" for key in record):
            problems.append(RowProblem("profile", f"`profile` {_WITHHELD}", "warning"))


def _never_right(output: OutputField | None, value: Any) -> str:
    """Why no output can be what is expected; empty if one can. A boolean may be written as a text."""
    if output is None:
        return "the contract has no such output"
    if value is None:
        return ""
    if not (fits(value, output.type) or (output.type == "bool" and isinstance(value, str))):
        return f"the contract has {output.type} for this output, so nothing will be equal to it"
    if output.compare == "bands":
        wanted = read_truth(value) if output.type == "bool" else value
        if output.band_of(wanted) is None:
            return "the value lies in no band of the contract"
    return ""


def _short(value: Any) -> str:
    text = _encode(value).decode()
    return text if len(text) <= 60 else f"{text[:57]}..."
