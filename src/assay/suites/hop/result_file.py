"""Writes the result file of a run: a meta line per profile, followed by its rows: flat, or as `{input, result}`.

`batch_lines.py` recognises these lines when they are read again. `result_folder.py` reads results of all HOP tools.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable, Sequence
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import IO, Any, Self

import msgspec
from msgspec import Struct

from assay.core.protocols import ScorerInput
from assay.core.suite import CaseResult
from assay.files.redact import Redactor
from assay.files.write import FILE_MODE, open_new
from assay.suites.hop.batch_lines import PARTIAL_SUFFIX, view_record
from assay.suites.hop.rows import HopRow
from assay.suites.hop.settings import LlmSettings
from assay.suites.hop.store.audit import Audit
from assay.suites.hop.tally import RowResult, case_result, retry_count

_encode = msgspec.json.Encoder().encode


class ResultFile:
    """The result file of a run. It is written under a temporary name and renamed when it is complete."""

    def __init__(self, path: Path, wrapper: str, started: float) -> None:
        self.path = path
        self._wrapper = wrapper
        self._started = started
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._file: IO[bytes] = open_new(self._temporary)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        """Close the file; if the `with` block ends with an error, no file is left."""
        if kind is None:
            self.close()
            return
        with suppress(OSError):  # on a full disk, closing fails as well
            self._file.close()
        self._temporary.unlink(missing_ok=True)

    def meta(self, profile: str, run: LlmSettings, verify: LlmSettings) -> None:
        """Write the meta line of a profile."""
        self._file.write(_line(meta_line(profile, run, verify, self._started)))

    def copy_meta(self, line: dict[str, Any]) -> None:
        """Write a meta line of another result file."""
        self._file.write(_line(line))

    def row(self, row: HopRow, result: RowResult) -> None:
        """Write one row."""
        self._file.write(_line(_row_line(self._wrapper, row, result)))

    def close(self) -> None:
        """Give the file its final name. A crash before this leaves no incomplete file of this name."""
        # The content must be on disk before the rename, or a power failure could leave an empty file.
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self.path)


class _EndedRow(Struct, frozen=True, gc=False):
    """A row that has ended. A row with an `error` has no result. Thousands may wait: the collector skips them."""

    row: HopRow
    profile: str
    text: str | None
    error: str | None
    steps: Sequence[dict[str, Any]]


class PartialFile:
    """The rows of a batch that have ended, while it runs: `NAME.partial.jsonl`.

    Rows are written every few seconds: a write for each would slow down the batch. The journal has all of them, so a
    file that cannot be written is given up, and a batch that is continued begins with `write_earlier`. The result file
    takes its place at the end of the batch.
    """

    def __init__(
        self,
        result: Path,
        metas: Sequence[dict[str, Any]],
        wrapper: str,
        redact: Redactor,
        seconds: float = 5.0,
    ) -> None:
        """`seconds` is the longest time from the end of a row to its line in the file."""
        self._seconds = seconds
        self.path = result.with_name(f"{result.stem}{PARTIAL_SUFFIX}{result.suffix}")
        self._metas = metas
        self._wrapper = wrapper
        self._redact = redact or None
        self._pending: list[_EndedRow] = []
        self._timer: asyncio.Handle | None = None
        self._is_given_up = False

    def write_earlier(self, results: Iterable[CaseResult[HopRow]]) -> None:
        """Write the file anew with these rows of earlier starts. One that was killed has not written its last rows."""
        self.remove()
        cases = iter(results)
        while group := list(islice(cases, _PARTIAL_GROUP)):
            self._append(
                [
                    (case.row.data, case_result(case.end, case.records, case.row.data, case.subject, None))
                    for case in group
                ]
            )

    def add(self, given: ScorerInput, audit: Audit, text: str | None) -> None:
        """Add a row that has ended, with its result as text. The event loop writes it some seconds later."""
        if self._is_given_up:
            return
        case, records = given.case, given.records
        steps = [record.data for record in records if record.kind == "step"] if len(records) > 1 else ()
        self._pending.append(_EndedRow(case.gold, case.subject, text, audit.error, steps))
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._seconds, self._write_some)

    def flush(self) -> None:
        """Write all rows."""
        while self._pending:
            self._write()

    def remove(self) -> None:
        """Remove the file: the result file has all rows."""
        self._pending.clear()
        with suppress(OSError):
            self.path.unlink(missing_ok=True)

    def _write_some(self) -> None:
        """Write a group of rows, and the next one in the next turn of the loop: sockets are read in between."""
        if self._pending:  # it may be empty: the file was removed meanwhile
            self._write()
        self._timer = asyncio.get_running_loop().call_soon(self._write_some) if self._pending else None

    def _write(self) -> None:
        rows, self._pending = self._pending[:_PARTIAL_GROUP], self._pending[_PARTIAL_GROUP:]
        self._append([(row.row, _result_of(row)) for row in rows])

    def _append(self, rows: Sequence[tuple[HopRow, RowResult]]) -> None:
        if self._is_given_up:
            return
        lines = [_line(_row_line(self._wrapper, row, result)) for row, result in rows]
        try:
            # A link is not followed: in a folder that several people write, it could name any file of this user.
            flags = os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            with os.fdopen(os.open(self.path, flags, FILE_MODE), "ab", buffering=0) as file:
                if not file.tell():
                    lines = [*map(_line, self._metas), *lines]
                if self._redact is not None:
                    lines = [self._redact(line.rstrip(b"\n")) + b"\n" for line in lines]
                file.write(b"".join(lines))
        except OSError:
            self._is_given_up = True
            self._pending.clear()


def _result_of(row: _EndedRow) -> RowResult:
    return RowResult(
        profile=row.profile,
        ok=row.error is None,
        error=row.error or "",
        text=row.text if row.error is None else None,
        retries=sum(map(retry_count, row.steps)),
        steps=list(row.steps),
    )


_PARTIAL_GROUP = 200  # rows that are written in one turn of the loop


def meta_line(profile: str, run: LlmSettings, verify: LlmSettings, started: float) -> dict[str, Any]:
    """Return the meta line of a profile. It has model names, not the names of the entries under `llms`."""
    return {
        "_type": "meta",
        "profile": profile,
        "run_llm": run.model_name,
        "verify_llm": verify.model_name,
        "run_params": run.params,
        "timestamp": time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(started)),
    }


def _row_line(wrapper: str, row: HopRow, result: RowResult) -> dict[str, Any]:
    if wrapper == "view":
        return view_record(row.record, result=result.text, error=None if result.ok else result.error)
    path = []
    for step in result.steps:
        entry = {key: step.get(key) for key in ("step", "op", "status")}
        if retries := retry_count(step):
            entry["retry_count"] = retries
        path.append(entry)
    stats: dict[str, Any] = {
        "retry_count": result.retries,
        "execution_path": path,
        "status": "OK" if result.ok else "ERROR",
    }
    if not result.ok:
        stats["error"] = result.error
    # HOP's document makes it a JSON text in every row. A row without a result has that of null.
    text = "null" if result.text is None else result.text
    return {**row.record, "hop_result": text, "hop_stats": stats, "profile": result.profile}


def _line(record: dict[str, Any]) -> bytes:
    # indent=0 writes a space after commas and colons, as in HOP's documents.
    return msgspec.json.format(_encode(record), indent=0) + b"\n"
