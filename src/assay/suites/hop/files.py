"""Result files that exist, ours or another tool's, counted like a run: `assay hop --analyse`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, cast

from assay.core import jsonl
from assay.core.errors import UsageError
from assay.core.hop_records import expectations
from assay.store.hop import BaseDataStore
from assay.store.hop.audit import Audit, read_audit, read_json
from assay.store.hop.data_store import Aggregation, FieldAggregation, ViewConfig
from assay.suites.hop.analysis import NO_PROFILE, Analysis, Seen, retries_of
from assay.suites.hop.comparing import Verdict, judge
from assay.suites.hop.contract import Contract, find_contract
from assay.suites.hop.pairs import Pairs
from assay.suites.hop.row import UNTAGGED
from assay.suites.hop.target import HOPLET, TEST_CASES, find_target

_NO_JSON = "the result is not JSON"


def analysed(path: Path, target: str | None) -> dict[str, Any]:
    """By profile, what the rows of a file, or of all files of a folder, say; of a task it is its `TestCases`.

    `compared_with` has the comparison with each profile before it, on the rows that both have.
    """
    path = _results(path)
    contract = _contract(path, target)
    analysis, pairs = Analysis(contract.outputs), Pairs()
    for seen, verdict in rows(path, contract):
        analysis.add(seen, verdict)
        pairs.add(seen, verdict.correct)
    if not analysis.profiles:
        raise UsageError(f"{path} holds no result row")
    compared = pairs.summary()
    return {
        name: {**found, "compared_with": compared.get(name, {})} for name, found in analysis.summary().items()
    }


def data_store(path: Path, target: str | None) -> BaseDataStore:
    """The results of a folder, with each output field counted as the contract says."""
    path = _results(path)
    contract = _contract(path, target)
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
    return BaseDataStore(path, config)


def _results(path: Path) -> Path:
    return path / TEST_CASES if (path / TEST_CASES).is_dir() else path


def _contract(path: Path, target: str | None) -> Contract:
    found = find_target(target, path).contract if target else beside(path)
    return found or Contract()


def beside(path: Path) -> Contract | None:
    """The contract of the task whose `TestCases` these are."""
    folder = path if path.is_dir() else path.parent
    for place in (folder.parent / HOPLET, folder.parent, folder):
        if place.is_dir() and (found := find_contract(place)):
            return found
    return None


def rows(path: Path, contract: Contract) -> Iterator[tuple[Seen, Verdict]]:
    """Every result row, and whether it is right. Other lines, also unreadable ones, are passed over."""
    files = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
    for file in files:
        for line in jsonl.lines(file):
            audit = _audit(line.raw, contract.audit_key)
            if audit is not None:
                expected = expectations(audit.row, tuple(contract.inputs))
                result = None if audit.failed else audit.fields
                yield _seen(audit), judge(expected, result, contract.outputs)


def _audit(raw: bytes, key: str | None) -> Audit | None:
    try:
        value = read_json(raw)
    except (ValueError, RecursionError):
        return None
    return read_audit(value, key) if isinstance(value, (dict, list)) else None


def _seen(audit: Audit) -> Seen:
    row, stats = audit.row, audit.stats
    path = stats.get("execution_path")
    return Seen(
        profile=audit.profile or NO_PROFILE,
        tag=str(row.get("tag") or UNTAGGED),
        difficulty=str(row.get("difficulty") or ""),
        id=row.get("id"),
        ok=not audit.failed,
        outcome=audit.outcome or "OK",
        error=audit.error or (_NO_JSON if audit.parse_error and not audit.outcome else ""),
        said=audit.raw or "",
        retries=retries_of(stats),
        path=[step for step in path if isinstance(step, dict)] if isinstance(path, list) else [],
    )
