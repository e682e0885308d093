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
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

from assay.core.errors import DamagedRun, MissingExtra, Problem, UsageError, unknown
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
DEFAULT_MEMORY = "4GB"
"""The memory of a query. DuckDB alone would take most of the machine."""
_BATCH = 1000  # rows per fetch
_MAX_THREADS = 4
_NAMES = (*VIEWS, ROWS)
ResultT = TypeVar("ResultT")


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
        memory: str = DEFAULT_MEMORY,
    ) -> None:
        import duckdb

        self.timeout = timeout
        self._memory = memory
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
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="assay-sql")
        try:
            self._files = JournalFiles(self._connection, self._sources, self._folder, warn)
            create_tables(self._connection, self._sources, self._folder, warn)
            self._lock()
        except BaseException:
            self.close()
            raise

    def _lock(self) -> None:
        paths = [str(path) for source in self._sources for path in source.paths()]
        threads = min(_MAX_THREADS, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2)
        settings = {
            "enable_progress_bar": "false",  # DuckDB would print it on stdout, between the rows
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
        """Check a query and start it. Raises UsageError for anything but one SELECT over the views."""
        deadline = time.monotonic() + self.timeout
        query = self._check(text)
        try:
            return self._start(query, deadline)
        except _LongLine:
            self._files.max_line_bytes = self._files.longest_line() + 1
            return self._start(query, deadline)

    def _check(self, text: str) -> CheckedQuery:
        return self._thread.submit(check_query, self._connection, text, _NAMES).result()

    def _start(self, query: CheckedQuery, deadline: float) -> QueryResult:
        def execute() -> list[tuple[Any, ...]]:
            self._create_views(query)
            # The first rows here: an error in the files shows before anything is printed.
            return self._connection.execute(query.text).fetchmany(_BATCH)

        first = self._run(query, execute, deadline)
        columns = [column[0] for column in self._connection.description or ()]

        def fetch() -> list[tuple[Any, ...]]:
            return self._run(query, lambda: self._connection.fetchmany(_BATCH), deadline)

        return QueryResult(columns, first, fetch)

    def _create_views(self, query: CheckedQuery) -> None:
        """Create the views that the query names. A view has a join only if the query reads the joined columns."""
        for name in query.views:
            if name == ROWS:
                select = rows_view(self._connection, self._sources, self._files.relation)
            else:
                select = VIEWS[name].select(self._files.relation, query)
            self._connection.execute(f'create or replace view "{name}" as {select}')

    def write_parquet(self, text: str, target: Path) -> int:
        """Write the result of a query as a Parquet file, completely or not at all. Return the number of rows."""
        query = self._check(text)
        file = self._folder / "result.parquet"

        def execute() -> int:
            self._create_views(query)
            copy = f"copy (\n{query.text}\n) to {literal(str(file))} (format parquet)"
            ((count,),) = self._connection.execute(copy).fetchall()
            return int(count)

        rows = self._run(query, execute, time.monotonic() + self.timeout)
        shutil.move(file, target)
        return rows

    def frame(self, view: str, as_: Frame = "arrow") -> Any:
        """Return a view as an Arrow table, a pandas DataFrame or a polars DataFrame. Raises MissingExtra."""
        if view not in _NAMES:
            raise UsageError(unknown("view", view, list(_NAMES)))
        if as_ not in FRAMES:
            raise UsageError(unknown("kind of frame", as_, list(FRAMES)))
        for package in {"arrow": ["pyarrow"], "pandas": ["pandas"], "polars": ["pyarrow", "polars"]}[as_]:
            if find_spec(package) is None:
                raise MissingExtra(f"run.frame(as_={as_!r}) without {package}", "frames")
        order = "" if view in ("runs", "metrics") else ' order by run, "index"'
        query = self._check(f"select * from {view}{order}")

        def execute() -> Any:
            self._create_views(query)
            relation = self._connection.sql(query.text)
            return relation.df() if as_ == "pandas" else relation.to_arrow_table()

        table = self._run(query, execute, time.monotonic() + self.timeout)
        if as_ != "polars":
            return table
        import polars as pl

        return pl.from_arrow(table)

    def _run(self, query: CheckedQuery, action: Callable[[], ResultT], deadline: float) -> ResultT:
        """Run an action of DuckDB until the deadline, and turn its errors into messages of assay.

        It runs in a thread of its own: DuckDB 2.0 misses every second Ctrl-C that arrives while it works.
        """
        import duckdb

        future = self._thread.submit(action)
        try:
            return future.result(max(0.0, deadline - time.monotonic()))
        except TimeoutError:
            raise UsageError(was_stopped(self.timeout)) from None
        except duckdb.OutOfMemoryException:
            raise UsageError(needs_memory(self._memory)) from None
        except duckdb.Error as error:
            raise self._translate(error, query) from None
        finally:
            # After a timeout or Ctrl-C. DuckDB forgets an interrupt that arrives before the query has begun.
            while not future.done():
                self._connection.interrupt()
                wait([future], timeout=0.05)

    def _translate(self, error: Exception, query: CheckedQuery) -> Exception:
        message = str(error)
        if "maximum_object_size" in message:
            return _LongLine(message)
        if "Malformed JSON" in message and self._folder.name not in message:
            path = message.split('"')[1] if '"' in message else ""
            return DamagedRun(Problem(path, "a line is no JSON any more. `assay check RUN` lists the damage of a run"))
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
        self._thread.shutdown(wait=False)
        self._connection.close()
        shutil.rmtree(self._folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def was_stopped(timeout: float) -> str:
    """Return the message about a query that took too long."""
    return f"the query was stopped after {timeout:g} s. Select less, or pass a longer --timeout"


def needs_memory(memory: str) -> str:
    """Return the message about a query that needs too much memory."""
    return f"the query needs more than {memory} of memory. Select fewer columns or rows, or aggregate"


class QueryResult:
    """The rows of a query, fetched as they are needed: `first`, then those of `fetch_more` until it returns none."""

    def __init__(
        self,
        columns: list[str],
        first: list[tuple[Any, ...]],
        fetch_more: Callable[[], list[tuple[Any, ...]]],
    ) -> None:
        self.columns = columns
        self.first = first
        self.fetch_more = fetch_more

    def rows(self) -> Iterator[tuple[Any, ...]]:
        """Yield the rows. Raises UsageError when the time is over."""
        batch = self.first
        while batch:
            yield from batch
            batch = self.fetch_more()

    def fetch(self) -> list[tuple[Any, ...]]:
        """Return all rows."""
        return list(self.rows())


class _LongLine(Exception):
    """A line is longer than DuckDB's limit."""
