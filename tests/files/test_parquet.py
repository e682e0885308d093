"""Reading of Parquet files: names, time zones, and files that are too large or damaged."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from random import Random
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

from assay.core.errors import InputError
from assay.files.parquet import read_parquet, refuse_large_groups
from assay.files.read import BY_PEOPLE

MOMENT = datetime(2020, 9, 13, 12, 26, 40, 123456, UTC)
ZONED = pa.timestamp("us", "UTC")


def write(folder: Path, table: Any) -> Path:
    path = folder / "rows.parquet"
    parquet.write_table(table, path)
    return path


@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_a_timestamp_with_a_zone_is_a_moment_in_utc(tmp_path: Path, unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """In every unit of Parquet, and wherever the computer is."""
    monkeypatch.setenv("TZ", "America/New_York")
    moments = [MOMENT.replace(microsecond=0), None]
    table = pa.table({'the "when"': pa.array(moments, pa.timestamp(unit, "UTC")), "n": [1, 2]})
    rows = list(read_parquet(write(tmp_path, table)))
    assert rows == table.to_pylist()
    assert rows[0]['the "when"'].utcoffset() == timedelta(0)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.list_(ZONED), [[MOMENT, None], [], None]),
        (pa.list_(pa.list_(ZONED)), [[[MOMENT], []], [None], None]),
        (pa.struct([("a b", ZONED), ("c", pa.string())]), [{"a b": MOMENT, "c": "x"}, None]),
        (
            pa.struct([("a", pa.list_(pa.struct([('"', ZONED)])))]),
            [{"a": [{'"': MOMENT}, None]}, {"a": None}],
        ),
        (pa.struct([("plain", pa.timestamp("us")), ("zoned", ZONED)]), [{"plain": None, "zoned": MOMENT}]),
    ],
)
def test_timestamps_inside_of_lists_and_structs_have_their_zone(tmp_path: Path, kind: Any, values: list[Any]) -> None:
    table = pa.table({"value": pa.array(values, kind)})
    assert [row["value"] for row in read_parquet(write(tmp_path, table))] == values


def test_timestamps_inside_of_maps_have_their_zone(tmp_path: Path) -> None:
    table = pa.table(
        {
            "by name": pa.array([[("a", MOMENT)], None], pa.map_(pa.string(), ZONED)),
            "by moment": pa.array([[(MOMENT, 1)], []], pa.map_(ZONED, pa.int64())),
        }
    )
    assert list(read_parquet(write(tmp_path, table))) == [
        {"by name": {"a": MOMENT}, "by moment": {MOMENT: 1}},
        {"by name": None, "by moment": {}},
    ]


def test_timestamps_without_a_zone_get_none(tmp_path: Path) -> None:
    plain = MOMENT.replace(tzinfo=None)
    assert list(read_parquet(write(tmp_path, pa.table({"a": [plain], "b": [[plain]]})))) == [{"a": plain, "b": [plain]}]


def test_a_moment_that_python_cannot_hold_is_a_text(tmp_path: Path) -> None:
    far = 600_000_000_000  # seconds: the year 20983
    table = pa.table({"a": pa.array([far], pa.timestamp("s", "UTC"))})
    assert list(read_parquet(write(tmp_path, table))) == [{"a": "20983-03-30 10:40:00+00:00"}]


def test_names_of_folders_and_files_have_no_meaning(tmp_path: Path) -> None:
    """No pattern, and no column `k`."""
    folder = tmp_path / "k=1[x]*"
    folder.mkdir()
    path = write(folder, pa.table({"a": [1, 2]}))
    assert list(read_parquet(path)) == [{"a": 1}, {"a": 2}]


def test_rows_of_many_batches_are_read_in_order(tmp_path: Path) -> None:
    path = write(tmp_path, pa.table({"a": range(2500)}))
    assert [row["a"] for row in read_parquet(path)] == list(range(2500))


def test_a_file_that_is_not_parquet_is_named_with_the_reason_in_one_line(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    path.write_bytes(b"nonsense")
    with pytest.raises(InputError) as caught:
        list(read_parquet(path))
    assert str(caught.value).startswith(f"{path}: cannot be read as Parquet: ")
    assert "\n" not in str(caught.value)


def test_a_file_that_unpacks_to_too_much_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """By the sizes that its own metadata has. Here a thousandth of the real bound."""
    path = tmp_path / "rows.parquet"
    with duckdb.connect() as database:
        query = f"copy (select repeat('0', 1000) || range as text from range(20000)) to '{path}' (compression zstd)"
        database.execute(query)
        assert path.stat().st_size < 1 << 20
        refuse_large_groups(database, path)
        with pytest.raises(
            InputError, match=r"rows\.parquet: a group of its rows has [\d,]+ bytes unpacked, more than"
        ):
            refuse_large_groups(database, path, BY_PEOPLE.document // 1000)


def _repeated(text: str, count: int) -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0] * count, pa.int32()), pa.array([text]))


# Each file has some kilobytes.
BOMBS: dict[str, tuple[Callable[[], Any], str]] = {
    "one text": (lambda: pa.array(["a" * 40_000_000]), r"40,000,\d+ bytes"),
    "rows": (lambda: pa.array(np.zeros(3_000_000, np.int8)), "3,000,000 rows"),
    "a repeated text": (lambda: _repeated("a" * 1_000_000, 1_000), "1,000,000,000 bytes of text"),
    "a repeated text in lists of lists": (
        lambda: pa.ListArray.from_arrays(
            [0, 500], pa.ListArray.from_arrays(range(0, 1_002, 2), _repeated("a" * 3_000_000, 1_000))
        ),
        r"more than 1,073,741,824 bytes of text at once",
    ),
    "a repeated text in a struct": (
        lambda: pa.StructArray.from_arrays([_repeated("a" * 1_000_000, 1_000)], ["b"]),
        "1,000,000,000 bytes of text",
    ),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_small_file_that_unpacks_to_far_more_is_refused(
    tmp_path: Path, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Here the bound of bytes is an eighth."""
    monkeypatch.setattr("assay.files.parquet._RATIO_FROM", 1 << 25)
    make, reason = BOMBS[name]
    path = tmp_path / "rows.parquet"
    parquet.write_table(pa.table({"a": make()}), path, compression="zstd", write_statistics=False)
    assert path.stat().st_size < 100_000
    with pytest.raises(InputError, match=f"rows.parquet: unpacks from [\\d,]+ bytes to {reason}, which is not read"):
        next(read_parquet(path))


