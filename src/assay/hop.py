"""Python names that HOP's documents use, importable from one place.

    from assay.hop import BaseDataStore, BaseService, HopletObserver, HopStatus, analyse, data_store

    store = data_store("Tasks/Verify")              # the task's contract decides how fields are counted
    store.load_results()
    store.get_stats("fast")
    report = analyse("Tasks/Verify/TestCases")      # the numbers of `assay hop --analyse`

`docs/hop.md` explains them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from assay.suites.hop.file_report import analyse as analyse
    from assay.suites.hop.result import HopStatus as HopStatus
    from assay.suites.hop.result_folder import data_store as data_store
    from assay.suites.hop.store import (
        BaseDataStore as BaseDataStore,
        FieldAggregation as FieldAggregation,
        FieldStats as FieldStats,
        ViewConfig as ViewConfig,
    )
    from assay.suites.hop.trace import HopletObserver as HopletObserver
    from assay.view.hop.service import (
        BaseService as BaseService,
        create_fastapi_app as create_fastapi_app,
        create_pywebview_app as create_pywebview_app,
    )

_MODULES = {
    "assay.suites.hop.file_report": "analyse",
    "assay.suites.hop.result_folder": "data_store",
    "assay.suites.hop.result": "HopStatus",
    "assay.suites.hop.store": "BaseDataStore FieldAggregation FieldStats ViewConfig",
    "assay.suites.hop.trace": "HopletObserver",
    "assay.view.hop.service": "BaseService create_fastapi_app create_pywebview_app",
}
_MODULE_OF = {name: module for module, names in _MODULES.items() for name in names.split()}
__all__ = sorted(_MODULE_OF)  # noqa: PLE0605 - the keys of a table


def __getattr__(name: str) -> Any:
    """Import a name from its module on first use."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module 'assay.hop' has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_MODULE_OF[name]), name)


def __dir__() -> list[str]:
    """Return the names, for completion in a notebook: most are not imported yet."""
    return __all__
