"""Reads result files into tables of an in-memory DuckDB.

Each line is a result, an observation, a meta line or a bad line. Most results have one of two regular shapes.
For speed, only the needed keys of these lines are decoded. All other lines go through `read_audit`, which
knows every shape.
"""

from __future__ import annotations

import threading
from array import array
from collections.abc import Callable, Iterable, Iterator, MutableSequence, Sequence
from itertools import accumulate
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import msgspec
from msgspec import UNSET, Struct, UnsetType

from assay.core.errors import UsageError
from assay.files.read import line_body
from assay.suites.hop.batch_lines import is_observer_line
from assay.suites.hop.store.audit import NO_MESSAGE, Audit, read_audit, read_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FieldPath = tuple[str, ...]
# Bytes of a value that a column keeps, unless a distribution needs it whole. Enough to sort by.
MAX_VALUE_CHARACTERS = 200
# Columns for fields without a config. Data with generated keys could otherwise create any number of columns.
MAX_FIELDS = 256
NAMES = ("id", "tag")
IDENTITY = (*NAMES, "profile")
"""Columns that results can be sorted by, in addition to their fields. Ids and tags are loaded only for sorting."""

_READ_BYTES = 1 << 16  # decoded at a time
_BLOCK_BYTES = 1 << 26  # inserted into the tables at a time; a large insert is faster per row
_MAX_ERROR_CHARACTERS = 1000
_NUMPY_TYPES = {
    "start": "i8",
    "failed": "?",
    "parse_error": "?",
    "ok": "?",
    "duration": "f8",
    "retries": "f8",
}
# DuckDB must neither read files nor load extensions from the network.
_CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "threads": 1,
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
}
_CREATE_SQL = """
create table results (file integer, start bigint, profile varchar);
create table odd (
  start bigint, profile varchar, failed boolean, parse_error boolean, outcome varchar, error varchar
);
create table observations (
  kind varchar, run_id varchar, op varchar, ok boolean, duration double, retries double
)
"""
_encode = msgspec.json.Encoder().encode


class Column(NamedTuple):
    """The database column of a field, as JSON text. Long values are cut unless `whole` is set."""

    name: str
    whole: bool


class FileStamp(NamedTuple):
    """Identity and size of a file, to detect whether it was replaced, truncated or written."""

    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileStamp:
        """Return the stamp of a file, from its current inode, size and time of modification."""
        stat = path.stat()
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def files_changed(stamps: dict[Path, FileStamp]) -> bool:
    """Return True if the positions of lines may have changed. A file that only grew keeps its lines in place."""
    for path, stamp in stamps.items():
        try:
            now = FileStamp.of(path)
        except OSError:
            return True
        if now.inode != stamp.inode or now.size < stamp.size:
            return True
        if now.size == stamp.size and now.modified != stamp.modified:
            return True
    return False


