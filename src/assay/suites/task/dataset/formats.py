"""Reads data files: JSON, CSV, text, Parquet and Arrow, also compressed.

A reader yields `(place, row)`: the number of the line or item in the file, and the row as a line of JSON.
Messages print the place with the format's `unit`. Rows and types are those of Hugging Face `datasets` for the
same file, because samples files contain and hash the documents.
"""

from __future__ import annotations

import bz2
import glob
import io
import json
import lzma
import re
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from itertools import islice
from math import isfinite
from pathlib import Path
from typing import IO, Any
from uuid import UUID

import msgspec
from msgspec import Struct

from assay.core.errors import InputError, MissingExtra, Problem
from assay.core.events import tell_if_slow
from assay.files.parquet import read_parquet
from assay.files.paths import can_exist
from assay.files.read import (
    BOM,
    BY_PEOPLE,
    DECODE_ERRORS,
    BrokenJson,
    decode,
    explain,
    not_utf8,
    read_lines,
    refuse_special_file,
    without_bom,
)

Rows = Iterator[tuple[int, bytes]]
LINE, ROW = ":{}", " row {}"
_encode = msgspec.json.Encoder().encode


def _open_gzip(path: Path) -> Any:
    import gzip  # few data files need it

    return gzip.open(path)


# Compressed files are recognised by their first bytes, because their names need not end in .gz.
_COMPRESSED: dict[bytes, Callable[[Path], Any]] = {
    b"\x1f\x8b": _open_gzip,
    b"BZh": bz2.open,
    b"\xfd7zXZ\x00": lzma.open,
}


# A compressed file may unfold to this many times its size, and any file to the bytes below. Text rarely reaches
# twenty times; an archive that is made to fill the memory has a thousand times and more.
_MAX_RATIO = 100
_UNFOLDED_BYTES = 1 << 25


def open_data(path: Path) -> IO[bytes]:
    """Open a file for reading bytes. A compressed file is decompressed.

    Raises InputError for a pipe or a device. Reading raises it if an archive unfolds to far more than its own size.
    """
    refuse_special_file(path)
    file = path.open("rb", buffering=1 << 18)
    start = file.peek(6)  # type: ignore[attr-defined]
    for magic, unpack in _COMPRESSED.items():
        if start.startswith(magic):
            file.close()
            return io.BufferedReader(_Unfolded(path, unpack(path)), 1 << 18)
    return file


class _Unfolded(io.RawIOBase):
    """The content of an archive. Counts what it unfolds to."""

    def __init__(self, path: Path, archive: IO[bytes]) -> None:
        self._path = path
        self._archive = archive
        self._rest = max(_UNFOLDED_BYTES, path.stat().st_size * _MAX_RATIO)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self._archive.read(len(buffer))
        self._rest -= len(data)
        if self._rest < 0:
            message = f"unfolds to more than {_MAX_RATIO} times its size; unpack it to a file if it is meant so"
            raise InputError(Problem(str(self._path), message))
        buffer[: len(data)] = data
        return len(data)

    def close(self) -> None:
        self._archive.close()
        super().close()


def _read_all(file: IO[bytes], path: Path) -> bytes:
    """Return the content of a file that is decoded as a whole."""
    if path.stat().st_size > BY_PEOPLE.document:
        message = f"has more than {BY_PEOPLE.document:,} bytes; write JSON lines, which are read one by one"
        raise InputError(Problem(str(path), message))
    return file.read()


@contextmanager
def open_checked(path: Path) -> Iterator[IO[bytes]]:
    """Open a file as `open_data` does. Raises InputError for an unreadable file or a damaged archive."""
    try:
        with open_data(path) as file:
            yield file
    except (EOFError, OSError, lzma.LZMAError, zlib.error) as error:
        raise InputError(Problem(str(path), f"cannot be read: {error}")) from None


def find_files(names: str | list[str], beside: Path) -> list[Path]:
    """Return files by name or pattern, from the working directory, else from the folder `beside`.

    Returns no file at all if one of the names has no match.
    """
    files: list[Path] = []
    for name in [names] if isinstance(names, str) else names:
        if not can_exist(name):
            return []
        for base in (Path(), beside):
            matches = [base / name] if (base / name).is_file() else glob_files(base, name)
            if matches:
                files += matches
                break
        else:
            return []
    return files


