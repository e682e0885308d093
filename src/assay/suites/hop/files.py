"""Result files that exist, ours or another tool's, counted like a run: `assay hop --analyse`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core import jsonl
from assay.core.errors import Problem, UsageError
from assay.store.hop.audit import Audit, read_audit
from assay.suites.hop.analysis import NO_PROFILE, NO_TAG, Analysis, Seen
from assay.suites.hop.contract import Contract, find_contract
from assay.suites.hop.target import find_target

_EXPECTED = "expected_"


def analysed(path: Path, target: str | None) -> dict[str, Any]:
    """By profile, what the rows of a file, or of all files of a folder, say."""
    contract = find_target(target, path).contract if target else beside(path)
    analysis = Analysis(contract.outputs if contract else {})
    for seen in rows(path, contract.audit_key if contract else None):
        analysis.add(seen)
    if not analysis.profiles:
        raise UsageError(f"{path} holds no result row")
    return analysis.summary()


def beside(path: Path) -> Contract | None:
    """The contract of the task whose `TestCases` these are."""
    folder = path if path.is_dir() else path.parent
    for place in (folder.parent / "Hoplet", folder.parent, folder):
        if place.is_dir() and (found := find_contract(place)):
            return found
    return None


def rows(path: Path, key: str | None) -> Iterator[Seen]:
    """Every result row. Lines that are none are passed over, and so are lines that cannot be read."""
    files = [path] if path.is_file() else sorted(path.glob("*.jsonl"))
    for file in files:
        bad: list[Problem] = []
        for row in jsonl.rows(file, bad):
            audit = read_audit(row.value, key)
            if audit is not None:
                yield _seen(audit)


def _seen(audit: Audit) -> Seen:
    row, stats = audit.row, audit.stats
    path = stats.get("execution_path")
    return Seen(
        profile=audit.profile or NO_PROFILE,
        tag=str(row.get("tag") or NO_TAG),
        difficulty=str(row.get("difficulty") or ""),
        id=row.get("id"),
        ok=not audit.failed,
        outcome=audit.outcome or "OK",
        error=audit.error or ("the result is not JSON" if audit.parse_error else ""),
        result=None if audit.failed or audit.parse_error else audit.fields,
        expected={
            name.removeprefix(_EXPECTED): value for name, value in row.items() if name.startswith(_EXPECTED)
        },
        retries=stats.get("retry_count") or 0,
        path=[step for step in path if isinstance(step, dict)] if isinstance(path, list) else [],
    )
