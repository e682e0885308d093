"""Files are read with the rows and types of Hugging Face `datasets`; broken files are refused."""

from __future__ import annotations

import gzip
import json
import sys
from datetime import date, datetime
from pathlib import Path
from typing import Any

import duckdb
import pytest

from assay.core.errors import InputError, MissingExtra
from assay.suites.task.dataset.documents import Documents

from support.data_cases import FILES
from support.fuzz import bounded

GOLDEN = Path(__file__).parents[3] / "golden" / "datasets"
STORED = json.loads((GOLDEN / "files.json").read_text())


def look(kind: str, content: bytes, folder: Path, **options: Any) -> Documents:
    path = folder / "file"
    path.write_bytes(content)
    docs = Documents(kind, [path], options)
    docs.scan()
    return docs


@pytest.mark.parametrize("name", FILES)
def test_rows_are_those_of_datasets(name: str, tmp_path: Path) -> None:
    """The same rows, types and key order; also with the facts of an earlier scan."""
    file = FILES[name]
    docs = look(file.kind, file.content, tmp_path, **file.options)
    assert json.dumps(list(docs.values())) == json.dumps(STORED[name])
    again = Documents(file.kind, docs.files, file.options)
    again.recall(docs.facts)
    assert json.dumps(list(again.values())) == json.dumps(STORED[name])


def test_rows_of_plain_json_lines_are_skipped_without_parsing(tmp_path: Path) -> None:
    """If every line is a row of the same types, values are not converted and rows are found by line."""
    docs = look("json", b'{"a":1,"b":"x"}\n{"a":2,"b":"y"}\n', tmp_path)
    assert (docs.facts.changes, docs.facts.lines) == ({}, [2])
    assert [doc.where for doc in docs.rows(skip=lambda number: number == 0)] == [f"{tmp_path}/file:2"]


def test_rows_of_compressed_json_lines_are_skipped_without_parsing(tmp_path: Path) -> None:
    """A compressed file of lines is read like a plain one."""
    docs = look("json", gzip.compress(b'{"a":1}\n{"a":2}\n'), tmp_path)
    assert docs.facts.lines == [2]
    assert [docs.parse(doc) for doc in docs.rows(skip=lambda number: number == 0)] == [{"a": 2}]


@pytest.mark.parametrize(
    ("content", "values"),
    [
        (b'{"a":0.5}\n{"a":1%b}\n' % (b"0" * 400), [0.5, 10**400]),
        (b'{"a":1}\n{"a":"%b"}\n' % (b"[" * 5000), [1, "[" * 5000]),
        (b'{"a":"0001-01-01T00:00:00+14:00"}\n', ["0001-01-01T00:00:00+14:00"]),
    ],
    ids=["an integer that is no float", "a deep text in a mixed column", "a time before the first year"],
)
def test_values_that_have_no_type_of_a_column_stay_as_they_are(
    content: bytes, values: list[Any], tmp_path: Path
) -> None:
    docs = look("json", content, tmp_path)
    assert [doc["a"] for doc in docs.values()] == values


@pytest.mark.parametrize(
    ("content", "options", "places"),
    [
        (b'[{"a":1},{"a":2}]', {}, [" $[0]", " $[1]"]),
        (b'{\n"a":1}\n\n{\n"a":2}', {}, [":1", ":4"]),
        (b'{"d":[{"a":1}]}', {"field": "d"}, [" $.d[0]"]),
    ],
)
def test_messages_name_the_line_or_the_item(
    content: bytes, options: dict[str, Any], places: list[str], tmp_path: Path
) -> None:
    """The line in files of lines, else the item."""
    docs = look("json", content, tmp_path, **options)
    assert [doc.where.removeprefix(f"{tmp_path}/file") for doc in docs.rows()] == places


def test_the_rows_of_several_files_are_one_split(tmp_path: Path) -> None:
    """Numbers go on from file to file, and a float in one makes floats of all."""
    paths = [tmp_path / name for name in ("a.jsonl", "b.jsonl")]
    paths[0].write_text('{"a":1}\n')
    paths[1].write_text('{"b":2}\n{"a":0.5}\n')
    docs = Documents("json", paths)
    assert docs.scan().lines == [1, 2]
    assert [doc.number for doc in docs.rows()] == [0, 1, 2]
    assert [docs.parse(doc) for doc in docs.rows()] == [
        {"a": 1.0, "b": None},
        {"a": None, "b": 2},
        {"a": 0.5, "b": None},
    ]


def test_equal_rows_are_found_in_every_format(tmp_path: Path) -> None:
    """They are counted by the bytes of the rows."""
    assert look("csv", b"a\n1\n1\n2\n", tmp_path).facts.twins == 1


