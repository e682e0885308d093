"""Python names that HOP's documents use, importable from one place.

    from assay.hop import BaseDataStore, BaseService, HopletObserver, HopStatus, analyse, data_store

    store = data_store("Tasks/Verify")              # the task's contract decides how fields are counted
    store.load_results()
    store.get_stats("fast")
    report = analyse("Tasks/Verify/TestCases")      # the numbers of `assay hop --analyse`

`docs/hop.md` explains them.
"""

from __future__ import annotations

from pathlib import Path

from assay.core.hop_result import HopStatus
from assay.core.report import Report
from assay.solvers.hop.trace import HopletObserver
from assay.store.hop import BaseDataStore, FieldAggregation, ViewConfig
from assay.suites.hop import files
from assay.suites.hop.files import data_store
from assay.view.hop import BaseService

__all__ = [
    "BaseDataStore",
    "BaseService",
    "FieldAggregation",
    "HopStatus",
    "HopletObserver",
    "ViewConfig",
    "analyse",
    "data_store",
]


def analyse(path: Path | str, target: str = "") -> Report:
    """Return the report of a result file, a folder of them, or a task. Files of other tools work too."""
    return files.analyse(Path(path), target)
