"""`assay memory eval`: memories over sessions, judged in six dimensions, in the format of eval_framework."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import Problem
from assay.suites.memory_eval.options import MemoryEvalOptions as Options

__all__ = ["Options", "check", "has_samples"]


def check(path: Path) -> list[Problem]:
    """Every problem of samples, also those that a run would bear."""
    from assay.suites.memory_eval.checking import check_samples

    return check_samples(path)


def has_samples(path: Path) -> bool:
    """Whether a file or a folder holds samples, by the keys of the first ones."""
    from assay.suites.memory_eval import sources

    return sources.has_samples(path)
