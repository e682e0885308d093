"""Statistics over the result files of HOP batch tests in a folder.

`data_store` answers queries, `tables` reads the files into DuckDB, `audit` interprets one line.
"""

from assay.suites.hop.store.audit import Audit, read_audit
from assay.suites.hop.store.data_store import BaseDataStore, FieldAggregation, FieldStats, ViewConfig

__all__ = ["Audit", "BaseDataStore", "FieldAggregation", "FieldStats", "ViewConfig", "read_audit"]