def glob_files(base: Path, pattern: str) -> list[Path]:
    """Return the files below a folder that match a pattern, sorted. Wildcards in `base` are taken literally."""
    full = str(Path(glob.escape(str(base))) / pattern)
    with tell_if_slow(lambda: f"still looking for files that match {pattern!r}. Ctrl-C stops"):
        return [path for path in map(Path, sorted(glob.glob(full, recursive=True))) if path.is_file()]  # noqa: PTH207


# Rows as JSON


class UnsupportedValue(ValueError):
    """A value without a JSON form, such as an image."""


_AS_TEXT = (datetime, date, time, timedelta, Decimal, UUID)
_AS_IS = frozenset({str, int, float, bool, type(None)})


def encode_row(row: Mapping[str, Any]) -> bytes:
    """Encode one row as a line of JSON."""
    return _encode(json_value(row))


def json_value(value: Any) -> Any:
    """Convert a value to JSON types: tuples become lists, numpy values numbers, times text."""
    kind = type(value)
    if kind in _AS_IS:
        return value
    if isinstance(value, (list, tuple, set, frozenset)):
        # Long lists of scalars, such as embeddings, are passed on without a copy.
        if kind is list and _AS_IS.issuperset(map(type, value)):
            return value
        return [json_value(item) for item in value]
    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, str):
                raise UnsupportedValue(f"a key is {key!r}, expected text")
        return {key: json_value(item) for key, item in value.items()}
    if isinstance(value, _AS_TEXT):
        return str(value)
    for scalar in (str, bool, int, float):
        if isinstance(value, scalar):
            return scalar(value)
    # Scalars and arrays of numpy, recognised without importing numpy.
    if hasattr(value, "tolist") and hasattr(value, "dtype"):
        return json_value(value.tolist())
    name = f"{type(value).__module__}.{type(value).__qualname__}".removeprefix("builtins.")
    raise UnsupportedValue(f"a value is of type {name}, expected text, numbers, lists or mappings")


# JSON

_SPACE = re.compile(r"[ \t\r\n]*")


def json_layout(path: Path, options: dict[str, Any]) -> str:
    """Return the layout of a JSON file, judged by its first line.

    `lines`: one row per line. `list`: one list of rows. `objects`: objects of several lines, one after the
    other. `field`: the rows are under a key that the option `field` names.
    """
    if options.get("field") is not None:
        return "field"
    # A list of all rows may be one line of any length, so its first character is looked at before the whole line.
    with open_checked(path) as file:
        start = file.read(1 << 16).removeprefix(BOM).lstrip()
    if start[:1] == b"[":
        return "list"
    if not start:
        return "lines"  # blank so far, and perhaps for millions of lines
    first, line_break, _ = start.partition(b"\n")
    first = first.strip() if line_break else next((raw for _, raw in _json_lines(path)), b"")
    return "objects" if first[:1] == b"{" and first[-1:] != b"}" else "lines"


def _json_unit(path: Path, options: dict[str, Any]) -> str:
    layout = json_layout(path, options)
    if layout == "field":
        return " $." + str(options["field"]).replace("{", "{{").replace("}", "}}") + "[{}]"
    return " $[{}]" if layout == "list" else LINE


def _json_rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    layout = json_layout(path, options)
    if layout == "lines":
        return _json_lines(path)
    if layout == "objects":
        return _json_objects(path, problems)
    if layout == "list":
        return _json_items(_read_json(path, list[msgspec.Raw], problems) or [])
    return _json_field(path, str(options["field"]), problems)


def _json_lines(path: Path) -> Rows:
    with open_checked(path) as file:
        for number, _, raw in read_lines(file, path):
            yield number, raw


def _json_items(items: list[msgspec.Raw]) -> Rows:
    """Yield the items of a list. A list of plain values becomes a column `text`, as in `datasets`."""
    is_plain = bool(items) and bytes(items[0])[:1] != b"{"
    for position, item in enumerate(items):
        yield position, _encode({"text": item}) if is_plain else bytes(item)


