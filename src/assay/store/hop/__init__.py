"""Statistics over the result files of HOP batch tests in a folder.

`data_store` answers queries, `tables` reads the files into DuckDB, `audit` interprets one line.
"""

from assay.store.hop.audit import Audit, read_audit
from assay.store.hop.data_store import BaseDataStore, FieldAggregation, ViewConfig

__all__ = ["Audit", "BaseDataStore", "FieldAggregation", "ViewConfig", "read_audit"]