class ResultTables:
    """The content of a folder's result files in DuckDB. A lock protects the single connection."""

    def __init__(
        self,
        output_fields: Sequence[tuple[FieldPath, bool]],
        sortable_columns: Sequence[str],
        key_field: str | None,
    ) -> None:
        """`output_fields` has paths, each with True if its values are needed whole. Empty means all fields."""
        import duckdb

        self._connection: DuckDBPyConnection = duckdb.connect(":memory:", config=_CONFIG)
        # By default DuckDB inspects a thousand values to guess the type of a column of Python objects. Ours
        # contain only text and None, so the inspection would only cost time.
        self._connection.execute("set pandas_analyze_sample = 0")
        self._connection.execute(_CREATE_SQL)
        self._lock = threading.Lock()
        self.files: list[Path] = []
        self.stamps: dict[Path, FileStamp] = {}
        self.columns: dict[FieldPath, Column] = {}
        self.metas: dict[str, dict[str, Any]] = {}
        self.bad_lines = 0
        self.total = 0
        self._takes_all_fields = not output_fields
        self._key_field = key_field
        for path, whole in output_fields:
            self._add_column(path, whole=whole)
        self._plain_columns = ["start", "profile"]
        for name in sortable_columns or IDENTITY:
            if name in NAMES:
                self._plain_columns.append(name)
                self._connection.execute(f"alter table results add column {name} varchar")
            elif name not in IDENTITY:
                self._add_column((name,), whole=False)

    def query(self, sql: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a query and return all rows. Text from users goes into `values`, never into `sql`."""
        with self._lock:
            return self._connection.execute(sql, list(values)).fetchall()

    def read(self, paths: Iterable[Path]) -> None:
        """Add the lines of these files, in this order."""
        with_names = not set(NAMES).isdisjoint(self._plain_columns)
        for path in paths:
            try:
                self.stamps[path] = FileStamp.of(path)
                self.files.append(path)
                for block in read_blocks(path, self._key_field, with_names=with_names):
                    self._add_block(block)
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror or error}") from error

    def _add_column(self, path: FieldPath, *, whole: bool) -> None:
        existing = self.columns.get(path)
        if existing is not None:
            self.columns[path] = Column(existing.name, existing.whole or whole)
            return
        column = Column(f"f{len(self.columns)}", whole)
        self.columns[path] = column
        self._connection.execute(f"alter table results add column {column.name} varchar")

    def _add_block(self, block: ResultBlock) -> None:
        import duckdb

        self.bad_lines += block.bad
        self.total += len(block.rows.start)
        for meta in block.metas:
            self.metas[str(meta.get("profile"))] = meta
        with self._lock:
            self._insert("observations", _numpy_columns(Observation._fields, block.observations))
            self._insert("odd", _numpy_columns(OddResult._fields, block.odd))
            chunk = self._result_columns(block.rows)
            try:
                self._insert("results", chunk)
            except duckdb.InvalidInputException:
                # msgspec accepts this JSON, but DuckDB does not: usually an unpaired surrogate.
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
        if self._takes_all_fields:
            # Without a config every field gets a column, up to MAX_FIELDS.
            keys = "select distinct unnest(json_keys(text::varchar)) from chunk"
            for (name,) in sorted(self._connection.execute(keys).fetchall()):
                if (name,) not in self.columns and len(self.columns) < MAX_FIELDS:
                    self._add_column((name,), whole=False)
        values = [_value_sql(f"f[{n}]", column) for n, column in enumerate(self.columns.values(), 1)]
        fields = [column.name for column in self.columns.values()]
        sql = (
            f"insert into results ({', '.join(['file', *self._plain_columns, *fields])}) "  # noqa: S608
            f"select {', '.join([str(len(self.files) - 1), *self._plain_columns, *values])} "
            "from (select *, json_extract(text, ?) as f from chunk)"
        )
        self._connection.execute(sql, [[_json_pointer(path) for path in self.columns]])

    def _result_columns(self, rows: ResultColumns) -> dict[str, Any]:
        import numpy as np

        if not rows.start:
            return {}
        columns: dict[str, Any] = {
            name: _name_column(getattr(rows, name)) for name in self._plain_columns if name in NAMES
        }
        columns["start"] = np.frombuffer(rows.start, dtype="i8")
        columns["profile"] = np.array(rows.profile, dtype=object)
        columns["text"] = np.array(rows.text, dtype=object)
        return columns


def _numpy_columns(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> dict[str, Any]:
    import numpy as np

    columns = zip(names, zip(*rows, strict=True), strict=False)
    return {name: np.array(values, dtype=_NUMPY_TYPES.get(name, object)) for name, values in columns}


def _name_column(values: list[Any]) -> Any:
    """Return a column of ids or tags. Ids that are all integers stay integers: DuckDB converts them faster."""
    import numpy as np

    kinds = set(map(type, values))
    if kinds == {int} and max(map(abs, values)) < 1 << 62:
        return np.array(values, dtype="i8")
    texts = values if kinds <= {str, type(None)} else list(map(name_text, values))
    return np.array(texts, dtype=object)


def _encodable(texts: Any) -> Any:
    import numpy as np

    return np.array([text and _encode(read_json(text)).decode() for text in texts], dtype=object)


def _value_sql(item: str, column: Column) -> str:
    """Return SQL for the JSON text of a value. Null, NaN and a missing field give NULL."""
    text = f"{item}::varchar"
    value = f"nullif({text}, 'null')"
    if column.whole:
        return value
    limit = MAX_VALUE_CHARACTERS
    return f"case when strlen({text}) > {limit} then left({text}, {limit}) else {value} end"


def _json_pointer(path: FieldPath) -> str:
    """Return the JSON pointer of a path. In a pointer, dots and brackets in a key have no special meaning."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


# Lines


class ResultColumns(NamedTuple):
    """Results as columns. `start` is the offset of the line in its file, `text` the fields as JSON."""

    start: array[int]
    id: list[Any]
    tag: list[Any]
    profile: list[str | None]
    text: list[str | None]


class OddResult(NamedTuple):
    """A result with an error, with text that is not JSON, or with an outcome. Few results need this table."""

    start: int
    profile: str | None
    failed: bool
    parse_error: bool
    outcome: str | None
    error: str | None


class Observation(NamedTuple):
    """One record of the observer. A missing, negative or non-numeric duration is None."""

    kind: str
    run_id: str
    op: str | None
    ok: bool
    duration: float | None
    retries: float | None


class ResultBlock:
    """The content of consecutive lines of a file. Without `with_names`, ids and tags may be missing."""

    def __init__(self, *, with_names: bool = True) -> None:
        self.with_names = with_names
        self.rows = ResultColumns(array("q"), [], [], [], [])
        self.odd: list[OddResult] = []
        self.observations: list[Observation] = []
        self.metas: list[dict[str, Any]] = []
        self.bad = 0
        self.size = 0

    def add(self, start: int, audit: Audit) -> None:
        """Add a result."""
        text = _encode(audit.fields).decode() if audit.fields else None
        row = (start, audit.row.get("id"), audit.row.get("tag"), audit.profile, text)
        columns: tuple[MutableSequence[Any], ...] = self.rows
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        if audit.failed or audit.parse_error or audit.outcome is not None:
            error = audit.error[:_MAX_ERROR_CHARACTERS] if audit.error is not None else None
            self.odd.append(OddResult(start, audit.profile, audit.failed, audit.parse_error, audit.outcome, error))

    def add_error(self, start: int, profile: str | None, error: str) -> None:
        """Add an error message to `odd`. The caller adds the row itself, which has no fields."""
        text = error[:_MAX_ERROR_CHARACTERS]
        self.odd.append(OddResult(start, profile, failed=True, parse_error=False, outcome=None, error=text))

    def add_line(self, start: int, raw: bytes, key_field: str | None) -> None:
        """Add a line of any shape."""
        text = _line_body(raw, start)
        if not text:
            return
        try:
            value = read_json(text)
        except (ValueError, RecursionError):
            value = None
        if isinstance(value, list) and (audit := read_audit(value, key_field)):
            self.add(start, audit)
        elif not isinstance(value, dict):
            self.bad += 1
        elif value.get("_type") == "meta":
            self.metas.append(value)
        elif is_observer_line(value):
            self.observations.append(_observation(value))
        elif audit := read_audit(value, key_field):
            self.add(start, audit)


def read_blocks(path: Path, key_field: str | None = None, *, with_names: bool = True) -> Iterator[ResultBlock]:
    """Yield the file in blocks of about 64 MB. An unreadable line is counted as bad; the others are read."""
    offset = 0
    block = ResultBlock(with_names=with_names)
    shape_readers = [_take_flat, _take_view]
    with path.open("rb", buffering=_READ_BYTES) as file:
        while raws := file.readlines(_READ_BYTES):
            starts = list(accumulate(map(len, raws), initial=offset))
            offset = starts.pop()
            others = shape_readers[0](block, zip(starts, raws, strict=True))
            rest = shape_readers[1](block, others)
            # Most files have one shape. The reader that matched most lines is tried first from now on.
            if len(others) - len(rest) > len(raws) // 2:
                shape_readers.reverse()
            for start, raw in rest:
                block.add_line(start, raw, key_field)
            block.size += offset - starts[0]
            if block.size >= _BLOCK_BYTES:
                yield block
                block = ResultBlock(with_names=with_names)
    yield block


def line_at(path: Path, start: int) -> dict[str, Any] | list[Any]:
    """Return the object or pair in the line at an offset. Raises ValueError if the file has changed there."""
    with path.open("rb") as file:
        file.seek(start)
        value = read_json(_line_body(file.readline(), start))
    if not isinstance(value, (dict, list)):
        raise ValueError("no object")  # noqa: TRY004
    return value


def name_text(value: Any) -> str | None:
    """Return an id or a tag as text."""
    return value if value is None or isinstance(value, str) else _encode(value).decode()


def _line_body(raw: bytes, start: int) -> bytes:
    return line_body(raw, is_first=start == 0)


def _observation(value: dict[str, Any]) -> Observation:
    return Observation(
        kind=value["type"],
        run_id=str(value["run_id"]),
        op=name_text(value.get("op")),
        ok=value.get("status") == "OK",
        duration=_positive_number(value.get("duration")),
        retries=_positive_number(value.get("retry_count")),
    )


def _positive_number(value: Any) -> float | None:
    """Return a number of at least 0 as a float, or None for any other value."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if value >= 0 else None
    except OverflowError:
        return None


# The two regular shapes. Keys with the type UnsetType must be absent: a line that has them fails to decode and
# goes through `read_audit`.


# gc=False: these structs have no reference cycles, so the garbage collector need not track them. Files can
# have millions of lines.
class _FlatStats(Struct, gc=False):
    status: Literal["OK", "ERROR"]
    error: str | None = None


class _FlatLine(Struct, gc=False, kw_only=True):
    """The keys of a flat line that are needed.

    They are in the order in which most files have them, because msgspec decodes keys in the expected order faster.
    """

    id = None
    tag = None
    hop_result: str | None = None
    hop_stats: _FlatStats
    profile: str | None = None
    kind: UnsetType = msgspec.field(default=UNSET, name="_type")
    run_id: UnsetType = UNSET


class _NamedFlatLine(_FlatLine, gc=False, kw_only=True):
    id: Any = None
    tag: Any = None


class _ViewInput(Struct, gc=False):
    id: Any = None
    tag: Any = None
    input: UnsetType = UNSET


class _ViewLine(Struct, gc=False, kw_only=True):
    """The needed keys of a line of the view. A line with an id or tag beside `input` goes through `read_audit`."""

    input: _ViewInput
    result: str | None = None
    error: str | None = None
    profile: str | None = None
    id: UnsetType = UNSET
    tag: UnsetType = UNSET
    hop_result: UnsetType = UNSET
    hop_stats: UnsetType = UNSET
    kind: UnsetType = msgspec.field(default=UNSET, name="_type")
    run_id: UnsetType = UNSET


class _PlainResult(Struct, gc=False):
    """An object without a `result` key, which could be one more wrapper."""

    result: UnsetType = UNSET


_decode_named_flat: Callable[[bytes], _FlatLine] = msgspec.json.Decoder(_NamedFlatLine).decode
_decode_flat = msgspec.json.Decoder(_FlatLine).decode
_decode_view = msgspec.json.Decoder(_ViewLine).decode
_check_plain = msgspec.json.Decoder(_PlainResult).decode
_NOT_REGULAR = (msgspec.DecodeError, UnicodeError, RecursionError)
_RawLine = tuple[int, bytes]


def _take_flat(block: ResultBlock, lines: Iterable[_RawLine]) -> list[_RawLine]:
    """Add the lines with a regular `hop_result` to the block. Returns all other lines."""
    others = []
    starts, ids, tags, profiles, texts = block.rows
    decode = _decode_named_flat if block.with_names else _decode_flat
    for start, raw in lines:
        try:
            line = decode(raw)
            text, stats = line.hop_result, line.hop_stats
            if stats.status == "OK":
                _check_plain(text or "")
            else:
                text = None
                block.add_error(start, line.profile, stats.error or NO_MESSAGE)
        except _NOT_REGULAR:
            others.append((start, raw))
            continue
        starts.append(start)
        ids.append(line.id)
        tags.append(line.tag)
        profiles.append(line.profile)
        texts.append(text)
    return others


def _take_view(block: ResultBlock, lines: Iterable[_RawLine]) -> list[_RawLine]:
    """Add the regular lines of the view to the block. An error takes precedence. Returns all other lines."""
    others = []
    starts, ids, tags, profiles, texts = block.rows
    for start, raw in lines:
        try:
            line = _decode_view(raw)
            text, row = line.result, line.input
            if line.error:
                text = None
                block.add_error(start, line.profile, line.error)
            else:
                _check_plain(text or "")
        except _NOT_REGULAR:
            others.append((start, raw))
            continue
        starts.append(start)
        ids.append(row.id)
        tags.append(row.tag)
        profiles.append(line.profile)
        texts.append(text)
    return others