def _json_objects(path: Path, problems: list[Problem]) -> Rows:
    """Yield objects that span several lines. The place of an object is its first line."""
    with open_checked(path) as file:
        content = _read_all(file, path)
    try:
        text = content.decode("utf-8-sig")
        decode = json.JSONDecoder().raw_decode
        end, line = 0, 1
        while (start := _skip_space(text, end)) < len(text):
            line += text.count("\n", end, start)
            end = decode(text, start)[1]
            yield line, text[start:end].encode()
            line += text.count("\n", start, end)
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        problems.append(explain(content.removeprefix(BOM), error).problem(path))
    except ValueError as error:  # an integer of more than a few thousand digits
        problems.append(Problem(f"{path}:{line}", f"not usable: {error}"))
    except RecursionError as error:
        problems.append(Problem(f"{path}:{line}", explain(content, error).reason))


def _skip_space(text: str, start: int) -> int:
    match = _SPACE.match(text, start)
    return match.end() if match else start


def _json_field(path: Path, field: str, problems: list[Problem]) -> Rows:
    """Yield the rows under one key of the file's object: a list of rows, or an object with a list per column."""
    whole = _read_json(path, dict[str, msgspec.Raw], problems)
    if whole is None:
        return
    if field not in whole:
        names = ", ".join(map(repr, whole))
        problems.append(Problem(str(path), f"there is no field {field!r}; there are {names}"))
        return
    raw = bytes(whole[field])
    if raw[:1] == b"[":
        yield from _json_items(_decode_json(raw, list[msgspec.Raw], path, problems) or [])
        return
    try:
        # On one line, which is the same JSON: a message would count the lines of the field, not those of the file.
        value = decode(raw.replace(b"\n", b" "))
    except BrokenJson as error:
        problems.append(Problem(str(path), error.reason))
        return
    columns = value.values() if isinstance(value, dict) else ()
    are_lists = bool(columns) and all(isinstance(column, list) for column in columns)
    if not are_lists or len({len(column) for column in columns}) > 1:
        message = f"expected a list of rows or lists of one length under {field!r}"
        problems.append(Problem(f"{path} $.{field}", message))
        return
    for position, cells in enumerate(zip(*columns, strict=True)):
        yield position, _encode(dict(zip(value, cells, strict=True)))


def _read_json(path: Path, into: Any, problems: list[Problem]) -> Any:
    with open_checked(path) as file:
        content = _read_all(file, path)
    try:
        content = without_bom(content)
    except BrokenJson as error:
        raise InputError(error.problem(path)) from None
    return _decode_json(content, into, path, problems)


def _decode_json(content: bytes, into: Any, path: Path, problems: list[Problem]) -> Any:
    """Return the value, or None with a problem. The text inside of a `msgspec.Raw` is not checked yet."""
    try:
        return msgspec.json.decode(content, type=into)
    except DECODE_ERRORS as error:
        problems.append(explain(content, error).problem(path))
    return None


# Text


def _text_unit(path: Path, options: dict[str, Any]) -> str:
    by = str(options.get("sample_by", "line"))
    return LINE if by == "line" else f" {by} {{}}"


def _text_rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    """Yield one row per line, paragraph or file, with the column `text`."""
    by = options.get("sample_by", "line")
    with open_checked(path) as file:
        text = _decoded(file, path, options.get("encoding") or "utf-8")
        parts: Iterator[str]
        try:
            if by == "document":
                parts = iter([text.read()])
            elif by == "paragraph":
                parts = (part for part in text.read().split("\n\n") if part)
            elif options.get("keep_linebreaks"):
                parts = _text_lines(text, path)
            else:
                parts = (line.removesuffix("\n") for line in _text_lines(text, path))
            for number, part in enumerate(parts, 1):
                yield number, _encode({"text": part})
        except UnicodeDecodeError as error:
            raise InputError(Problem(str(path), _not_text(error, options.get("encoding")))) from None


