"""`assay hop`: batch tests of LLM functions, in the formats of HOP."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from assay.core.errors import Problem
from assay.core.spec import RunSpec
from assay.suites.hop.options import HopOptions as Options
from assay.suites.hop.options import normalise
from assay.suites.hop.plan import HopPlan
from assay.suites.hop.target import find_target

if TYPE_CHECKING:
    from assay.store.hop import BaseDataStore

__all__ = [
    "Options",
    "analyse",
    "check",
    "data_file",
    "data_store",
    "folder",
    "has_rows",
    "is_hop",
    "normalise",
    "plan",
]


def plan(spec: RunSpec) -> HopPlan:
    """Resolve a function, its settings and its rows; raises before anything is written."""
    return HopPlan(spec)


def check(path: Path) -> list[Problem]:
    """Every problem of a task's folder, a contract, settings or a file of rows."""
    from assay.suites.hop.checking import check_file

    return check_file(path)


def is_hop(path: Path) -> bool:
    """Whether a file or folder can only be of this suite."""
    from assay.suites.hop import checking

    return checking.is_hop(path)


def has_rows(path: Path) -> bool:
    """Whether a file holds rows for a batch, unless its lines have keys of another format."""
    from assay.suites.hop import checking

    return checking.has_rows(path)


def folder(target: str, data: str) -> Path:
    """Where the results of a batch go: the task's `TestCases/`, else beside the data."""
    return find_target(target, Path(data)).test_cases


def data_file(target: str, data: str) -> str:
    """A data file by its path, or by its name in the task's `TestCases/`."""
    inside = Path(target) / "TestCases" / data
    return str(inside) if not Path(data).exists() and inside.exists() else data


def analyse(path: Path, target: str | None) -> dict[str, Any]:
    """What the result files of a folder say, by profile."""
    from assay.suites.hop.files import analysed

    return analysed(path, target)


def data_store(path: Path, target: str | None) -> BaseDataStore:
    """The results of a folder, as its contract counts them."""
    from assay.suites.hop.files import data_store

    return data_store(path, target)
