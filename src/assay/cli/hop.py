"""`batchhoptest`: `assay hop` under HOP's name."""

from __future__ import annotations

import sys

from assay.cli.main import main


def batchhoptest() -> None:
    """The console script: `batchhoptest TASK DATA [--workers N] [--profiles …]`."""
    sys.argv.insert(1, "hop")
    main()
