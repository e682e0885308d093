"""Rows of Parquet and Arrow files."""

from __future__ import annotations

import glob
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from assay.core.errors import MissingExtra, Problem
from assay.suites.task.data.plain import Unreadable, encode_row

Rows = Iterator[tuple[int, bytes]]


def parquet_rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    """Read in pieces by DuckDB, which has no opinion on the folder's name or on `*` in it."""
    import duckdb

    query = "select * from read_parquet(?, hive_partitioning = false)"
    try:
        with duckdb.connect() as database:
            cursor = database.execute(query, [glob.escape(str(path))])
            names = [column[0] for column in cursor.description or ()]
            number = 0
            while batch := cursor.fetchmany(1000):
                for row in batch:
                    number += 1
                    yield number, encode_row(dict(zip(names, row, strict=True)))
    except (duckdb.Error, Unreadable) as error:
        problems.append(Problem(str(path), f"cannot be read as Parquet: {error}"))


def arrow_rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    """A stream of batches or a file of them; both are named `.arrow`."""
    try:
        import pyarrow as pa
        from pyarrow import ipc
    except ImportError:
        raise MissingExtra(f"{path}: reading Arrow files", "hf") from None
    try:
        number = 0
        for batch in _batches(path, ipc):
            for row in batch.to_pylist():
                number += 1
                yield number, encode_row(row)
    except (pa.ArrowException, Unreadable) as error:
        problems.append(Problem(str(path), f"cannot be read as Arrow: {error}"))


def _batches(path: Path, ipc: Any) -> Iterator[Any]:
    with path.open("rb") as file:
        if file.read(6) == b"ARROW1":
            reader = ipc.open_file(file)
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            file.seek(0)
            yield from ipc.open_stream(file)
