"""Types commands in the process of the test."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from conftest import Assay
from support.commands import run_here


@pytest.fixture
def assay_in(sums: Path) -> Assay:
    """Types `assay ...` in the folder of the sums, in this process."""

    def run(*arguments: str, timeout: float = 60, cwd: Path = sums) -> subprocess.CompletedProcess[str]:
        return run_here(arguments, cwd)

    return run