def _decoded(file: IO[bytes], path: Path, encoding: str, newline: str | None = None) -> io.TextIOWrapper:
    """Return the text of a file. Raises InputError if Python has no such encoding."""
    try:
        return io.TextIOWrapper(file, encoding, newline=newline)
    except (LookupError, TypeError, ValueError) as error:
        raise InputError(Problem(str(path), f"dataset_kwargs.encoding: {error}")) from None


def _not_text(error: UnicodeDecodeError, encoding: str | None) -> str:
    """Return why the bytes of a text or CSV file are not text in the encoding that the task names."""
    if encoding:
        return f"not text in {encoding}, which dataset_kwargs.encoding names: {error}"
    return f"{not_utf8(error)}, or name its encoding in dataset_kwargs.encoding"


def _text_lines(text: io.TextIOWrapper, path: Path) -> Iterator[str]:
    """Yield the lines of a text. Raises InputError for a line without end."""
    number = 0
    while line := text.readline(BY_PEOPLE.line):
        number += 1
        if len(line) == BY_PEOPLE.line and not line.endswith("\n"):
            raise InputError(Problem(f"{path}:{number}", f"the line is longer than {BY_PEOPLE.line:,} characters"))
        yield line


# Parquet and Arrow


def _parquet_rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    try:
        for number, row in enumerate(read_parquet(path), 1):
            yield number, encode_row(row)
    except InputError as error:
        problems.extend(error.problems)
    except UnsupportedValue as error:
        problems.append(Problem(str(path), f"cannot be read as Parquet: {error}"))


def _arrow_rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    try:
        import pyarrow as pa
        from pyarrow import ipc
    except ImportError:
        raise MissingExtra(f"{path}: reading Arrow files", "hf") from None
    try:
        number = 0
        for batch in _arrow_batches(path, ipc):
            # Arrow trusts the offsets of a file. A wrong one reads outside of the buffer, and may end the process.
            batch.validate(full=True)
            for row in batch.to_pylist():
                number += 1
                yield number, encode_row(row)
    # Arrow raises OSError for a broken stream. The others come from values that Python cannot hold: a date after the
    # year 9999, a text that is not UTF-8, an unknown time zone.
    except (pa.ArrowException, UnsupportedValue, OSError, ValueError, OverflowError, LookupError) as error:
        problems.append(Problem(str(path), f"cannot be read as Arrow: {error}"))


def _arrow_batches(path: Path, ipc: Any) -> Iterator[Any]:
    """Yield the record batches. Files with the extension `.arrow` have Arrow's file format or its stream format."""
    with _ArrowFile(path) as file:
        if file.read(6) == b"ARROW1":
            reader = ipc.open_file(file)
            yield from map(reader.get_batch, range(reader.num_record_batches))
        else:
            file.seek(0)
            yield from ipc.open_stream(file)


class _ArrowFile(io.BufferedReader):
    """A file of which at most its own size is read at once. A broken Arrow file asks for any number of bytes."""

    def __init__(self, path: Path) -> None:
        super().__init__(io.FileIO(path))
        self._bytes = path.stat().st_size

    def read(self, size: int | None = -1, /) -> bytes:
        return super().read(size if size is None else min(size, self._bytes))


# CSV

# Texts that pandas reads as a missing value. `datasets` reads CSV with pandas.
_MISSING = frozenset({"", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "-NaN", "-nan"}) | {
    *("#N/A", "#N/A N/A", "#NA", "-1.#IND", "-1.#QNAN", "1.#IND", "1.#QNAN")
}
_BOOLEANS = {"True": True, "TRUE": True, "true": True, "False": False, "FALSE": False, "false": False}
_WHOLE = re.compile(r"\s*[+-]?\d+\s*", re.ASCII)
_NUMBER = re.compile(r"\s*[+-]?(\d+(?:\.\d*)?|\.\d+)([eE][+-]?\d+)?\s*", re.ASCII)
# The range of pandas' integer columns (uint64 and int64). A column with other integers is read as floats.
_MAX_WHOLE, _MIN_WHOLE = 2**64 - 1, -(2**63)


