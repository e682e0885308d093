"""Reads a JSONL file of a task for people: how many records of which kind it has, and some of them at a time.

    count_records(path)                   # quick: every line is looked at, none is read in full
    index = ResultIndex(path, contract)   # reads the file once; errors, and results that are right
    index.read(first=100, count=20)       # reads these records only

Works for result files of assay and of other HOP tools, in both forms, and for files of inputs.
"""

from __future__ import annotations

from array import array
from functools import lru_cache
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Raw, Struct

from assay.core.errors import InputError, unreadable
from assay.files.read import json_lines, line_at
from assay.suites.hop.batch_lines import expectations, is_meta, is_observer_line, unwrap
from assay.suites.hop.contract import Contract
from assay.suites.hop.result import OK
from assay.suites.hop.scorer import RowVerdict, check_row
from assay.suites.hop.store.audit import Audit, read_audit, read_json

_NOTHING = Raw(b"")
_OBSERVED = (b'"run_start"', b'"step"', b'"run_end"')
# Meta lines of one file that are kept. A file has one for each profile.
_MAX_METAS = 100


class RecordCount(Struct, frozen=True, kw_only=True):
    """The lines of a file by kind. Blank lines are not counted."""

    records: int = 0
    """Inputs and results."""
    results: int = 0
    metas: int = 0
    logged: int = 0
    """Lines of an observer's or a frontend's log."""
    unreadable: int = 0

    @property
    def is_log(self) -> bool:
        """Whether the file is a log, and has neither inputs nor results."""
        return self.logged > 0 and not self.records and not self.metas


class _LineKeys(Struct, frozen=True):
    """The keys that decide the kind of a line. Their values are not decoded."""

    kind: Raw = msgspec.field(default=_NOTHING, name="_type")
    type: Raw = _NOTHING
    run_id: Raw = _NOTHING
    ts: Raw = _NOTHING
    level: Raw = _NOTHING
    message: Raw = _NOTHING
    hop_result: Raw = _NOTHING
    hop_stats: Raw = _NOTHING
    input: Raw = _NOTHING
    result: Raw = _NOTHING
    error: Raw = _NOTHING

    @property
    def is_logged(self) -> bool:
        """Whether the line is of an observer's or a frontend's log."""
        is_observed = bytes(self.type) in _OBSERVED and self.run_id is not _NOTHING
        return is_observed or all(key is not _NOTHING for key in (self.ts, self.level, self.message))

    @property
    def is_result(self) -> bool:
        """Whether the line is a result in the flat form or in that of the View."""
        has_outcome = self.result is not _NOTHING or self.error is not _NOTHING
        is_view = bytes(self.input)[:1] == b"{" and has_outcome
        return is_view or self.hop_result is not _NOTHING or bytes(self.hop_stats)[:1] == b"{"


def count_records(path: Path) -> RecordCount:
    """Return how many records of which kind a file has. The count is kept until the file changes.

    Raises InputError if the file cannot be read.
    """
    try:
        stat = path.stat()
        return _count(path, stat.st_mtime_ns, stat.st_size)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None


@lru_cache(maxsize=1024)
def _count(path: Path, _time: int, _size: int) -> RecordCount:
    decode = msgspec.json.Decoder(_LineKeys).decode
    records = results = metas = logged = bad = 0
    for line in json_lines(path):
        if line.raw[:1] == b"[":
            records += 1
            results += 1
            continue
        try:
            keys = decode(line.raw)
        except (msgspec.DecodeError, UnicodeDecodeError):
            bad += 1
            continue
        if bytes(keys.kind) == b'"meta"':
            metas += 1
        elif keys.is_logged:
            logged += 1
        else:
            records += 1
            results += keys.is_result
    return RecordCount(records=records, results=results, metas=metas, logged=logged, unreadable=bad)


class HistoryRecord(Struct, frozen=True, kw_only=True):
    """One record of a file. `number` counts the records of the file from 1, without meta lines and logs."""

    number: int
    value: Any
    """The line as it is."""
    audit: Audit | None = None
    """The result. None for an input, and for a line that is no JSON."""
    verdict: RowVerdict | None = None
    """The checks of the expected values. None without a result."""


class ResultIndex:
    """The positions of the records of a file, and the numbers over all of them.

    Reads the whole file, so a page makes it in a thread and keeps it until `is_current` is false.
    """

    def __init__(self, path: Path, contract: Contract) -> None:
        self.path = path
        self.contract = contract
        self.metas: list[dict[str, Any]] = []
        self.results = 0
        self.errors = 0
        """Results whose function raised or timed out."""
        self.completed = 0
        """Results with the status OK."""
        self.expecting = 0
        """Results with expected values; errors count."""
        self.right = 0
        self._starts = array("q")
        self._stamp = self._file_stamp()
        self._read_all()

    def __len__(self) -> int:
        return len(self._starts)

    def is_current(self, contract: Contract) -> bool:
        """Return whether the file and the contract are still those that were read."""
        return self._stamp == self._file_stamp() and self.contract == contract

    def read(self, first: int, count: int) -> list[HistoryRecord]:
        """Return some records, by their position from 0. Raises InputError if the file cannot be read."""
        records = []
        try:
            with self.path.open("rb") as file:
                for position in range(first, min(first + count, len(self))):
                    raw = line_at(file, self._starts[position])
                    records.append(self._record(position + 1, raw))
        except OSError as error:
            raise InputError(unreadable(self.path, error)) from None
        return records

    def _read_all(self) -> None:
        for line in json_lines(self.path):
            self._add(line.raw, line.offset)

    def _add(self, raw: bytes, position: int) -> None:
        record = self._record(0, raw)
        value = record.value
        if isinstance(value, dict):
            if is_meta(value):
                if len(self.metas) < _MAX_METAS:
                    self.metas.append(value)
                return
            if is_observer_line(value) or value.keys() >= {"ts", "level", "message"}:
                return
        self._starts.append(position)
        if record.audit is None:
            return
        self.results += 1
        self.errors += record.audit.failed
        self.completed += not record.audit.failed and record.audit.outcome in (None, OK)
        if record.verdict is not None and record.verdict.correct is not None:
            self.expecting += 1
            self.right += record.verdict.correct

    def _record(self, number: int, raw: bytes) -> HistoryRecord:
        try:
            value = read_json(raw)
        except (ValueError, RecursionError):
            return HistoryRecord(number=number, value=raw.decode(errors="replace"))
        audit = read_audit(value, self.contract.audit_key) if isinstance(value, (dict, list)) else None
        if audit is None:
            return HistoryRecord(number=number, value=value)
        expected = expectations(audit.row, tuple(self.contract.inputs))
        fields = None if audit.failed else audit.fields
        verdict = check_row(expected, fields, self.contract.outputs)
        return HistoryRecord(number=number, value=value, audit=audit, verdict=verdict)

    def _file_stamp(self) -> tuple[int, int]:
        try:
            stat = self.path.stat()
        except OSError as error:
            raise InputError(unreadable(self.path, error)) from None
        return stat.st_mtime_ns, stat.st_size


def first_input(path: Path, contract: Contract) -> dict[str, Any] | None:
    """Return the inputs of the first record of a file that has all inputs of the contract, or None."""
    for line in json_lines(path):
        try:
            value = read_json(line.raw)
            record = unwrap(value) if isinstance(value, dict) else {}
        except (ValueError, RecursionError):
            continue
        if record and all(name in record for name in contract.inputs if name not in contract.optional):
            return {name: record[name] for name in contract.inputs if name in record}
    return None
