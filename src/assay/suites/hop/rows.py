"""Reads the rows of a JSONL file. The lines may be inputs, results of earlier batches, or a mixture.

file = read_rows(Path("verify.jsonl"), contract)
file.rows                  # each row once
file.warnings              # problems that do not stop the batch
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

import msgspec
from msgspec import Struct

from assay.core.errors import Problem, similar_names
from assay.core.row_keys import row_key
from assay.core.suite import Row
from assay.files.excerpt import cut_end
from assay.files.read import ENDS_EARLY, Line, json_lines, parse_object
from assay.files.schema import refuse
from assay.suites.hop.batch_lines import is_meta, is_observer_line, is_pair, is_result_key, split_record, unwrap
from assay.suites.hop.contract import Contract, OutputField, parse_bool
from assay.suites.hop.field_types import fits

UNTAGGED = "(untagged)"
DIFFICULTIES = ("easy", "medium", "hard")
NO_ID = "the row has no id; its line number is used"
NO_TAG = f"the row has no tag; it counts as {UNTAGGED}"
META_LINES, OBSERVER_LINES, REPEATED_ROWS, PAIRS = (
    "meta lines",
    "lines of an observer's log",
    "repeated rows",
    "bare [status, result] pairs",
)
"""Kinds of lines and rows that do not run."""
# The message about each kind, for one line and for several, and its level. Meta lines are no loss.
_LEFT_OUT = {
    META_LINES: ("meta line describes a profile and was", "meta lines describe profiles and were", "note"),
    OBSERVER_LINES: (
        "line has the keys of an observer's log (`type`, `run_id`) and was",
        "lines have the keys of an observer's log (`type`, `run_id`) and were",
        "warning",
    ),
    REPEATED_ROWS: ("row equal to another was", "rows equal to others were", "warning"),
    PAIRS: (
        "bare [status, result] pair has no inputs to run and was",
        "bare [status, result] pairs have no inputs to run and were",
        "warning",
    ),
}

_NOT_PASSED = "is not passed to the function; if it is an input, list it under `inputs` in the contract"
_MAX_WARNINGS = 200  # different ones; a large file could have one on every line
_MAX_LINE_NUMBERS = 10  # in a warning
_INCOMPLETE = "the last line is incomplete and is skipped; the file was probably being written"
# The message of files/read.py for a list.
_LIST = "expected an object, found a list"
# Sorted keys: rows with the same fields in another order must have the same key.
_encode = msgspec.json.Encoder(order="deterministic").encode


class HopRow(Struct, frozen=True):
    """A row. `fields` go to the function, `expected` to the scorer, `record` to the result file.

    `record` has an id even if the file had none, so that a batch over its own output has the same rows.
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
    """Fingerprint of id and fields."""
    gold: str
    """Fingerprint of the expected values, 16 hex digits."""


class HopRows:
    """The rows of a file, for the engine. All of them are in memory."""

    def __init__(self, rows: list[HopRow], set_name: str, facts: dict[str, Any]) -> None:
        self._rows = rows
        self._set = set_name
        self.count = len(rows)
        self.facts = facts

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[HopRow]]:
        """Yield the rows in the order of the file."""
        for number, row in enumerate(self._rows):
            if skip is None or not skip(number):
                yield Row(number, row.key, self._set, row)


class RowFile(NamedTuple):
    """The content of a file. Rows with equal id and inputs are one row. `skipped` has the other lines by kind."""

    rows: list[HopRow]
    skipped: dict[str, list[int]]
    warnings: list[Problem]

    @property
    def keys_sha256(self) -> str:
        """Hash of the ids and inputs of all rows."""
        return hashlib.sha256("".join(row.key for row in self.rows).encode()).hexdigest()

    @property
    def gold_sha256(self) -> str:
        """Hash of the expected values of all rows."""
        return hashlib.sha256("".join(row.gold for row in self.rows).encode()).hexdigest()


def read_rows(path: Path, contract: Contract | None = None) -> RowFile:
    """Read a file and check it against a contract. Raises InputError with every error in the file."""
    reader = _FileReader(path, RowReader(contract))
    for line in json_lines(path):
        reader.add_line(line)
    return reader.file()


