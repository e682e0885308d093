"""Reads Parquet files.

    for row in read_parquet(path):      # {"question": "Where?", "asked": datetime(2020, 1, 1, tzinfo=UTC)}
        ...

Timestamps of a column with a time zone are in UTC: Parquet stores the moment, and not the zone.
"""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from assay.core.bounds import MAX_DOCUMENT_BYTES
from assay.core.errors import InputError, Problem

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection
    from duckdb.sqltypes import DuckDBPyType

# Without this setting DuckDB reads folders named `key=value` as columns. `_pattern` keeps it from reading `*` in a name
# as a pattern.
_FROM_FILE = "from read_parquet(?, hive_partitioning = false)"


def read_parquet(path: Path) -> Iterator[dict[str, Any]]:
    """Yield the rows of a file, each a dict with a value for every column.

    Raises InputError for a file that is not Parquet, that is damaged, or that has too large groups of rows.
    """
    import duckdb  # takes 60 ms

    try:
        with duckdb.connect() as database:
            refuse_large_groups(database, path)
            database.execute("set TimeZone = 'UTC'")
            table = database.sql(f"select * {_FROM_FILE}", params=[_pattern(path)])
            columns = dict(zip(table.columns, table.types, strict=True))
            zoned = {name: zone for name, kind in columns.items() if (zone := _find_zone(kind))}
            casts = ", ".join(
                f"{_quote(name)}::{zone.plain} as {_quote(name)}" for name, zone in zoned.items()
            )
            query = f"select * {f'replace ({casts})' if zoned else ''} {_FROM_FILE}"
            cursor = database.execute(query, [_pattern(path)])
            while batch := cursor.fetchmany(1000):
                for values in batch:
                    row = dict(zip(columns, values, strict=True))
                    for name, zone in zoned.items():
                        row[name] = zone.add(row[name])
                    yield row
    except duckdb.Error as error:
        # The other lines of DuckDB's message are the query.
        reason = str(error).partition("\n")[0]
        raise InputError(Problem(str(path), f"cannot be read as Parquet: {reason}")) from None


def refuse_large_groups(database: DuckDBPyConnection, path: Path, most: int = MAX_DOCUMENT_BYTES) -> None:
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
