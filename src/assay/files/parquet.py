"""Reads Parquet files.

    for row in read_parquet(path):      # {"question": "Where?", "asked": datetime(2020, 1, 1, tzinfo=UTC)}
        ...

Timestamps of a column with a time zone are in UTC: Parquet stores the moment, and not the zone.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from assay.core.errors import InputError, Problem
from assay.files.read import BY_PEOPLE

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

# Without this setting DuckDB reads folders named `key=value` as columns. `_pattern` keeps it from reading `*` in a name
# as a pattern.
_FROM_FILE = "from read_parquet(?, hive_partitioning = false)"
_MAX_RATIO = 200
"""Unpacked bytes for each byte of the file, as for zip archives. Real data sets reach about `_REAL_RATIO`."""
_REAL_RATIO = 20
_RATIO_FROM = 1 << 28  # smaller contents may have any ratio: a few equal rows compress well
_MAX_ROWS_PER_BYTE = 8
_ROWS_FROM = 1_000_000  # fewer rows may have any size: a column of equal values takes no bytes at all
_MEMORY = 4_000_000_000
_BLOCK_ROWS = 2048  # DuckDB unpacks so many at once
_MAX_BLOCK_BYTES = 1 << 30


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, each a dict with a value for every column.

    Raises InputError for a file that is not Parquet, that is damaged, that has too large groups of rows, or that
    unpacks to far more than its size.
    """
    import duckdb  # takes 60 ms

    try:
        with duckdb.connect(config={"memory_limit": f"{_MEMORY}B"}) as database:
            refuse_large_groups(database, path)
            _refuse_bombs(database, path)
            database.execute("set TimeZone = 'UTC'")
            table = database.sql(f"select * {_FROM_FILE}", params=[_pattern(path)])
            columns = dict(zip(table.columns, table.types, strict=True))
            _refuse_repeated_texts(database, path, columns)
            zoned = {name: zone for name, kind in columns.items() if (zone := _find_zone(kind))}
            casts = ", ".join(f"{_quote(name)}::{zone.plain} as {_quote(name)}" for name, zone in zoned.items())
            query = f"select * {f'replace ({casts})' if zoned else ''} {_FROM_FILE}"
            cursor = database.execute(query, [_pattern(path)])
            # One at a time, which is as fast: a thousand rows of a megabyte each would fill the memory.
            while (values := cursor.fetchone()) is not None:
                row = dict(zip(columns, values, strict=True))
                for name, zone in zoned.items():
                    row[name] = zone.add(row[name])
                yield row
    except duckdb.Error as error:
        # The other lines of DuckDB's message are the query.
        reason = str(error).partition("\n")[0]
        raise InputError(Problem(str(path), f"cannot be read as Parquet: {reason}")) from None


def refuse_large_groups(database: DuckDBPyConnection, path: Path, most: int = BY_PEOPLE.document) -> None:
    """Raise InputError if a group of rows, which is unpacked at once, would take more than `most` bytes.

    The file itself says its sizes. Values that it repeats by number (a dictionary) count once, so this is no bound of
    the rows that are read from it.
    """
    query = """select max(size) from (
        select sum(total_uncompressed_size) as size from parquet_metadata(?) group by row_group_id)"""
    ((size,),) = database.execute(query, [_pattern(path)]).fetchall()
    if size is not None and size > most:
        message = f"a group of its rows has {int(size):,} bytes unpacked, more than {most:,}; write smaller row groups"
        raise InputError(Problem(str(path), message))


def _refuse_bombs(database: DuckDBPyConnection, path: Path) -> None:
    """Raise InputError if a small file says that it has very many rows or bytes. Reading them would not end."""
    size = path.stat().st_size
    query = "select coalesce(sum(total_uncompressed_size), 0) from parquet_metadata(?)"
    ((unpacked,),) = database.execute(query, [_pattern(path)]).fetchall()
    ((rows,),) = database.execute("select num_rows from parquet_file_metadata(?)", [_pattern(path)]).fetchall()
    if unpacked > _RATIO_FROM and unpacked > _MAX_RATIO * size:
        raise InputError(_bomb(path, f"{int(unpacked):,} bytes"))
    if rows > _ROWS_FROM and rows > _MAX_ROWS_PER_BYTE * size:
        raise InputError(_bomb(path, f"{rows:,} rows"))


def _bomb(path: Path, what: str) -> Problem:
    return Problem(str(path), f"unpacks from {path.stat().st_size:,} bytes to {what}, which is not read")