class _FileReader:
    def __init__(self, path: Path, reader: RowReader) -> None:
        self._path = path
        self._reader = reader
        self._line = 0  # that is being read
        self._rows: dict[str, HopRow] = {}  # by the id as text: 1 and "1" are the same id
        self._without_id: set[int] = set()  # lines of rows that use their line number as id
        self._errors: list[Problem] = []
        self._warnings: dict[RowProblem, list[int]] = {}  # first line, and number of lines
        self._cut_line = 0
        self._more_warnings = 0
        self._skipped: dict[str, list[int]] = {kind: [] for kind in _LEFT_OUT}

    @property
    def where(self) -> str:
        """The place of the line that is being read."""
        return _place(self._path, self._line)

    def add_line(self, line: Line) -> None:
        # Only the last line of a file may be incomplete. This line follows the incomplete one.
        if self._cut_line:
            self._error(self._cut_line, ENDS_EARLY)
            self._cut_line = 0
        self._line = line.number
        problems: list[Problem] = []
        try:
            value = parse_object(line.raw, self, problems)
            if value is not None:
                self._add_value(value, line.number)
            elif problems[0].message == ENDS_EARLY:
                self._cut_line = line.number
            elif problems[0].message == _LIST and is_pair(msgspec.json.decode(line.raw)):
                self._skipped[PAIRS].append(line.number)
            else:
                self._error(line.number, problems[0].message)
        except ValueError as error:
            self._error(line.number, str(error))
        except RecursionError:
            self._error(line.number, "nested too deeply")

    def _add_value(self, value: dict[str, Any], line: int) -> None:
        record = self._reader.record(value)
        if record is None:
            kind = META_LINES if is_meta(value) or is_meta(unwrap(value)) else OBSERVER_LINES
            self._skipped[kind].append(line)
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
        """Add a row unless an equal row exists. The same id with different inputs is an error."""
        if not has_id:
            self._without_id.add(row.line)
        earlier = self._rows.setdefault(str(row.id), row)
        if earlier is row:
            return
        if earlier.key == row.key:
            self._skipped[REPEATED_ROWS].append(row.line)
            if earlier.gold != row.gold:
                message = "an earlier line has the same row with other expected values; the earlier ones count"
                self._warn(RowProblem("id", message, "warning"), row.line)
            return
        if _encode(earlier.fields) == _encode(row.fields):
            message = f"line {earlier.line} has the same id, written as {earlier.id!r}; write both the same way"
        else:
            message = f"line {earlier.line} has the same id {str(row.id)!r} with other inputs"
            if self._without_id & {earlier.line, row.line}:
                message += "; a row without an id uses its line number, so give every row an id"
        self._error(row.line, message, "id")

    def _error(self, line: int, message: str, key: str = "") -> None:
        self._errors.append(Problem(_place(self._path, line, key), message))

    def _warn(self, problem: RowProblem, line: int) -> None:
        """Add a warning. Equal warnings are reported once, with the number of lines."""
        if problem in self._warnings:
            self._warnings[problem][1] += 1
        elif len(self._warnings) < _MAX_WARNINGS:
            self._warnings[problem] = [line, 1]
        else:
            self._more_warnings += 1

    def file(self) -> RowFile:
        # A program that is still writing has not written the line break. A complete line that ends early is broken.
        if self._cut_line and _ends_with_line_break(self._path):
            self._error(self._cut_line, ENDS_EARLY)
        if not self._rows and not self._errors:
            message = "there is no row in this file"
            if self._skipped[PAIRS]:
                message += f": {PAIRS} have no inputs; pass the file that the batch was run on"
            elif self._skipped[META_LINES] or self._skipped[OBSERVER_LINES]:
                message += ", only meta or observer lines"
            self._error(0, message)
        refuse(self._errors, self._path)
        return RowFile(list(self._rows.values()), self._skipped, list(self._warning_problems()))

    def _warning_problems(self) -> Iterator[Problem]:
        for problem, (line, count) in self._warnings.items():
            message = problem.message if count == 1 else f"{problem.message} (on {count:,} lines)"
            yield Problem(_place(self._path, line, problem.key), message, "warning")
        if self._more_warnings:
            yield Problem(str(self._path), f"and {self._more_warnings:,} more warnings", "warning")
        for kind, lines in self._skipped.items():
            if lines:
                one, several, level = _LEFT_OUT[kind]
                numbers = ", ".join(map(str, lines[:_MAX_LINE_NUMBERS]))
                more = ", …" if len(lines) > _MAX_LINE_NUMBERS else ""
                words = f"1 {one} left out: line" if len(lines) == 1 else f"{len(lines):,} {several} left out: lines"
                yield Problem(_place(self._path, lines[0]), f"{words} {numbers}{more}", level)
        if self._cut_line:
            yield Problem(_place(self._path, self._cut_line), _INCOMPLETE, "warning")


def _ends_with_line_break(path: Path) -> bool:
    with path.open("rb") as file:
        return file.seek(0, 2) > 0 and file.seek(-1, 2) >= 0 and file.read(1) == b"\n"


def _place(path: Path, line: int, key: str = "") -> str:
    where = f"{path}:{line}" if line else str(path)
    return f"{where} $.{key}" if key else where


class RowProblem(NamedTuple):
    """A problem at one key of a row."""

    key: str
    message: str
    level: str = "error"


def _is_text(value: Any) -> TypeGuard[str]:
    return isinstance(value, str) and bool(value.strip())