def test_parquet_is_read_with_its_types(tmp_path: Path) -> None:
    """Times are text; wildcards and `key=value` in a folder's name have no meaning."""
    folder = tmp_path / "k=1[x]"
    folder.mkdir()
    path = folder / "f.parquet"
    query = (
        "select 1::int a, 2.5 b, [1, 2] c, {'x': 'y'} d, null e, timestamp '2020-01-01 02:03:04' t, "
        "date '2020-01-01' u, true v, 9223372036854775808::ubigint w"
    )
    duckdb.execute(f"copy ({query}) to '{path}' (format parquet)")
    docs = Documents("parquet", [path])
    docs.scan()
    (row,) = docs.values()
    assert row == {
        "a": 1,
        "b": "2.5",
        "c": [1, 2],
        "d": {"x": "y"},
        "e": None,
        "t": str(datetime(2020, 1, 1, 2, 3, 4)),  # noqa: DTZ001 - Parquet's has no zone
        "u": str(date(2020, 1, 1)),
        "v": True,
        "w": 2**63,
    }


def test_arrow_streams_and_files_are_read(tmp_path: Path) -> None:
    """Both kinds of Arrow file give the same rows."""
    pa = pytest.importorskip("pyarrow", reason="Arrow files need the extra hf")
    table = pa.table({"a": [1, None], "s": [{"x": "y"}, None], "l": [["p"], []]})
    result = []
    for writer in (pa.ipc.new_stream, pa.ipc.new_file):
        path = tmp_path / "f.arrow"
        with writer(str(path), table.schema) as file:
            file.write_table(table, max_chunksize=1)
        docs = Documents("arrow", [path])
        docs.scan()
        result.append(list(docs.values()))
    assert result == [[{"a": 1, "s": {"x": "y"}, "l": ["p"]}, {"a": None, "s": None, "l": []}]] * 2


def test_parquet_and_arrow_have_equal_timestamps(tmp_path: Path) -> None:
    """With a zone and without one, in a list too."""
    pa = pytest.importorskip("pyarrow", reason="Arrow files need the extra hf")
    from pyarrow import parquet

    microseconds = [0, 1_600_000_000_123_456, None]
    zoned = pa.array(microseconds, pa.timestamp("us", "UTC"))
    table = pa.table(
        {
            "zoned": zoned,
            "milliseconds": pa.array([0, 1_600_000_000_123, None], pa.timestamp("ms", "UTC")),
            "plain": pa.array(microseconds, pa.timestamp("us")),
            "list": pa.ListArray.from_arrays([0, 2, 2, 3], zoned),
        }
    )
    parquet.write_table(table, tmp_path / "f.parquet")
    with pa.ipc.new_file(str(tmp_path / "f.arrow"), table.schema) as file:
        file.write_table(table)
    from_parquet, from_arrow = (
        Documents("parquet", [tmp_path / "f.parquet"]),
        Documents("arrow", [tmp_path / "f.arrow"]),
    )
    from_parquet.scan()
    from_arrow.scan()
    rows = list(from_parquet.values())
    assert rows == list(from_arrow.values())
    assert rows[1] == {
        "zoned": "2020-09-13 12:26:40.123456+00:00",
        "milliseconds": "2020-09-13 12:26:40.123000+00:00",
        "plain": "2020-09-13 12:26:40.123456",
        "list": [],
    }


BROKEN: list[tuple[str, bytes, dict[str, Any], str]] = [
    ("json", b'{"a":1}\n{"a":\n', {}, ":2: is not JSON: Input data was truncated"),
    ("json", b'{"a":1}\n[1]\n', {}, ":2: expected an object, found a list"),
    ("json", b"1\n2\n", {}, ":1: expected an object, found a number"),
    ("json", b'[{"a":1},2]', {}, " $[1]: expected an object, found a number"),
    ("json", b'[{"a":1}', {}, ": is not JSON: Input data was truncated"),
    ("json", b'{"a":\n1', {}, ":2: is not JSON: expecting ',' delimiter in line 2, column 2"),
    ("json", b'{"a":\n' + b"9" * 5000 + b"}", {}, ":1: not usable: Exceeds the limit (4300 digits)"),
    ("json", b'{\n"a": "\xff"\n}', {}, ":2: not UTF-8: byte 0xff"),
    ("json", b'{"a":1}', {"field": "d"}, ": there is no field 'd'; there are 'a'"),
    ("json", b'{"d":"\xff"}', {"field": "d"}, ": not UTF-8: byte 0xff"),
    ("json", b'{"d":["\xff"]}', {"field": "d"}, " $.d[0]: not UTF-8: byte 0xff"),
    ("json", b'{"d":5}', {"field": "d"}, " $.d: expected a list of rows or lists of one length under 'd'"),
    ("json", b'{"d":{"a":[1],"b":[]}}', {"field": "d"}, " $.d: expected a list of rows or lists"),
    ("json", gzip.compress(b'{"a":1}\n' * 99, mtime=0)[:-9], {}, ": cannot be read: Compressed file ended"),
    (
        "csv",
        gzip.compress(b"a\n1\n", mtime=0)[:10] + b"\xff" * 9,
        {},
        ": cannot be read: Error -3 while decomp",
    ),
    ("csv", b"a,b\n1,2,3\n", {}, ":2: expected 2 columns, found 3"),
    ("csv", b'a,b\n1,2\n"x,1\n2,3\n', {}, ":3: a quote is opened here and never closed"),
    ("csv", b"a\n\xe9\n", {}, ": not UTF-8: byte 0xe9, perhaps GBK, Latin-1"),
    ("text", b"a\n\xe9\n", {}, ": not UTF-8: byte 0xe9, perhaps GBK, Latin-1"),
    ("csv", "a\nb\n".encode("utf-16"), {}, ": this is UTF-16; save the file as UTF-8"),
    ("text", "a\nb\n".encode("utf-16"), {}, ": this is UTF-16; save the file as UTF-8"),
    (
        "json",
        json.dumps([{"a": "\u00e9"}]).encode("utf-16"),
        {},
        ":1: this is UTF-16; save the file as UTF-8",
    ),
    ("csv", b"a\n\xe9\n", {"encoding": "ascii"}, ": not text in ascii, which dataset_kwargs.encoding names"),
    ("csv", b"\xe9\na\n", {"skiprows": 1}, ": not UTF-8: byte 0xe9, perhaps GBK, Latin-1"),
    ("csv", b"a::b\n", {"sep": "::"}, ': not CSV: "delimiter" must be a 1-character string'),
    ("csv", b"a\n", {"encoding": "nope"}, ": dataset_kwargs.encoding: unknown encoding: nope"),
    ("text", b"a\n", {"encoding": "nope"}, ": dataset_kwargs.encoding: unknown encoding: nope"),
    ("parquet", b"nonsense", {}, ": cannot be read as Parquet:"),
]


