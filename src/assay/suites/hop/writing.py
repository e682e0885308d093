"""The result file: a meta line for each profile, then its rows, flat or as `{input, result}`."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import IO, Any

import msgspec

from assay.core.hop_records import view_record
from assay.suites.hop.analysis import Seen, retries_of
from assay.suites.hop.row import HopRow
from assay.suites.hop.settings import Llm

RESULT_KEYS = ("hop_result", "hop_stats", "profile")
"""What a flat row has besides its input, in this order."""
_LONGEST_STEM = 200
"""Bytes: file systems take names of 255, and ours end in a time."""
_encode = msgspec.json.Encoder().encode


class ResultFile:
    """Written under a temporary name, renamed when it is whole."""

    def __init__(self, path: Path, wrapper: str, started: float) -> None:
        self.path = path
        self._wrapper = wrapper
        self._timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(started))
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._file: IO[bytes] = self._temporary.open("wb")

    def meta(self, profile: str, run: Llm, verify: Llm) -> None:
        """What a profile ran with; the names of the models, not of the settings' entries."""
        self._write(
            {
                "_type": "meta",
                "profile": profile,
                "run_llm": run.model_name,
                "verify_llm": verify.model_name,
                "run_params": run.params,
                "timestamp": self._timestamp,
            }
        )

    def row(self, row: HopRow, seen: Seen) -> None:
        """One result."""
        if self._wrapper == "view":
            self._write(view_record(row.record, result=seen.text, error=None if seen.ok else seen.error))
            return
        stats: dict[str, Any] = {
            "retry_count": seen.retries,
            "execution_path": list(map(_entry, seen.path)),
            "status": "OK" if seen.ok else "ERROR",
        }
        if not seen.ok:
            stats["error"] = seen.error
        self._write({**row.record, "hop_result": seen.text, "hop_stats": stats, "profile": seen.profile})

    def _write(self, record: dict[str, Any]) -> None:
        self._file.write(_spaced(record) + b"\n")

    def close(self) -> None:
        """The file appears whole."""
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self.path)


def _entry(step: dict[str, Any]) -> dict[str, Any]:
    """A step in `execution_path`; its retries only where there were any."""
    retried = {"retry_count": retries_of(step)} if retries_of(step) else {}
    return {key: step.get(key) for key in ("step", "op", "status")} | retried


def _spaced(value: Any) -> bytes:
    """With a space after commas and colons, as in the format's own documents."""
    return msgspec.json.format(_encode(value), indent=0)


def file_name(data: Path, started: float) -> str:
    """`<data stem>_<YYYYmmdd_HHMMSS>.jsonl`, by the first start; no two runs of a folder share a second.

    A batch over its own output has a longer stem each time; what no folder can hold is cut off.
    """
    stem, raw = data.stem, os.fsencode(data.stem)
    if len(raw) > _LONGEST_STEM:
        stem = raw[:_LONGEST_STEM].decode(errors="ignore")
    return f"{stem}_{time.strftime('%Y%m%d_%H%M%S', time.localtime(started))}.jsonl"
