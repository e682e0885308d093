"""`assay task`: model tasks in the format of lm-evaluation-harness."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay.core.errors import Problem
from assay.core.spec import RunSpec
from assay.suites.task.options import TaskOptions as Options
from assay.suites.task.options import normalise
from assay.suites.task.suite import TaskPlan

__all__ = ["Options", "check", "listed", "normalise", "plan", "replaced"]


def plan(spec: RunSpec) -> TaskPlan:
    """Resolve the tasks of a run; raises before anything is written."""
    return TaskPlan(spec)


def check(path: Path) -> list[Problem]:
    """Every problem of a task file or a data file."""
    from assay.suites.task.check import check_file

    return check_file(path)


def replaced(spec: RunSpec, files: list[str], known: list[str]) -> RunSpec:
    """The run of these known tasks, with these files in place of those that name the same tasks."""
    from assay.suites.task.suite import replace_tasks

    return replace_tasks(spec, files, known)


def listed(include: list[str]) -> Iterator[tuple[str, str, str]]:
    """(kind, name, file) of every task, group and tag in these folders."""
    from assay.suites.task.catalog import list_tasks

    return list_tasks(include)