def test_texts_that_repeat_are_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    values = {
        "a": _repeated("long " * 2_000, 2_000),
        "m": pa.array([[("k", "v")]] * 2_000, pa.map_(pa.string(), pa.string())),
    }
    parquet.write_table(pa.table(values), path)
    assert path.stat().st_size < 50_000
    rows = list(read_parquet(path))
    assert len(rows) == 2_000
    assert rows[-1] == {"a": "long " * 2_000, "m": {"k": "v"}}


@pytest.mark.parametrize("kind", [pa.string(), pa.list_(pa.string())])
def test_a_large_file_of_long_documents_is_read(tmp_path: Path, kind: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Together they have more than the bound, here a half, but no more than twenty times the bytes of the file."""
    monkeypatch.setattr("assay.files.parquet._MAX_BLOCK_BYTES", 1 << 29)
    path = tmp_path / "rows.parquet"
    with parquet.ParquetWriter(path, pa.schema({"a": kind}), compression="zstd") as writer:
        for first in range(0, 280, 20):
            # Eight times the same passage: the file has a sixteenth of the texts' bytes.
            texts = [Random(number).randbytes(130_000).hex() * 8 for number in range(first, first + 20)]
            values = pa.array(texts if kind == pa.string() else [[text] for text in texts], kind)
            writer.write_table(pa.table({"a": values}))
    assert path.stat().st_size < 50_000_000
    assert next(read_parquet(path))["a"]
