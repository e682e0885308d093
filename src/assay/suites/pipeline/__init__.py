"""`assay pipeline`: multi-step pipelines tested with testsets, in the formats of Prompt Lab."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import Problem
from assay.core.spec import RunSpec
from assay.suites.pipeline.checking import check_file, is_pipeline
from assay.suites.pipeline.options import PipelineOptions as Options
from assay.suites.pipeline.options import normalise
from assay.suites.pipeline.plan import PipelinePlan
from assay.suites.pipeline.testset.case import TestCase
from assay.suites.pipeline.testset.loader import TestsetLoader
from assay.suites.pipeline.testset.loader import convert_testset as convert
from assay.suites.pipeline.testset.scan import is_testset

__all__ = [
    "Options",
    "TestCase",
    "TestsetLoader",
    "check",
    "convert",
    "is_pipeline",
    "is_testset",
    "normalise",
    "plan",
]


def plan(spec: RunSpec) -> PipelinePlan:
    """Resolve a pipeline and its testsets; raises before anything is written."""
    return PipelinePlan(spec)


def check(path: Path, pipeline: Path | None = None) -> list[Problem]:
    """Every problem of a testset, seen with its pipeline if one is named; or of a pipeline file."""
    return check_file(path, pipeline)
