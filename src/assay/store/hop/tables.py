"""Reads result files into tables of an in-memory DuckDB.

Lines are sorted into results, observations, meta lines and bad lines. Most lines have one of two clean
shapes, and of these only what is counted is decoded. Every other line goes through `read_audit`, which has
the rules.
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
from assay.core.hop_records import is_observer_line
from assay.core.jsonl import body
from assay.store.hop.audit import NO_MESSAGE, Audit, read_audit, read_json

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

FieldPath = tuple[str, ...]
MAX_VALUE_CHARACTERS = 200
MAX_FIELDS = 256
NAMES = ("id", "tag")
IDENTITY = (*NAMES, "profile")
"""Columns that every result may be sorted by, beside its fields. Ids and tags are loaded only for that."""

_READ_BYTES = 1 << 16  # decoded at once
_BLOCK_BYTES = 1 << 26  # given to the tables at once
_MAX_ERROR_CHARACTERS = 1000
_NUMPY_TYPES = {
    "start": "i8",
    "failed": "?",
    "parse_error": "?",
    "ok": "?",
    "duration": "f8",
    "retries": "f8",
}
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
    """The column of a field. It holds JSON text; only a distribution needs it whole if it is long."""

    name: str
    whole: bool


class FileStamp(NamedTuple):
    """Tells whether a file was replaced, cut or written to since."""

    inode: int
    size: int
    modified: int

    @classmethod
    def of(cls, path: Path) -> FileStamp:
        """The file as it is now."""
        stat = path.stat()
        return cls(stat.st_ino, stat.st_size, stat.st_mtime_ns)


def files_changed(stamps: dict[Path, FileStamp]) -> bool:
    """Whether lines may stand elsewhere now. A file that only grew has them where they were."""
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
    """What one reading of a folder found. One connection, and a lock around every use of it."""

    def __init__(
        self,
        output_fields: Sequence[tuple[FieldPath, bool]],
        sortable_columns: Sequence[str],
        key_field: str | None,
    ) -> None:
        """`output_fields` are paths, and whether their values are needed whole; without any, all fields count."""
        import duckdb

        self._connection: DuckDBPyConnection = duckdb.connect(":memory:", config=_CONFIG)
        # Columns of Python objects hold text or None: looking at a thousand values first costs milliseconds.
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
        """Every row of the answer. What a user said stands in `values` only."""
        with self._lock:
            return self._connection.execute(sql, list(values)).fetchall()

    def read(self, paths: Iterable[Path]) -> None:
        """Add the lines of these files, in this order."""
        named = not set(NAMES).isdisjoint(self._plain_columns)
        for path in paths:
            try:
                self.stamps[path] = FileStamp.of(path)
                self.files.append(path)
                for block in read_blocks(path, self._key_field, named=named):
                    self._add_block(block)
            except OSError as error:
                raise UsageError(f"cannot read {path}: {error.strerror or error}") from error

    def _add_column(self, path: FieldPath, *, whole: bool) -> None:
        known = self.columns.get(path)
        if known is not None:
            self.columns[path] = Column(known.name, known.whole or whole)
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
        if self._takes_all_fields:
            # Without a config every field that occurs gets a column, up to some number of them.
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
    """Ids that are all numbers are given to DuckDB as numbers: it makes text of them faster."""
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
    """JSON text; null, NaN and a field that is not there are NULL."""
    text = f"{item}::varchar"
    value = f"nullif({text}, 'null')"
    if column.whole:
        return value
    most = MAX_VALUE_CHARACTERS
    return f"case when strlen({text}) > {most} then left({text}, {most}) else {value} end"


def _json_pointer(path: FieldPath) -> str:
    """In a JSON pointer no key of a user's can be mistaken for a step."""
    return "".join("/" + key.replace("~", "~0").replace("/", "~1") for key in path)


# Lines


class ResultColumns(NamedTuple):
    """Results column by column: where the line starts, and its fields as JSON text."""

    start: array[int]
    id: list[Any]
    tag: list[Any]
    profile: list[str | None]
    text: list[str | None]


class OddResult(NamedTuple):
    """What there is to say of a result beside its fields: an error, text that is no JSON, an outcome."""

    start: int
    profile: str | None
    failed: bool
    parse_error: bool
    outcome: str | None
    error: str | None


class Observation(NamedTuple):
    """One record of the observer. A duration that is missing, negative or no number is None."""

    kind: str
    run_id: str
    op: str | None
    ok: bool
    duration: float | None
    retries: float | None


