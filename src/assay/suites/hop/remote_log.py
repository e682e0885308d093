"""Writes the lines of `observer.jsonl` for a row that a worker has run, from its records.

A row that runs in this process writes them itself, step by step. The times of start and end are the driver's.
"""

from __future__ import annotations

import json
from typing import Any

import msgspec

from assay.core.suite import RemoteCase
from assay.suites.hop.trace import HopletObserver, ObservedTimes, TraceStep


def write_case(observer: HopletObserver, fields: dict[str, Any], profile: str, case: RemoteCase) -> None:
    """Write `run_start`, a line for each step, and `run_end`."""
    run = observer.run(fields, profile, ObservedTimes(case.started, case.seconds))
    answer: dict[str, Any] = {}
    for record in case.records:
        if record.kind == "step":
            run.step(msgspec.convert(record.data, TraceStep))
        elif record.kind == "answer":
            answer = record.data
    if case.failure is not None:
        run.failed(case.failure.message)
    else:
        run.end(json.loads(answer["result"]), answer["status"])
