"""BaseService: the batch worker behind the batch page of HOP's View.

It runs a Hoplet's function over the records of a JSONL file and writes records in the View's form,
`{"input": …, "result": …}`, to `TestCases/`:

    service = BaseService()
    service._batch_worker("Tasks/Verify/TestCases/verify.jsonl", hop_verify)
    service.state    # {"running": False, "completed": 20, "total": 20, "errors": 0, "output_file": "…_view.jsonl"}
"""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from pathlib import Path
from threading import Lock
from typing import Any, TextIO, TypedDict, overload

import msgspec

from assay.core import jsonl, user_code
from assay.core.errors import InputError, Problem, UsageError, unreadable
from assay.core.hop_records import (
    function_fields,
    is_meta,
    is_observer_line,
    is_pair,
    normalize_input,
    result_file_name,
    unwrap,
    view_record,
    without_results,
)
from assay.core.hop_result import BadResult, read_result
from assay.core.user_code_errors import UserCodeError

_TEST_CASES = "TestCases"
_BUSY = "a batch is already running. Wait until it ends"
_encode = msgspec.json.Encoder().encode


class BatchState(TypedDict):
    """Progress of a batch. The page polls it every second."""

    running: bool
    completed: int
    total: int
    errors: int
    output_file: str | None


class BaseService:
    """Runs one batch at a time. `state` is the progress that the page shows.

    `profile` is the name of the profile that the functions use. Each output record gets it, so that statistics can
    tell profiles apart. Without a profile, a record has only the two keys of HOP's documents.
    """

    def __init__(self, profile: str | None = None) -> None:
        self.profile = profile
        self.state = BatchState(running=False, completed=0, total=0, errors=0, output_file=None)
        self.left_out: list[int] = []
        """Lines of the last file that have no input: meta lines, lines of a log, bare pairs."""
        self._busy = Lock()

    @staticmethod
    def _normalize_input(rec: dict[str, Any]) -> dict[str, Any]:
        """Return the input of a View record; any other record unchanged. Removes one wrapper only."""
        return normalize_input(rec)

    @overload
    def _batch_worker(
        self,
        source: Path | str,
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> list[dict[str, Any]]: ...

    @overload
    def _batch_worker(
        self,
        source: Iterable[dict[str, Any]],
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> Iterator[dict[str, Any]]: ...

    def _batch_worker(
        self,
        source: Path | str | Iterable[dict[str, Any]],
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> list[dict[str, Any]] | Iterator[dict[str, Any]]:
        """Run a sync or async function on every record of a file or an iterable. Returns View records.

        For a file the whole batch runs, and each record is written when it is done: to `output_file`, else to
        `<stem>_<time>_view.jsonl` in the `TestCases/` of the file. A file with a line that is not JSON is refused with
        every such line, and `left_out` has the lines without an input. Records of an iterable run as the result is
        iterated, and are written nowhere.

        Wrappers of earlier batches are removed first, so that output files can be input again. Records without an
        input do not run. The function gets neither results of earlier batches nor `expected_*` keys. `inputs` are the
        contract's fields.
        """
        if isinstance(source, (str, Path)):
            return self._run_file(Path(source), hop_func, inputs, output_file)
        return self._run_records(source, hop_func, inputs, output_file)

    def _run_file(
        self,
        path: Path,
        hop_func: Callable[[dict[str, Any]], Any],
        inputs: Collection[str],
        output_file: str | None,
    ) -> list[dict[str, Any]]:
        records, left_out = _read_records(path)
        if self._busy.locked():
            raise UsageError(_BUSY)
        self.left_out = left_out
        with _open_output(path, output_file) as file:
            view_records = []
            for record in self._run_records(records, hop_func, inputs, file.name):
                # Flushed line by line: what ran is kept if the process ends, and the page can show it.
                file.write(msgspec.json.format(_encode(record), indent=0).decode() + "\n")
                file.flush()
                view_records.append(record)
        return view_records

    def _run_records(
        self,
        records: Iterable[dict[str, Any]],
        function: Callable[[dict[str, Any]], Any],
        inputs: Collection[str],
        output_file: str | None,
    ) -> Iterator[dict[str, Any]]:
        if not self._busy.acquire(blocking=False):
            raise UsageError(_BUSY)
        try:
            total = sum(map(_is_input, records)) if isinstance(records, Sequence) else 0
            self.state |= BatchState(
                running=True, completed=0, total=total, errors=0, output_file=output_file
            )
            with asyncio.Runner() as runner:
                for record in filter(_is_input, records):
                    yield self._run_record(record, function, inputs, runner)
        finally:
            self.state["running"] = False
            self._busy.release()

    def _run_record(
        self,
        record: dict[str, Any],
        function: Callable[[dict[str, Any]], Any],
        inputs: Collection[str],
        runner: asyncio.Runner,
    ) -> dict[str, Any]:
        row = record
        try:
            row = without_results(unwrap(record, inputs, self._normalize_input), inputs)
            fields = deepcopy(
                function_fields(row, inputs)
            )  # the function may change its copy; `row` is written
            value = user_code.call_here(function, (fields,))
            if inspect.isawaitable(value):
                value = runner.run(user_code.call(_await, (value,)))
            done = view_record(row, result=read_result(value).file_text)
        except Exception as error:  # noqa: BLE001 - one bad row must not stop a batch
            self.state["errors"] += 1
            message = str(error) if isinstance(error, BadResult) else UserCodeError.of(error).message
            done = view_record(row, error=message)
        if self.profile is not None:
            done["profile"] = self.profile
        self.state["completed"] += 1
        self.state["total"] = max(self.state["total"], self.state["completed"])
        return done


def _read_records(path: Path) -> tuple[list[dict[str, Any]], list[int]]:
    """Return the records of a file that have an input, and the numbers of the other lines.

    Raises InputError with every line that is neither an object nor a bare pair.
    """
    problems: list[Problem] = []
    records: list[dict[str, Any]] = []
    left_out: list[int] = []
    try:
        for line in jsonl.lines(path):
            if line.raw[:1] == b"[" and is_pair(_decode_list(line.raw)):
                left_out.append(line.number)  # a result without its input: nothing to run
                continue
            record = jsonl.parse_object(line.raw, jsonl.Place(path, line.number), problems)
            if record is not None and _is_input(record):
                records.append(record)
            elif record is not None:
                left_out.append(line.number)
    except OSError as error:
        raise InputError(unreadable(path, error)) from None
    if problems:
        raise InputError(problems)
    return records, left_out


def _decode_list(raw: bytes) -> Any:
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None  # `parse_object` says what is wrong with the line


def _open_output(data: Path, output_file: str | None) -> TextIO:
    """Open the result file: the named one, or a new one in the `TestCases/` of the data, else beside the data."""
    if output_file is not None:
        return Path(output_file).open("w", encoding="utf-8")
    folder = data.parent / _TEST_CASES if (data.parent / _TEST_CASES).is_dir() else data.parent
    started = time.time()
    while True:
        try:
            return (folder / result_file_name(data, started, view=True)).open("x", encoding="utf-8")
        except FileExistsError:
            started += 1  # names have whole seconds, and an earlier batch has this one


def _is_input(record: dict[str, Any]) -> bool:
    """Return whether a record has an input. Meta lines, observer lines and bare pairs have none, even if wrapped."""
    if is_pair(record):
        return False
    try:
        inner = unwrap(record)
    except ValueError:
        return True
    return not (is_meta(inner) or is_observer_line(inner))


async def _await(value: Any) -> Any:
    return await value
