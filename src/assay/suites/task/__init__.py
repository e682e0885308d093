"""`assay task`: model tasks in the format of lm-evaluation-harness."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import Problem
from assay.core.spec import RunSpec
from assay.suites.task.options import TaskOptions as Options
from assay.suites.task.options import normalise
from assay.suites.task.plan import TaskPlan

__all__ = ["Options", "check", "normalise", "plan"]


def plan(spec: RunSpec) -> TaskPlan:
    """Resolve the tasks of a run; raises before anything is written."""
    return TaskPlan(spec)


def check(path: Path) -> list[Problem]:
    """Every problem of a task file or a data file."""
    from assay.suites.task.checking import check_file

    return check_file(path)
