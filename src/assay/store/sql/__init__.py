"""SQL over runs: `assay sql`, `run.frame` and `assay show --where`.

    with RunDatabase([folder]) as database:
        result = database.query("select metric, avg(value) from scores group by metric")
        result.columns, result.fetch()

DuckDB reads the journal's files as they are. `views.py` defines the views that queries see, `sources.py` decides which
lines of which files count, `guard.py` refuses everything but one SELECT over these views.
"""

from assay.store.sql.database import FRAMES, Frame, QueryResult, RunDatabase
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
    "SqlView",
]