class CsvOptions(msgspec.Struct, frozen=True):
    """Options for reading CSV, with the names of pandas.read_csv."""

    sep: str = ","
    delimiter: str | None = None
    names: list[str] | None = None
    column_names: list[str] | None = None
    header: int | str | None = "infer"
    quotechar: str = '"'
    quoting: int = 0  # csv.QUOTE_MINIMAL
    escapechar: str | None = None
    doublequote: bool = True
    skipinitialspace: bool = False
    skiprows: int | None = None
    encoding: str | None = None
    na_values: str | list[str] | None = None
    keep_default_na: bool = True
    na_filter: bool = True

    @property
    def names_option(self) -> list[str] | None:
        """Column names given as an option instead of in the file."""
        return self.column_names or self.names

    @property
    def has_header(self) -> bool:
        """Whether the first line is a header. With `header: 0` and `names`, `names` replace the names in the header."""
        return self.header == 0 or (self.header == "infer" and self.names_option is None)

    @property
    def missing(self) -> frozenset[str]:
        """The texts that are read as a missing value."""
        if not self.na_filter:
            return frozenset()
        more = [self.na_values] if isinstance(self.na_values, str) else self.na_values or []
        return frozenset(more) | (_MISSING if self.keep_default_na else frozenset())


def _csv_rows(path: Path, options: dict[str, Any], problems: list[Problem]) -> Rows:
    """Read the file twice: first to infer the type of each column, as pandas does, then to yield the rows."""
    table = _CsvTable(path, msgspec.convert(options, CsvOptions))
    columns = table.read_columns(problems)
    for line, cells in table.rows():
        if len(cells) <= len(columns):
            row = dict.fromkeys(columns)
            for (name, column), cell in zip(columns.items(), cells, strict=False):
                row[name] = column.value(cell)
            yield line, _encode(row)