class ResultBlock:
    """What some lines of a file held. Ids and tags may be missing unless it is `named`."""

    def __init__(self, *, named: bool = True) -> None:
        self.named = named
        self.rows = ResultColumns(array("q"), [], [], [], [])
        self.odd: list[OddResult] = []
        self.observations: list[Observation] = []
        self.metas: list[dict[str, Any]] = []
        self.bad = 0
        self.size = 0

    def add(self, start: int, audit: Audit) -> None:
        """One result."""
        text = _encode(audit.fields).decode() if audit.fields else None
        row = (start, audit.row.get("id"), audit.row.get("tag"), audit.profile, text)
        columns: tuple[MutableSequence[Any], ...] = self.rows
        for column, value in zip(columns, row, strict=True):
            column.append(value)
        if audit.failed or audit.parse_error or audit.outcome is not None:
            error = audit.error[:_MAX_ERROR_CHARACTERS] if audit.error is not None else None
            self.odd.append(
                OddResult(start, audit.profile, audit.failed, audit.parse_error, audit.outcome, error)
            )

    def add_error(self, start: int, profile: str | None, error: str) -> None:
        """What an error says. The row, which has no fields, is added by the reader."""
        text = error[:_MAX_ERROR_CHARACTERS]
        self.odd.append(OddResult(start, profile, failed=True, parse_error=False, outcome=None, error=text))

    def add_line(self, start: int, raw: bytes, key_field: str | None) -> None:
        """A line by all the rules."""
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


def read_blocks(path: Path, key_field: str | None = None, *, named: bool = True) -> Iterator[ResultBlock]:
    """The file in blocks of some megabytes. A line that cannot be read costs that line only."""
    offset, block, shapes = 0, ResultBlock(named=named), [_take_flat, _take_viewed]
    with path.open("rb", buffering=_READ_BYTES) as file:
        while raws := file.readlines(_READ_BYTES):
            starts = list(accumulate(map(len, raws), initial=offset))
            offset = starts.pop()
            others = shapes[0](block, zip(starts, raws, strict=True))
            rest = shapes[1](block, others)
            if len(others) - len(rest) > len(raws) // 2:
                shapes.reverse()  # most files have one shape: it is tried first from now on
            for start, raw in rest:
                block.add_line(start, raw, key_field)
            block.size += offset - starts[0]
            if block.size >= _BLOCK_BYTES:
                yield block
                block = ResultBlock(named=named)
    yield block


def line_at(path: Path, start: int) -> dict[str, Any] | list[Any]:
    """The object or pair in a line that was read before. Raises ValueError if it stands there no longer."""
    with path.open("rb") as file:
        file.seek(start)
        value = read_json(_line_body(file.readline(), start))
    if not isinstance(value, (dict, list)):
        raise ValueError("no object")  # noqa: TRY004
    return value


def name_text(value: Any) -> str | None:
    """An id or a tag as text."""
    return value if value is None or isinstance(value, str) else _encode(value).decode()


def _line_body(raw: bytes, start: int) -> bytes:
    return body(raw, 1 if start == 0 else 2)


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
    """A number of at least 0 as a float."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    try:
        return float(value) if value >= 0 else None
    except OverflowError:
        return None


# The two clean shapes. Keys that must not be there are `UnsetType`: a line that has them fails to decode.


class _FlatStats(Struct, gc=False):
    status: Literal["OK", "ERROR"]
    error: str | None = None


class _FlatLine(Struct, gc=False, kw_only=True):
    """What decides about a flat line, in the order of most files."""

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
    """What decides about a line in the view's wrapper. An id or a tag beside `input` needs the rules."""

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
    """A result that lies open: an object without a `result` that might be one more wrapper."""

    result: UnsetType = UNSET


_decode_named_flat: Callable[[bytes], _FlatLine] = msgspec.json.Decoder(_NamedFlatLine).decode
_decode_flat = msgspec.json.Decoder(_FlatLine).decode
_decode_viewed = msgspec.json.Decoder(_ViewLine).decode
_check_plain = msgspec.json.Decoder(_PlainResult).decode
_NOT_CLEAN = (msgspec.DecodeError, UnicodeError, RecursionError)
_RawLine = tuple[int, bytes]


def _take_flat(block: ResultBlock, lines: Iterable[_RawLine]) -> list[_RawLine]:
    """Take the results with a clean `hop_result`; return all other lines."""
    others = []
    starts, ids, tags, profiles, texts = block.rows
    decode = _decode_named_flat if block.named else _decode_flat
    for start, raw in lines:
        try:
            line = decode(raw)
            text, stats = line.hop_result, line.hop_stats
            if stats.status == "OK":
                _check_plain(text or "")
            else:
                text = None
                block.add_error(start, line.profile, stats.error or NO_MESSAGE)
        except _NOT_CLEAN:
            others.append((start, raw))
            continue
        starts.append(start)
        ids.append(line.id)
        tags.append(line.tag)
        profiles.append(line.profile)
        texts.append(text)
    return others


def _take_viewed(block: ResultBlock, lines: Iterable[_RawLine]) -> list[_RawLine]:
    """Take the results in the view's wrapper, where an error wins; return all other lines."""
    others = []
    starts, ids, tags, profiles, texts = block.rows
    for start, raw in lines:
        try:
            line = _decode_viewed(raw)
            text, row = line.result, line.input
            if line.error:
                text = None
                block.add_error(start, line.profile, line.error)
            else:
                _check_plain(text or "")
        except _NOT_CLEAN:
            others.append((start, raw))
            continue
        starts.append(start)
        ids.append(row.id)
        tags.append(row.tag)
        profiles.append(line.profile)
        texts.append(text)
    return others
