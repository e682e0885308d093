"""RunDatabase: DuckDB over the journals of some runs, read-only and locked.

with RunDatabase([folder]) as database:
    result = database.query("select metric, avg(value) from scores group by metric")
    for row in result.rows():
        ...
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self

from assay.core.errors import DamagedRun, MissingExtra, Problem, UsageError
from assay.core.registry import unknown
from assay.store.sql.guard import CheckedQuery, check_query
from assay.store.sql.rows import ROWS, rows_view
from assay.store.sql.sources import JournalFiles, literal, open_sources, refuse_links
from assay.store.sql.tables import create_tables
from assay.store.sql.views import VIEWS

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Frame = Literal["arrow", "pandas", "polars"]
FRAMES: tuple[Frame, ...] = ("arrow", "pandas", "polars")

DEFAULT_TIMEOUT = 300.0
"""Seconds after which a query is stopped."""
_BATCH = 1000  # rows per fetch
# A query that needs more memory fails with a message. Without a limit DuckDB takes four fifths of the machine.
_MEMORY = "4GB"
_MAX_THREADS = 4
# DuckDB refuses longer lines unless it is told how long they are.
_DEFAULT_LINE_BYTES = 16 << 20
_NAMES = (*VIEWS, ROWS)


class RunDatabase:
    """The views over some runs. Nothing can be written, and no other file can be read.

    `warn` receives a sentence about each run that is damaged or cannot be read.
    """

    def __init__(
        self,
        folders: Sequence[Path],
        warn: Callable[[str], object] = lambda _: None,
        timeout: float = DEFAULT_TIMEOUT,
        *,
        memory: str = _MEMORY,
        cleanup: Callable[[], None] | None = None,
    ) -> None:
        """`memory` limits the memory of queries. `cleanup` is called when the database is closed."""
        import duckdb

        self.timeout = timeout
        self._memory = memory
        self._cleanup = cleanup
        self._sources = open_sources(folders, warn)
        refuse_links(self._sources)
        self._sizes = [source.size() for source in self._sources]
        self._folder = Path(tempfile.mkdtemp(prefix="assay-sql-")).resolve()
        # With these two, DuckDB would download and load code when a query names a function that it does not have.
        offline: dict[str, str | bool | int | float | list[str]] = {
            "autoinstall_known_extensions": "false",
            "autoload_known_extensions": "false",
        }
        self._connection: DuckDBPyConnection = duckdb.connect(config=offline)
        try:
            self._files = JournalFiles(self._connection, self._sources, self._folder, warn)
            create_tables(self._connection, self._sources, self._folder)
            self._lock()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        paths = [str(path) for source in self._sources for path in source.paths()]
        threads = min(_MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        settings = {
            "memory_limit": literal(self._memory),
            "threads": str(threads),
            "temp_directory": "''",  # no files on the disk: a query that does not fit into memory fails
            "python_enable_replacements": "false",  # `from x` must not find a variable of this program
            "allowed_paths": f"[{', '.join(map(literal, paths))}]",
            "allowed_directories": f"[{literal(str(self._folder))}]",  # copies of damaged files, and Parquet
            "enable_external_access": "false",
            "lock_configuration": "true",
        }
        for name, value in settings.items():
            self._connection.execute(f"set {name} = {value}")

    def is_stale(self) -> bool:
        """Return whether a run has grown since the database was opened. It shows the runs as they were then."""
        return [source.size() for source in self._sources] != self._sizes

    def query(self, text: str) -> QueryResult:
        """Check and start a query. Raises UsageError for anything but one SELECT over the views."""
        query = check_query(self._connection, text, _NAMES)
        try:
            return self._start(query)
        except _LongLine:
            self._files.max_line_bytes = self._files.longest_line() + 1
            return self._start(query)

    def _start(self, query: CheckedQuery) -> QueryResult:
        with self._errors(query):
            self._create_views(query)
        return QueryResult(self._connection, query, self._errors, self.timeout)

    def _create_views(self, query: CheckedQuery) -> None:
        """Create the views that the query names. A view has a join only if the query reads the joined columns."""
        for name in query.views:
            if name == ROWS:
                select = rows_view(self._connection, self._sources, self._files.relation)
            else:
                select = VIEWS[name].select(self._files.relation, query)
            self._connection.execute(f'create or replace view "{name}" as {select}')

    def write_parquet(self, text: str, target: Path) -> None:
        """Write the result of a query as a Parquet file, completely or not at all."""
        query = check_query(self._connection, text, _NAMES)
        result = self._folder / "result.parquet"
        with self._errors(query), _Timer(self._connection, self.timeout):
            self._create_views(query)
            self._connection.execute(f"copy (\n{query.text}\n) to {literal(str(result))} (format parquet)")
        shutil.move(result, target)

    def frame(self, view: str, as_: Frame = "arrow") -> Any:
        """Return a view as an Arrow table, a pandas DataFrame or a polars DataFrame. Raises MissingExtra."""
        if view not in _NAMES:
            raise UsageError(unknown("view", view, list(_NAMES)))
        if as_ not in FRAMES:
            raise UsageError(unknown("kind of frame", as_, list(FRAMES)))
        for package in {"arrow": ["pyarrow"], "pandas": ["pandas"], "polars": ["pyarrow", "polars"]}[as_]:
            if find_spec(package) is None:
                raise MissingExtra(f"run.frame(as_={as_!r}) without {package}", "frames")
        order = ' order by run, "index"' if view not in ("runs", "metrics") else ""
        query = check_query(self._connection, f"select * from {view}{order}", _NAMES)
        with self._errors(query):
            self._create_views(query)
            relation = self._connection.sql(query.text)
            if as_ == "pandas":
                return relation.df()
            table = relation.to_arrow_table()
        if as_ == "arrow":
            return table
        import polars as pl

        return pl.from_arrow(table)

    @contextmanager
    def _errors(self, query: CheckedQuery) -> Iterator[None]:
        """Turn errors of DuckDB into messages of assay."""
        import duckdb

        try:
            yield
        except duckdb.InterruptException:
            raise UsageError(
                f"the query was stopped after {self.timeout:g} s. Select less, or pass a longer --timeout"
            ) from None
        except RuntimeError as error:
            # duckdb raises a RuntimeError if Ctrl-C arrives while a query runs.
            if "interrupted" in str(error):
                raise KeyboardInterrupt from None
            raise
        except duckdb.OutOfMemoryException:
            raise UsageError(
                f"the query needs more than {self._memory} of memory. Select fewer columns or rows, or aggregate"
            ) from None
        except duckdb.Error as error:
            raise self._translate(error, query) from None

    def _translate(self, error: Exception, query: CheckedQuery) -> Exception:
        message = str(error)
        if "maximum_object_size" in message:
            return _LongLine(message)
        if "Malformed JSON" in message and self._folder.name not in message:
            path = message.split('"')[1] if '"' in message else ""
            return DamagedRun(
                Problem(path, "a line is no JSON any more. `assay check RUN` lists the damage of a run")
            )
        if "not found in FROM clause" in message and '"' in message:
            name = message.split('"')[1]
            columns = self._columns(query)
            message = unknown("column", name, columns)
            listed = "" if "known:" in message else f" The columns are {', '.join(columns)}"
            return UsageError(message + listed)
        return UsageError(f"the query failed: {message.strip()}")

    def _columns(self, query: CheckedQuery) -> list[str]:
        """Return the columns of the views that the query names."""
        columns: dict[str, None] = {}
        for view in query.views:
            described = self._connection.execute(f'describe "{view}"').fetchall()
            columns.update(dict.fromkeys(row[0] for row in described))
        return list(columns)

    def close(self) -> None:
        """Close the connection and remove temporary files."""
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)
        if self._cleanup is not None:
            self._cleanup()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class QueryResult:
    """The rows of a query, fetched as they are needed."""

    def __init__(
        self,
        connection: DuckDBPyConnection,
        query: CheckedQuery,
        errors: Callable[[CheckedQuery], Any],
        timeout: float,
    ) -> None:
        self._connection = connection
        self._query = query
        self._errors = errors
        self._timer = _Timer(connection, timeout)
        try:
            with errors(query), self._timer:
                self._cursor = connection.execute(query.text)
                # The first rows here: an error in the files shows before anything is printed.
                self._first = self._cursor.fetchmany(_BATCH)
        except BaseException:
            self._timer.cancel()
            raise
        self.columns = [column[0] for column in self._cursor.description or ()]
        self.types = [str(column[1]) for column in self._cursor.description or ()]

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows. Raises UsageError when the time is over."""
        batch = self._first
        while batch:
            yield from batch
            with self._errors(self._query), self._timer:
                batch = self._cursor.fetchmany(_BATCH)

    def fetch(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return list(self.rows())

    def close(self) -> None:
        """Stop the query."""
        self._timer.cancel()


class _LongLine(Exception):
    """A line is longer than DuckDB's limit."""


class _Timer:
    """Interrupts the connection when the time of a query is over. Time between fetches counts too."""

    def __init__(self, connection: DuckDBPyConnection, seconds: float) -> None:
        self._connection = connection
        self._end = time.monotonic() + seconds
        self._timer: threading.Timer | None = None

    def __enter__(self) -> None:
        self._timer = threading.Timer(max(0.0, self._end - time.monotonic()), self._connection.interrupt)
        self._timer.daemon = True
        self._timer.start()

    def __exit__(self, *_: object) -> None:
        self.cancel()

    def cancel(self) -> None:
        """Do not interrupt any more."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
