"""Writes the result file of a run, and reads result files of assay and of other HOP tools.

A result file has a meta line per profile, followed by its rows: flat, or as `{input, result}`.
"""

from __future__ import annotations

import os
import time
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import msgspec

from assay.core.hop_records import view_record
from assay.core.yamlfile import YamlFile
from assay.store.hop import BaseDataStore
from assay.store.hop.audit import Audit
from assay.store.hop.data_store import Aggregation, FieldAggregation, ViewConfig
from assay.suites.hop.analysis import NO_PROFILE, RowResult, retry_count
from assay.suites.hop.contract import Contract, contract_file, read_contract
from assay.suites.hop.rows import UNTAGGED, HopRow
from assay.suites.hop.settings import LlmSettings
from assay.suites.hop.target import HOPLET, TEST_CASES, find_target

_encode = msgspec.json.Encoder().encode


class ResultFile:
    """The result file of a run. It is written under a temporary name and renamed when it is complete."""

    def __init__(self, path: Path, wrapper: str, started: float) -> None:
        self.path = path
        self._wrapper = wrapper
        self._timestamp = time.strftime("%Y-%m-%dT%H:%M:%S", time.localtime(started))
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._file: IO[bytes] = self._temporary.open("wb")

    def meta(self, profile: str, run: LlmSettings, verify: LlmSettings) -> None:
        """Write the meta line of a profile. It has model names, not the names of the entries under `llms`."""
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

    def copy_meta(self, line: dict[str, Any]) -> None:
        """Write a meta line of another result file."""
        self._write(line)

    def row(self, row: HopRow, result: RowResult) -> None:
        """Write one row."""
        if self._wrapper == "view":
            error = None if result.ok else result.error
            self._write(view_record(row.record, result=result.text, error=error))
            return
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
        self._write({**row.record, "hop_result": text, "hop_stats": stats, "profile": result.profile})

    def close(self) -> None:
        """Give the file its final name. A crash before this leaves no partial result file."""
        # The content must be on disk before the rename, or a power failure could leave an empty file.
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.replace(self.path)

    def _write(self, record: dict[str, Any]) -> None:
        # indent=0 writes a space after commas and colons, as in HOP's documents.
        self._file.write(msgspec.json.format(_encode(record), indent=0) + b"\n")


# Reading result files


def data_store(path: Path | str, target: str = "") -> BaseDataStore:
    """Return a store for queries over the results of a folder or a task. The contract sets the aggregations."""
    path = results_folder(Path(path))
    return store_of(path, contract_of(path, target))


def store_of(folder: Path, contract: Contract, files: Sequence[Path] | None = None) -> BaseDataStore:
    """Return a store over a folder, or over some of its files. The contract sets the aggregations."""
    fields = [
        FieldAggregation(name, field.type, cast("Aggregation", field.aggregate), field.label, field.sub_field)
        for name, field in contract.outputs.items()
    ]
    config = ViewConfig(
        hoplet_name=contract.name,
        hop_func_name=contract.function or "",
        input_fields=contract.inputs,
        output_fields=fields,
        audit_key_field=contract.audit_key,
    )
    return BaseDataStore(folder, config, files=files)


def results_folder(path: Path) -> Path:
    """Return the `TestCases/` of a task folder, and any other path unchanged."""
    return path / TEST_CASES if (path / TEST_CASES).is_dir() else path


def contract_of(path: Path, target: str) -> Contract:
    """Return the contract of a target, else of the task to which a file or folder belongs. It may be empty."""
    contract = find_target(target, path).contract if target else contract_beside(path)
    return contract or Contract()


def contract_beside(path: Path) -> Contract | None:
    """Return the contract of the task to which a file or folder of results belongs, or None."""
    yaml = contract_file_beside(path)
    return read_contract(yaml) if yaml is not None else None


def contract_file_beside(path: Path) -> YamlFile | None:
    """Return the file of the contract to which a file or folder of results belongs, or None."""
    folder = path if path.is_dir() else path.parent
    for candidate in (folder.parent / HOPLET, folder.parent, folder):
        if candidate.is_dir() and (yaml := contract_file(candidate)) is not None:
            return yaml
    return None


def file_result(audit: Audit) -> RowResult:
    """Return the result of a line, for an analysis."""
    row, stats = audit.row, audit.stats
    error = audit.error or ""
    # With a status such as FAIL, a text that is not JSON is an explanation by the function, not an error.
    if not error and audit.parse_error and not audit.outcome:
        error = "the result is not JSON"
    path = stats.get("execution_path")
    return RowResult(
        profile=audit.profile or NO_PROFILE,
        tag=str(row.get("tag") or UNTAGGED),
        difficulty=str(row.get("difficulty") or ""),
        id=row.get("id"),
        ok=not audit.failed,
        outcome=audit.outcome or "OK",
        error=error,
        raw=audit.raw or "",
        retries=retry_count(stats),
        steps=[step for step in path if isinstance(step, dict)] if isinstance(path, list) else [],
    )
