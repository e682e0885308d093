"""`assay memory test`: how well a memory answers as a conversation grows, in SAGE's format."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import Problem
from assay.core.spec import RunSpec
from assay.suites.memory_test.caller import PipelineCaller
from assay.suites.memory_test.options import MemoryTestOptions as Options
from assay.suites.memory_test.options import normalise
from assay.suites.memory_test.plan import MemoryTestPlan
from assay.suites.memory_test.sink import Sink

__all__ = ["Options", "PipelineCaller", "Sink", "check", "has_conversations", "normalise", "plan"]


def plan(spec: RunSpec) -> MemoryTestPlan:
    """Resolve memories and conversations; raises before anything is written."""
    return MemoryTestPlan(spec)


def check(path: Path) -> list[Problem]:
    """Every problem of a file of conversations, by the data set that its shape is of."""
    from assay.suites.memory_test.checking import check_file

    return check_file(path)


def has_conversations(path: Path) -> bool:
    """Whether a file looks like one of conversations."""
    from assay.suites.memory_test.checking import dataset_of

    return dataset_of(path) is not None
