"""Reads `observer.jsonl`, the log that a batch appends to: how long each call of the function took, and its steps.

    log = ObserverLog(Path("TestCases/observer.jsonl"), since=1771497000.0)
    call = log.find({"question": "2+2?"}, {"answer": 4})
    call.seconds, call.steps

A line of the log does not name the row. A call belongs to a row if input and result are equal, and the profile, if the
log has one: assay writes it into the metadata of `run_end`, HOP does not.
"""

from __future__ import annotations

from collections import defaultdict
from math import isfinite
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.errors import InputError
from assay.files.read import BY_PROGRAMS, decode_json, json_lines
from assay.suites.hop.batch_lines import is_observer_line

FILE_NAME = "observer.jsonl"
# A result file has whole seconds, and assay moves the time of a run ahead if another one has it.
_TOLERANCE = 60.0

_encode = msgspec.json.Encoder(order="deterministic").encode


class ObservedCall(Struct):
    """One call of the function. `began` is when it started. `profile` is empty in logs of HOP."""

    input: bytes
    began: float
    profile: str = ""
    seconds: float | None = None
    is_taken: bool = False
    steps: list[dict[str, Any]] = msgspec.field(default_factory=list)


class ObserverLog:
    """The calls in a log, for the batch that began at `since`. Lines that cannot be read are skipped.

    Calls that began at `until` or later belong to the next batch.
    """

    def __init__(self, path: Path, since: float | None, until: float | None = None) -> None:
        self._since = since or 0.0
        running: dict[str, ObservedCall] = {}
        self._calls: dict[tuple[bytes, bytes], list[ObservedCall]] = defaultdict(list)
        for line in json_lines(path, BY_PROGRAMS):
            try:
                record = decode_json(line.raw, "")
            except InputError:
                continue  # a killed batch leaves a torn line, and the log is only an addition to the results
            if not isinstance(record, dict) or not is_observer_line(record):
                continue
            run_id = str(record["run_id"])
            if record["type"] == "run_start":
                began = _number(record.get("timestamp")) or self._since
                if began >= self._since - _TOLERANCE and (until is None or began < until):
                    running[run_id] = ObservedCall(_encode(record.get("input")), began)
            elif record["type"] == "step":
                if run_id in running:
                    running[run_id].steps.append(_step(record))
            elif (call := running.pop(run_id, None)) is not None:
                metadata = record.get("metadata")
                metadata = metadata if isinstance(metadata, dict) else {}
                profile = metadata.get("profile")
                call.profile = profile if isinstance(profile, str) else ""
                call.seconds = _number(record.get("duration"))
                self._calls[call.input, _encode(record.get("result", metadata.get("error")))].append(call)

    @property
    def count(self) -> int:
        """The number of calls that ended."""
        return sum(map(len, self._calls.values()))

    @property
    def seconds(self) -> list[float]:
        """The durations of all calls that have one."""
        calls = (call for calls in self._calls.values() for call in calls)
        return [call.seconds for call in calls if call.seconds is not None]

    def find(self, fields: dict[str, Any], result: Any) -> ObservedCall | None:
        """Return the call of this batch with this input and result; None if there is none. An error is its message.

        It is the first call since the batch began, else the last one before: later batches append to the log too.
        """
        return self._first_of_batch(self._calls.get((_encode(fields), _encode(result)), []))

    def take(self, fields: dict[str, Any], result: Any, profile: str = "") -> ObservedCall | None:
        """Do what `find` does, but return each call once, so that equal rows have their own times.

        With `profile`, calls of other profiles do not count.
        """
        calls = self._calls.get((_encode(fields), _encode(result)), [])
        calls = [call for call in calls if not call.is_taken and (not profile or call.profile in ("", profile))]
        call = self._first_of_batch(calls)
        if call is not None:
            call.is_taken = True
        return call

    def _first_of_batch(self, calls: list[ObservedCall]) -> ObservedCall | None:
        since = [call for call in calls if call.began >= self._since]
        return since[0] if since else calls[-1] if calls else None


def _number(value: Any) -> float | None:
    is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
    return float(value) if is_number and isfinite(value) and value >= 0 else None


def _step(record: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in record.items() if name not in ("type", "run_id")}
