"""`assay check` for files of rows."""

from __future__ import annotations

from pathlib import Path

from assay.core.errors import InputError, Problem
from assay.suites.hop.rows import Rows


def check_rows(path: Path) -> list[Problem]:
    """What a batch over this file would refuse, and what it would say."""
    try:
        return Rows(path).look().warnings
    except InputError as error:
        return error.problems
