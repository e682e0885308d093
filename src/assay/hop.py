"""Python names that HOP's documents use, importable from one place.

    from assay.hop import BaseDataStore, BaseService, HopletObserver, HopStatus, analyse, data_store

    store = data_store("Tasks/Verify")              # the task's contract decides how fields are counted
    store.load_results()
    store.get_stats("fast")
    report = analyse("Tasks/Verify/TestCases")      # the numbers of `assay hop --analyse`

`docs/hop.md` explains them.
"""

from __future__ import annotations

from collections.abc import Collection
from pathlib import Path

from assay.core.report import Report
from assay.suites.hop.contract import Contract, InputForm, OutputField
from assay.suites.hop.file_report import report_on_files
from assay.suites.hop.files import data_store
from assay.suites.hop.result import HopStatus
from assay.suites.hop.scorer import RowVerdict
from assay.suites.hop.store import BaseDataStore, FieldAggregation, FieldStats, ViewConfig
from assay.suites.hop.task_folder import HopTask, find_tasks, is_task, read_task
from assay.suites.hop.trace import HopletObserver
from assay.view.hop.history import HistoryRecord, RecordCount, ResultIndex, count_records, first_input
from assay.view.hop.service import BaseService, create_fastapi_app, create_pywebview_app

__all__ = [
    "BaseDataStore",
    "BaseService",
    "Contract",
    "FieldAggregation",
    "FieldStats",
    "HistoryRecord",
    "HopStatus",
    "HopTask",
    "HopletObserver",
    "InputForm",
    "OutputField",
    "RecordCount",
    "ResultIndex",
    "RowVerdict",
    "ViewConfig",
    "analyse",
    "count_records",
    "create_fastapi_app",
    "create_pywebview_app",
    "data_store",
    "find_tasks",
    "first_input",
    "is_task",
    "read_task",
]


def analyse(path: Path | str, target: str = "", profiles: Collection[str] = (), *, all_files: bool = False) -> Report:
    """Return the report of a result file, or of the newest one of a folder or a task. Files of other tools work too.

    With `all_files`, every result file of the folder counts.
    """
    return report_on_files([Path(path)], target, profiles, all_files=all_files).report
