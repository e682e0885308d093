"""SQL over runs: `assay sql`, `run.frame` and `assay show --where`.

    with SqlProcess([folder]) as database:
        result = database.query("select metric, avg(value) from scores group by metric")
        result.columns, result.fetch()

Queries that people write run in a process of their own (`process.py`), which has a `RunDatabase`. DuckDB reads the
journal's files as they are. `views.py` defines the views that queries see, `sources.py` decides which lines of which
files count, `guard.py` refuses everything but one SELECT over these views.
"""

from assay.store.sql.database import FRAMES, Frame, QueryResult, RunDatabase
from assay.store.sql.process import SqlProcess
from assay.store.sql.rows import ROWS, ROWS_ABOUT, ROWS_COLUMNS
from assay.store.sql.views import VIEWS, SqlView

__all__ = [
    "FRAMES",
    "ROWS",
    "ROWS_ABOUT",
    "ROWS_COLUMNS",
    "VIEWS",
    "Frame",
    "QueryResult",
    "RunDatabase",
    "SqlProcess",
    "SqlView",
]