class _CsvTable:
    """One CSV file as lists of cells."""

    def __init__(self, path: Path, options: CsvOptions) -> None:
        self._path = path
        self._options = options

    def read_columns(self, problems: list[Problem]) -> dict[str, _CsvColumn]:
        """Infer the type of every column. A row with too few values is filled up, one with too many is a problem."""
        options = self._options
        first_record = next(self._records(), (0, []))[1]
        if options.names_option is not None:
            names = options.names_option
        elif options.has_header:
            names = _unique_names(first_record)
        else:
            names = [str(number) for number in range(len(first_record))]
        columns = {name: _CsvColumn(options.missing) for name in names}
        for line, cells in self.rows():
            if len(cells) > len(columns):
                message = f"expected {len(columns)} columns, found {len(cells)}"
                problems.append(Problem(f"{self._path}:{line}", message))
                continue
            for column, cell in zip(columns.values(), cells, strict=False):
                column.see(cell)
            for column in list(columns.values())[len(cells) :]:
                column.has_missing = True
        return columns

    def rows(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the rows below the header, with their line numbers."""
        records = self._records()
        if self._options.has_header:
            next(records, None)
        return records

    def _records(self) -> Iterator[tuple[int, list[str]]]:
        """Yield the records that are not blank, each with the number of its last line."""
        import csv

        options = self._options
        skipped = options.skiprows or 0
        # The default limit of 128 KiB per field is too small for documents.
        csv.field_size_limit(1 << 31)
        with open_checked(self._path) as file:
            text = _decoded(file, self._path, options.encoding or "utf-8-sig", newline="")
            lines = _CsvLines(_text_lines(text, self._path))
            start = 1
            try:
                for _ in islice(lines, skipped):
                    pass
                reader = csv.reader(
                    lines,
                    delimiter=options.delimiter or options.sep,
                    quotechar=options.quotechar,
                    quoting=options.quoting,  # type: ignore[arg-type]
                    escapechar=options.escapechar,
                    doublequote=options.doublequote,
                    skipinitialspace=options.skipinitialspace,
                )
                for cells in reader:
                    if lines.ended:
                        where = f"{self._path}:{start + skipped}"
                        raise InputError(Problem(where, "a quote is opened here and never closed"))
                    start = reader.line_num + 1
                    if cells and (len(cells) > 1 or not cells[0].isspace()):
                        yield reader.line_num + skipped, cells
            except UnicodeDecodeError as error:
                raise InputError(Problem(str(self._path), _not_text(error, options.encoding))) from None
            # TypeError and ValueError: an option that csv.reader refuses, such as a delimiter of two characters.
            except (csv.Error, TypeError, ValueError) as error:
                raise InputError(Problem(str(self._path), f"not CSV: {error}")) from None


class _CsvLines:
    """An iterator over lines that remembers whether it was read beyond its end.

    csv.reader does so before it returns a record only if a quote is still open at the end of the file.
    """

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self.ended = False

    def __iter__(self) -> _CsvLines:
        return self

    def __next__(self) -> str:
        for line in self._lines:
            return line
        self.ended = True
        raise StopIteration


def _unique_names(header: list[str]) -> list[str]:
    """Return column names as pandas does: an empty name becomes `Unnamed: 0`, a repeated one gets `.1`."""
    names: dict[str, None] = {}
    for number, text in enumerate(header):
        name = base = text or f"Unnamed: {number}"
        count = 0
        while name in names or (count and name in header):
            count += 1
            name = f"{base}.{count}"
        names[name] = None
    return list(names)


class _CsvColumn:
    """The type of one column: integers, floats or booleans if all cells allow it, else text.

    Integers become floats if a cell is missing, as in pandas.
    """

    def __init__(self, missing: frozenset[str]) -> None:
        self._parsers: list[Callable[[str], Any]] = [_parse_whole, _parse_number, _parse_boolean]
        self._missing = missing
        self._low = self._high = 0
        self._has_values = False
        self.has_missing = False

    def see(self, cell: str) -> None:
        """Exclude the types that a cell cannot have."""
        if cell in self._missing:
            self.has_missing = True
        elif self._parsers:
            self._has_values = True
            self._parsers = [parse for parse in self._parsers if _fits(parse, cell)]
            if self._parsers and self._parsers[0] is _parse_whole:
                number = int(cell)
                self._low, self._high = min(self._low, number), max(self._high, number)
                # Neither int64 nor uint64 holds both numbers. pandas then leaves the column as text.
                if self._low < 0 and self._high >= 2**63:
                    self._parsers = []

    def value(self, cell: str) -> Any:
        """Return the cell in the type of the column; None for a missing value."""
        if cell in self._missing:
            return None
        if not self._parsers or not self._has_values:
            return cell
        parse = self._parsers[0]
        return float(cell) if parse is _parse_whole and self.has_missing else parse(cell)


def _fits(parse: Callable[[str], Any], cell: str) -> bool:
    try:
        parse(cell)
    except ValueError:
        return False
    return True


def _parse_whole(cell: str) -> int:
    if not _WHOLE.fullmatch(cell) or not _MIN_WHOLE <= (number := int(cell)) <= _MAX_WHOLE:
        raise ValueError(cell)
    return number


def _parse_number(cell: str) -> float:
    if not _NUMBER.fullmatch(cell) or not isfinite(number := float(cell)):
        raise ValueError(cell)
    return number


def _parse_boolean(cell: str) -> bool:
    if cell not in _BOOLEANS:
        raise ValueError(cell)
    return _BOOLEANS[cell]


class DataFormat(Struct, frozen=True):
    """A file format: its reader, and the options of `datasets` that are implemented.

    `unit` returns how messages name a place in a file of this format: by line, or by row.
    """

    rows: Callable[[Path, dict[str, Any], list[Problem]], Rows]
    unit: Callable[[Path, dict[str, Any]], str]
    options: frozenset[str]


# The keys are the names of `datasets`, as in `dataset_path: json`.
FORMATS = {
    "json": DataFormat(_json_rows, _json_unit, frozenset({"field"})),
    "csv": DataFormat(_csv_rows, lambda *_: LINE, frozenset(CsvOptions.__struct_fields__)),
    "parquet": DataFormat(_parquet_rows, lambda *_: ROW, frozenset()),
    "arrow": DataFormat(_arrow_rows, lambda *_: ROW, frozenset()),
    "text": DataFormat(_text_rows, _text_unit, frozenset({"encoding", "keep_linebreaks", "sample_by"})),
}
