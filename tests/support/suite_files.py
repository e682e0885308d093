"""Problems of a file as `assay check` finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.errors import Problem
from assay.core.file_check import CheckOptions
from assay.core.suite import Suite, files_of
from assay.runner.check import check_path


def problems_of(suite: type[Suite[Any, Any]], path: Path, beside: Path | None = None) -> list[Problem]:
    """Return every problem of a file of the suite. `beside` is a second file that it belongs to."""
    return files_of(suite).examine(path, CheckOptions(beside=beside)).problems


def problems_in(path: Path, suite: str = "") -> list[Problem]:
    """Return every problem of a file or folder in the format that it is recognised as, or in that of `suite`."""
    return [problem for each in check_path(path, CheckOptions(), suite) for problem in each.check.problems]
