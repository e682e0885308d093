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
from assay.store.hop.lines import Block, Observation, Odd, Rows, blocks, named

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FieldPath = tuple[str, ...]
LONGEST_VALUE = 200
MOST_FIELDS = 256
NAMES = ("id", "tag")
IDENTITY = (*NAMES, "profile")
"""Columns that every result may be sorted by, beside its fields. Ids and tags are loaded only for that."""
_TYPES = {"start": "i8", "failed": "?", "parse_error": "?", "ok": "?", "duration": "f8", "retries": "f8"}
_encode = msgspec.json.Encoder().encode
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
}
_TABLES = """
create table results (file integer, start bigint, profile varchar);
create table odd (
  start bigint, profile varchar, failed boolean, parse_error boolean, outcome varchar, error varchar
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
        self._plain = ["start", "profile"]
        for name in config.sortable_columns or IDENTITY:
            self._add_sortable(name)

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
                for block in blocks(path, self._key, named=not set(NAMES).isdisjoint(self._plain)):
                    self._add(block)
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror or error}") from error

    def _add(self, block: Block) -> None:
        import duckdb

        self.bad_lines += block.bad
        self.total += len(block.rows.start)
        self.metas |= {str(meta.get("profile")): meta for meta in block.metas}
        with self._lock:
            self._insert("observations", _columns(Observation._fields, block.observations))
            self._insert("odd", _columns(Odd._fields, block.odd))
            chunk = self._row_columns(block.rows)
            try:
                self._insert("results", chunk)
            except duckdb.InvalidInputException:
                # JSON to msgspec, but not to DuckDB: half a surrogate pair, mostly.
                self._insert("results", chunk | {"text": _encodable(block.rows.text)})

    def _insert(self, table: str, chunk: dict[str, Any]) -> None:
        if not chunk:
            return
        self._connection.register("chunk", chunk)
        try:
            if table == "results":
                self._insert_results()
            else:
                self._connection.execute(f"insert into {table} select * from chunk")  # noqa: S608
        finally:
            self._connection.unregister("chunk")

    def _insert_results(self) -> None:
        if self._open:
            self._find_fields()
        values = [_value(f"f[{n}]", column) for n, column in enumerate(self.columns.values(), 1)]
        fields = [column.name for column in self.columns.values()]
        sql = (
            f"insert into results ({', '.join(['file', *self._plain, *fields])}) "  # noqa: S608
            f"select {', '.join([str(len(self.files) - 1), *self._plain, *values])} "
            "from (select *, json_extract(text, ?) as f from chunk)"
        )
        self._connection.execute(sql, [[_pointer(path) for path in self.columns]])

    def _find_fields(self) -> None:
        """Without a config every field that occurs gets a column, up to some number of them."""
        found = self._connection.execute(
            "select distinct unnest(json_keys(text::varchar)) from chunk"
        ).fetchall()
        for (name,) in sorted(found):
            if (name,) not in self.columns and len(self.columns) < MOST_FIELDS:
                self._add_column((name,), whole=False)

    def _add_sortable(self, name: str) -> None:
        if name in NAMES:
            self._plain.append(name)
            self._connection.execute(f"alter table results add column {name} varchar")
        elif name not in IDENTITY:
            self._add_column((name,), whole=False)

    def _row_columns(self, rows: Rows) -> dict[str, Any]:
        import numpy as np

        if not rows.start:
            return {}
        found = {name: _names(getattr(rows, name)) for name in self._plain if name in NAMES}
        found |= {
            "start": np.frombuffer(rows.start, dtype="i8"),
            "profile": np.array(rows.profile, dtype=object),
        }
        return found | {"text": np.array(rows.text, dtype=object)}

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

    found = zip(names, zip(*rows, strict=True), strict=False)
    return {name: np.array(values, dtype=_TYPES.get(name, object)) for name, values in found}


def _names(values: list[Any]) -> Any:
    """Ids that are all numbers are given to DuckDB as numbers: it makes text of them faster."""
    import numpy as np

    kinds = set(map(type, values))
    if kinds == {int} and max(map(abs, values)) < 1 << 62:
        return np.array(values, dtype="i8")
    texts = values if kinds <= {str, type(None)} else list(map(named, values))
    return np.array(texts, dtype=object)


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
