"""What the View's batch page runs: any JSONL file through a Hoplet's function, in the View's own form."""

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
    """How far a batch is; the page asks for it every second."""

    running: bool
    completed: int
    total: int
    errors: int
    output_file: str | None


class BaseService:
    """One batch at a time. `state` is what the page shows.

    `profile` is the one that the functions it is given run with: records say it, so that statistics can tell
    profiles apart. Without one they have the document's two keys only.
    """

    def __init__(self, profile: str | None = None) -> None:
        self.profile = profile
        self.state = BatchState(running=False, completed=0, total=0, errors=0, output_file=None)
        self._busy = Lock()

    @staticmethod
    def _normalize_input(rec: dict[str, Any]) -> dict[str, Any]:
        """The input of a View record; any other record as it is. One level."""
        return normalize_input(rec)

    def _batch_worker(
        self,
        records: Iterable[dict[str, Any]],
        function: Callable[[dict[str, Any]], Any],
        inputs: Collection[str] = (),
        output_file: str | None = None,
    ) -> Iterator[dict[str, Any]]:
        """Run the function, sync or async, on every record and yield each as a View record.

        All wrappers are taken off first, so that output may be input again. Lines that hold no input are left
        out, and neither `hop_*` nor `expected_*` reaches the function. `inputs` are the contract's fields.
        """
        if not self._busy.acquire(blocking=False):
            raise UsageError("a batch is running; wait for its end")
        try:
            total = sum(map(_is_input, records)) if isinstance(records, Sequence) else 0
            self.state |= BatchState(
                running=True, completed=0, total=total, errors=0, output_file=output_file
            )
            with asyncio.Runner() as runner:
                for record in filter(_is_input, records):
                    yield self._one(record, function, inputs, runner)
        finally:
            self.state["running"] = False
            self._busy.release()

    def _one(
        self,
        record: dict[str, Any],
        function: Callable[[dict[str, Any]], Any],
        inputs: Collection[str],
        runner: asyncio.Runner,
    ) -> dict[str, Any]:
        kept = record
        try:
            kept = without_results(unwrap(record, inputs, self._normalize_input), inputs)
            fields = deepcopy(function_fields(kept, inputs))  # what the function changes is not written
            value = user_code.call_here(function, (fields,))
            if inspect.isawaitable(value):
                value = runner.run(user_code.call(_await, (value,)))
            done = view_record(kept, result=read_result(value).file_text)
        except Exception as error:  # noqa: BLE001 - one bad row must not stop a batch
            self.state["errors"] += 1
            message = str(error) if isinstance(error, BadResult) else UserCodeError.of(error).message
            done = view_record(kept, error=message)
        if self.profile is not None:
            done["profile"] = self.profile
        self.state["completed"] += 1
        self.state["total"] = max(self.state["total"], self.state["completed"])
        return done


def _is_input(record: dict[str, Any]) -> bool:
    """Meta lines, observer lines and bare pairs are none; nor are those that an older View has wrapped."""
    if is_pair(record):
        return False
    try:
        inner = unwrap(record)
    except ValueError:
        return True
    return not (is_meta(inner) or is_observer_line(inner))


async def _await(value: Any) -> Any:
    return await value