def _refuse_repeated_texts(database: DuckDBPyConnection, path: Path, columns: Mapping[str, DuckDBPyType]) -> None:
    """Raise InputError if texts that the file has once, and repeats by number, unpack to far too much."""
    import duckdb

    query = """select count(*) from parquet_metadata(?)
        where encodings like '%DICTIONARY%' and num_values * total_uncompressed_size > ?"""
    ((suspicious,),) = database.execute(query, [_pattern(path), _RATIO_FROM]).fetchall()
    sizes = [size for name, kind in columns.items() if (size := _text_size(_quote(name), kind))]
    if not suspicious or not sizes:
        return
    rows = "from read_parquet(?, hive_partitioning = false, file_row_number = true)"
    blocks = f"select sum({' + '.join(sizes)}) as size {rows} group by file_row_number // {_BLOCK_ROWS}"
    query = f"select max(size), sum(size) from ({blocks})"  # noqa: S608 - of types, and of names in quotes
    file_size = path.stat().st_size
    # A large file may have as many bytes in a few long documents.
    most = max(_MAX_BLOCK_BYTES, _REAL_RATIO * file_size)
    # DuckDB copies the texts of lists when it reads them.
    database.execute(f"set memory_limit = '{min(most, _MEMORY)}B'")
    try:
        ((block, total),) = database.execute(query, [_pattern(path)]).fetchall()
    except duckdb.OutOfMemoryException:
        raise InputError(_bomb(path, f"more than {min(most, _MEMORY):,} bytes of text at once")) from None
    database.execute(f"set memory_limit = '{_MEMORY}B'")
    if total > max(_RATIO_FROM, _MAX_RATIO * file_size) or block > most:
        raise InputError(_bomb(path, f"{int(total):,} bytes of text"))


def _text_size(value: str, kind: DuckDBPyType) -> str:
    """Return the SQL expression for the bytes of all texts in a value, or an empty text if its type has none."""
    if function := {"VARCHAR": "strlen", "BLOB": "octet_length"}.get(str(kind)):
        return f"coalesce({function}({value}), 0)"
    if kind.id not in ("list", "map", "struct"):
        return ""
    children = cast("list[tuple[str, DuckDBPyType]]", kind.children)
    if kind.id == "struct":
        sizes = [_text_size(f"{value}.{_quote(name)}", child) for name, child in children]
    elif kind.id == "list":
        sizes = [_list_size(value, children[0][1])]
    else:
        lists = {"key": f"map_keys({value})", "value": f"map_values({value})"}
        sizes = [_list_size(lists[name], child) for name, child in children]
    return " + ".join(filter(None, sizes))


def _list_size(value: str, kind: DuckDBPyType) -> str:
    size = _text_size("item", kind)
    return f"coalesce(list_sum(list_transform({value}, lambda item: {size})), 0)" if size else ""


def _pattern(path: Path) -> str:
    return glob.escape(str(path))


# Time zones
#
# DuckDB needs the package pytz to return a timestamp with a zone. The query therefore casts it to one without a zone,
# and Python's own UTC is added afterwards.


class _Zone(NamedTuple):
    """How a value with zones in it is read."""

    plain: str
    """The SQL type of the value without the zones."""
    add: Callable[[Any], Any]
    """Returns the value with the zones."""


_PLAIN = {"TIMESTAMP WITH TIME ZONE": "TIMESTAMP", "TIMESTAMPTZ_NS": "TIMESTAMP_NS"}


def _find_zone(kind: DuckDBPyType) -> _Zone | None:
    """Return how a column of this type is read, or None if no timestamp in it has a zone."""
    if plain := _PLAIN.get(str(kind)):
        return _Zone(plain, _add_utc)
    if kind.id not in ("list", "map", "struct"):
        return None
    children = cast("list[tuple[str, DuckDBPyType]]", kind.children)
    zones = {name: zone for name, child in children if (zone := _find_zone(child))}
    if not zones:
        return None
    plains = {name: zones[name].plain if name in zones else str(child) for name, child in children}
    if kind.id == "list":
        (item,) = zones.values()
        return _Zone(f"{item.plain}[]", lambda items: items and [item.add(each) for each in items])
    adders = {name: zone.add for name, zone in zones.items()}
    if kind.id == "map":
        add_key, add_value = adders.get("key", _keep), adders.get("value", _keep)
        return _Zone(
            f"MAP({plains['key']}, {plains['value']})",
            lambda pairs: pairs and {add_key(key): add_value(value) for key, value in pairs.items()},
        )
    fields = ", ".join(f"{_quote(name)} {plain}" for name, plain in plains.items())
    return _Zone(
        f"STRUCT({fields})",
        lambda fields: fields and {name: adders.get(name, _keep)(value) for name, value in fields.items()},
    )


def _add_utc(value: Any) -> Any:
    # DuckDB returns a text for a moment that Python cannot hold, such as one in the year 20000.
    if isinstance(value, str):
        return f"{value}+00:00"
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) else value


def _keep(value: Any) -> Any:
    return value


def _quote(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
