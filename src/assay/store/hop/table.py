"""The results and observations of a folder as tables of an in-memory DuckDB."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from assay.core.errors import UsageError
from assay.store.hop.audit import read_json
from assay.store.hop.config import ViewConfig
from assay.store.hop.lines import Block, Clean, Observation, Result, blocks, named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FieldPath = tuple[str, ...]
LONGEST_VALUE = 200
MOST_FIELDS = 256
IDENTITY = {"id": "id", "tag": "tag", "profile": "profile", "hop_outcome": "outcome", "hop_error": "error"}
"""Columns that every result has: the name in a row of `query_results`, and the column."""
_TYPES = {"start": "i8", "failed": "?", "parse_error": "?", "ok": "?", "duration": "f8", "retries": "f8"}
_DEFAULTS = {"start": "start", "id": "id", "tag": "tag", "profile": "profile"}
_DEFAULTS |= {"failed": "false", "parse_error": "false", "outcome": "null", "error": "null"}
_encode = msgspec.json.Encoder().encode
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
}
_TABLES = """
create table results (
  file integer, start bigint, id varchar, tag varchar, profile varchar,
  failed boolean, parse_error boolean, outcome varchar, error varchar
);
create table observations (
  kind varchar, run_id varchar, op varchar, ok boolean, duration double, retries double
)
"""


class Column(NamedTuple):
    """Where a field stands. The column holds JSON text; only a distribution needs it whole if it is long."""

    name: str
    whole: bool


class Stamp(NamedTuple):
    """Tells whether a file was replaced, cut or written to since."""

    inode: int
    size: int
    changed: int

    @classmethod
    def of(cls, path: Path) -> Stamp:
        """The file as it is now."""
        stat = path.stat()
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)


class Tables:
    """What one reading of a folder found. One connection, and a lock around every use of it."""

    def __init__(self, config: ViewConfig) -> None:
        import duckdb

        self._connection: DuckDBPyConnection = duckdb.connect(":memory:", config=_CONFIG)
        # Columns of Python objects hold text or None: looking at a thousand values first costs milliseconds.
        self._connection.execute("set pandas_analyze_sample = 0")
        self._connection.execute(_TABLES)
        self._lock = threading.Lock()
        self.files: list[Path] = []
        self.stamps: dict[Path, Stamp] = {}
        self.columns: dict[FieldPath, Column] = {}
        self.metas: dict[str, dict[str, Any]] = {}
        self.bad_lines = 0
        self.total = 0
        self._open = not config.output_fields
        self._key = config.audit_key_field
        for field in config.output_fields:
            self._add_column(field.path, whole=field.agg_type == "distribution")
        for name in config.sortable_columns:
            if name not in IDENTITY:
                self._add_column((name,), whole=False)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Every row of the answer; what a user said is in `values` only."""
        with self._lock:
            return self._connection.execute(sql, list(values)).fetchall()

    def read(self, paths: Iterable[Path]) -> None:
        """Add the lines of these files, in this order."""
        for path in paths:
            try:
                self.stamps[path] = Stamp.of(path)
                self.files.append(path)
                for block in blocks(path, self._key):
                    self._add(block)
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror or error}") from error

    def _add(self, block: Block) -> None:
        self.bad_lines += block.bad
        self.total += len(block.results) + len(block.clean.start)
        self.metas |= {str(meta.get("profile")): meta for meta in block.metas}
        with self._lock:
            if block.clean.start:
                self._add_results(_clean_columns(block.clean))
            if block.results:
                self._add_results(_columns(Result._fields, block.results))
            if block.observations:
                self._add_observations(_columns(Observation._fields, block.observations))

    def _add_results(self, chunk: dict[str, Any]) -> None:
        import duckdb

        try:
            self._insert(chunk)
        except duckdb.InvalidInputException:
            # JSON to msgspec, but not to DuckDB: half a surrogate pair, mostly.
            self._insert(chunk | {"text": _encodable(chunk["text"])})

    def _insert(self, chunk: dict[str, Any]) -> None:
        self._connection.register("chunk", chunk)
        try:
            if self._open:
                self._find_fields()
            self._connection.execute(self._insertion(chunk), [[_pointer(path) for path in self.columns]])
        finally:
            self._connection.unregister("chunk")

    def _find_fields(self) -> None:
        """Without a config every field that occurs gets a column, up to some number of them."""
        found = self._connection.execute(
            "select distinct unnest(json_keys(text::varchar)) from chunk"
        ).fetchall()
        for (name,) in sorted(found):
            if (name,) not in self.columns and len(self.columns) < MOST_FIELDS:
                self._add_column((name,), whole=False)

    def _insertion(self, chunk: dict[str, Any]) -> str:
        plain = [name if name in chunk else default for name, default in _DEFAULTS.items()]
        values = [_value(f"f[{n}]", column) for n, column in enumerate(self.columns.values(), 1)]
        source = "select *, json_extract(text::varchar, ?) as f from chunk"
        return (
            f"insert into results select {len(self.files) - 1}, {', '.join([*plain, *values])} "  # noqa: S608
            f"from ({source})"
        )

    def _add_observations(self, chunk: dict[str, Any]) -> None:
        self._connection.register("chunk", chunk)
        try:
            self._connection.execute(
                "insert into observations select kind, run_id, op, ok, duration, retries from chunk"
            )
        finally:
            self._connection.unregister("chunk")

    def _add_column(self, path: FieldPath, *, whole: bool) -> None:
        known = self.columns.get(path)
        if known is not None:
            self.columns[path] = Column(known.name, known.whole or whole)
            return
        column = Column(f"f{len(self.columns)}", whole)
        self.columns[path] = column
        self._connection.execute(f"alter table results add column {column.name} varchar")


def _columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    import numpy as np

    found = zip(names, zip(*rows, strict=True), strict=True)
    return {name: np.array(values, dtype=_TYPES.get(name, object)) for name, values in found}


def _clean_columns(clean: Clean) -> dict[str, Any]:
    """Ids that are all numbers are given to DuckDB as numbers: it makes text of them faster."""
    import numpy as np

    columns = clean._asdict()
    for name in ("id", "tag"):
        kinds = set(map(type, columns[name]))
        if kinds == {int} and max(map(abs, columns[name])) < 1 << 62:
            columns[name] = np.array(columns[name], dtype="i8")
        elif not kinds <= {str, type(None)}:
            columns[name] = list(map(named, columns[name]))
    kept = {name: values for name, values in columns.items() if type(values) is list}
    return columns | {name: np.array(values, dtype=_TYPES.get(name, object)) for name, values in kept.items()}


def _encodable(texts: Any) -> Any:
    import numpy as np

    return np.array([text and _encode(read_json(text)).decode() for text in texts], dtype=object)


def _value(item: str, column: Column) -> str:
    """JSON text; null, NaN and a field that is not there are NULL."""
    text = f"{item}::varchar"
    value = f"nullif({text}, 'null')"
    if column.whole:
        return value
    return f"case when strlen({text}) > {LONGEST_VALUE} then left({text}, {LONGEST_VALUE}) else {value} end"


def _pointer(path: FieldPath) -> str:
    """A JSON pointer: no key of a user's can be mistaken for a step."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


def changed(stamps: dict[Path, Stamp]) -> bool:
    """Whether lines may stand elsewhere now. A file that only grew has them where they were."""
    for path, stamp in stamps.items():
        try:
            now = Stamp.of(path)
        except OSError:
            return True
        if now.inode != stamp.inode or now.size < stamp.size:
            return True
        if now.size == stamp.size and now.changed != stamp.changed:
            return True
    return False