def _is_id(value: Any) -> bool:
    return type(value) is int or _is_text(value)


# Keys that describe a row: the check of the value, and the expected type for the message.
_ROW_CHECKS: dict[str, tuple[Callable[[Any], bool], str]] = {
    "id": (_is_id, "a whole number or a text"),
    "tag": (_is_text, "a text"),
    "difficulty": (lambda value: value in DIFFICULTIES, f"one of {', '.join(DIFFICULTIES)}"),
    "description": (lambda value: isinstance(value, str), "a text"),
}


class RowReader:
    """Turns records into rows, for a function with this contract."""

    def __init__(self, contract: Contract | None = None) -> None:
        self._contract = contract or Contract()
        self._inputs = tuple(self._contract.inputs)
        # A row may have the keys of an observer's log, if the contract has them.
        self._has_log_keys = {"type", "run_id"} <= self._contract.inputs.keys()

    def record(self, value: dict[str, Any]) -> dict[str, Any] | None:
        """Return the record inside its wrappers, or None for a line without a row.

        Raises ValueError if the wrappers are nested too deeply.
        """
        record = value if is_meta(value) else unwrap(value, self._inputs)
        return None if is_meta(record) or (is_observer_line(record) and not self._has_log_keys) else record

    def row(self, record: dict[str, Any], line: int) -> HopRow:
        """Return the row of a record. An invalid id, tag, difficulty or description counts as missing."""
        has_id = _is_id(record.get("id"))
        id_: int | str = record["id"] if has_id else line
        tag, difficulty, description = record.get("tag"), record.get("difficulty"), record.get("description")
        parts = split_record(record, self._inputs)
        output_record = parts.kept
        if not has_id and "id" not in self._inputs:
            rest = {key: value for key, value in output_record.items() if key != "id"}
            output_record = {"id": id_, **rest}
        return HopRow(
            id_,
            tag if _is_text(tag) else UNTAGGED,
            difficulty if difficulty in DIFFICULTIES else None,
            description if isinstance(description, str) else None,
            parts.fields,
            parts.expected,
            output_record,
            line,
            row_key(_encode([id_, parts.fields])),
            row_key(_encode(parts.expected)),
        )

    def problems(self, record: dict[str, Any], row: HopRow) -> list[RowProblem]:
        """Return the errors and warnings of a record and its row."""
        problems: list[RowProblem] = []
        get = record.get
        # `row` has taken over every value that is valid. Nearly all rows have only such values.
        if not (
            row.id is get("id")
            and row.tag is get("tag")
            and row.difficulty is get("difficulty")
            and row.description is get("description")
        ):
            self._check_description(record, problems)
        self._check_inputs(record, problems)
        if not row.fields and not self._inputs:
            problems.append(RowProblem("", "there is no input in this row"))
        if self._contract.outputs:
            for name, value in row.expected.items():
                if message := _unreachable(self._contract.outputs.get(name), value):
                    problems.append(RowProblem(f"expected_{name}", message, "warning"))
        return problems

    def _check_description(self, record: dict[str, Any], problems: list[RowProblem]) -> None:
        """Check id, tag, difficulty and description. If one is an input, `_check_inputs` checks it instead."""
        for key, (is_valid, expected_type) in _ROW_CHECKS.items():
            value = record.get(key)
            if value is not None and key not in self._inputs and not is_valid(value):
                problems.append(RowProblem(key, f"expected {expected_type}, found {_short(value)}"))
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
                others = [key for key in record if key not in contract.inputs]
                near = similar_names(name, others)
                hint = f"; is {near[0]!r} meant?" if near else ""
                message = f"the contract requires this input, but the row lacks it{hint}"
                problems.append(RowProblem(name, message))
            elif not fits(value, kind):
                problems.append(RowProblem(name, f"the contract requires {kind}, found {_short(value)}"))
        if contract.inputs:
            return
        if "expected" in record:
            problems.append(RowProblem("expected", f"`expected` {_NOT_PASSED}", "warning"))
        # In a result row, `profile` is that of the earlier batch and needs no warning.
        if "profile" in record and not any(is_result_key(key) and key != "profile" for key in record):
            problems.append(RowProblem("profile", f"`profile` {_NOT_PASSED}", "warning"))


def _unreachable(output: OutputField | None, value: Any) -> str:
    """Return why no result can match an expected value, or "". A boolean may be written as a text."""
    if output is None:
        return "the contract has no such output"
    if value is None:
        return ""
    if not (fits(value, output.type) or (output.type == "bool" and isinstance(value, str))):
        return f"the contract declares {output.type} for this output, so no result can match this value"
    if output.compare == "bands":
        expected = parse_bool(value) if output.type == "bool" else value
        if output.band_of(expected) is None:
            return "the value is in no band of the contract"
    return ""


def _short(value: Any) -> str:
    return cut_end(_encode(value).decode(), 60)
