"""`assay judge calibrate`: how well a judge agrees with the labels of a file."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import InputError, Problem
from assay.core.spec import RunSpec
from assay.suites.calibration.options import CalibrationOptions as Options
from assay.suites.calibration.options import normalise
from assay.suites.calibration.plan import CalibrationPlan

__all__ = ["Options", "check", "normalise", "plan"]


def plan(spec: RunSpec) -> CalibrationPlan:
    """Read the rows and find the judge; raises before anything is asked."""
    return CalibrationPlan(spec)


def check(path: Path) -> list[Problem]:
    """Every problem of a labelled file, by the usual names of fields."""
    from assay.suites.calibration.reading import read

    try:
        read(path, {})
    except InputError as error:
        return error.problems
    return []
