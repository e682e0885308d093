"""BaseService: the batch worker behind the batch page of HOP's View.

It runs a Hoplet's function over the records of a JSONL file and yields records in the View's form,
`{"input": …, "result": …}`.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from copy import deepcopy
from threading import Lock
from typing import Any, TypedDict

from assay.core import user_code
from assay.core.errors import UsageError
from assay.core.hop_records import (
    function_fields,
    is_meta,
    is_observer_line,
    is_pair,
    normalize_input,
    unwrap,
    view_record,
    without_results,
)
from assay.core.hop_result import BadResult, read_result
from assay.core.user_code import UserCodeError


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
        self._busy = Lock()

    @staticmethod
    def _normalize_input(rec: dict[str, Any]) -> dict[str, Any]:
        """Return the input of a View record; any other record unchanged. Removes one wrapper only."""
        return normalize_input(rec)

    def _batch_worker(
        self,
        records: Iterable[dict[str, Any]],
        function: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Run a sync or async function on every record, and yield View records.

        Wrappers of earlier batches are removed first, so that output files can be input again. Lines without an input
        are skipped. The function gets neither `hop_*` nor `expected_*` keys. `inputs` are the contract's fields.
        """
        if not self._busy.acquire(blocking=False):
            raise UsageError("a batch is already running. Wait until it ends")
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