@pytest.mark.parametrize(("kind", "content", "options", "message"), BROKEN)
def test_broken_files_are_refused(
    kind: str, content: bytes, options: dict[str, Any], message: str, tmp_path: Path
) -> None:
    """The message has the problem and its place in the file."""
    with pytest.raises(InputError) as caught:
        look(kind, content, tmp_path, **options)
    assert str(caught.value).startswith(f"{tmp_path}/file{message}")


def test_arrow_files_need_an_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where pyarrow cannot be imported, the message names the file and the command."""
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(MissingExtra, match=r"file: reading Arrow files needs .* pip install 'assay\[hf\]'"):
        look("arrow", b"ARROW1", tmp_path)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"nonsense", "metadata bytes"),
        (b"\xfe\xff\xff\xff" + b"\x00" * 8, "negative continuation token"),
        # The length of the first message: 2 GB, which must not be reserved for a file of 40 bytes.
        (b"\xff\xff\xff\xff\xff\xff\xff\x7f" + b"\x00" * 32, "metadata bytes"),
    ],
)
def test_broken_arrow_files_are_refused(content: bytes, message: str, tmp_path: Path) -> None:
    """Lengths in the file are not believed."""
    pytest.importorskip("pyarrow", reason="Arrow files need the extra hf")
    with bounded(), pytest.raises(InputError, match=f"file: cannot be read as Arrow: .*{message}"):
        look("arrow", content, tmp_path)


def test_values_of_arrow_files_that_python_cannot_hold_are_refused(tmp_path: Path) -> None:
    """A day in the far future, and a text that is not UTF-8."""
    pa = pytest.importorskip("pyarrow", reason="Arrow files need the extra hf")
    for array, change, message in (
        (pa.array([2**30], pa.date32()), (b"", b""), "days=1073741824"),
        (pa.array(["text"]), (b"text", b"te\xff\xfe"), "Invalid UTF8"),
    ):
        sink = pa.BufferOutputStream()
        table = pa.table({"a": array})
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        with pytest.raises(InputError, match=f"cannot be read as Arrow: .*{message}"):
            look("arrow", bytes(sink.getvalue()).replace(*change), tmp_path)


def test_more_lines_to_skip_than_a_table_has_end_at_its_end(tmp_path: Path) -> None:
    assert list(look("csv", b"a\n1\n", tmp_path, skiprows=10**15).values()) == []


def test_rows_with_a_thousand_different_keys_are_read(tmp_path: Path) -> None:
    """Every row then has every column."""
    content = b"".join(b'{"k%d":%d}\n' % (n, n) for n in range(1000))
    docs = look("json", content, tmp_path)
    assert len(docs.facts.columns) == 1000
    assert next(docs.values(1))["k999"] is None


def test_a_key_that_occurs_twice_in_a_row_is_a_warning(tmp_path: Path) -> None:
    """The last value is used, as JSON decoders do. Rows with null and with colons in texts are no such rows."""
    content = b"""{"q": "a: b", "a": null}
{"q": "one", "q": "two"}
{"deep": {"k": 1, "k": 2}, "q": "x"}
"""
    docs = look("json", content, tmp_path)
    assert [(warning.where.rpartition(":")[2], warning.message) for warning in docs.warnings] == [
        ("2", "q: duplicate key in one object; the last value is used"),
        ("3", "deep.k: duplicate key in one object; the last value is used"),
    ]
    assert [doc["q"] for doc in docs.values()] == ["a: b", "two", "x"]


def test_nan_in_a_row_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r":2: NaN is not JSON; write null or leave it out"):
        look("json", b'{"a": 1}\n{"a": NaN}\n', tmp_path)
