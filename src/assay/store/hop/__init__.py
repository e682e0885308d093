"""The results of batch tests in a folder of JSONL files, as questions can be asked of them.

`data_store` answers questions, `tables` reads files into DuckDB, `audit` has the rules for one line.
"""

from assay.store.hop.audit import Audit, read_audit
from assay.store.hop.data_store import BaseDataStore, FieldAggregation, ViewConfig

__all__ = ["Audit", "BaseDataStore", "FieldAggregation", "ViewConfig", "read_audit"]
