"""Problems of a file as `assay check` finds them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.errors import Problem
from assay.core.file_check import CheckOptions
from assay.core.suite import Suite, files_of


def problems_of(suite: type[Suite[Any, Any]], path: Path, beside: Path | None = None) -> list[Problem]:
    """Return every problem of a file of the suite. `beside` is a second file that it belongs to."""
    return files_of(suite).examine(path, CheckOptions(beside=beside)).problems
