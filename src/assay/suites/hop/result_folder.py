"""Reads results of assay and of other HOP tools: their folder, their contract, a store for queries, single lines."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import cast

from assay.files.yaml_files import YamlFile
from assay.suites.hop.contract import Contract, contract_file, read_contract
from assay.suites.hop.rows import UNTAGGED
from assay.suites.hop.store import BaseDataStore
from assay.suites.hop.store.audit import Audit
from assay.suites.hop.store.data_store import Aggregation, FieldAggregation, ViewConfig
from assay.suites.hop.tally import NO_PROFILE, RowResult, retry_count
from assay.suites.hop.target import HOPLET, TEST_CASES, find_target


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
    """Return the result of a line, for a tally."""
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
