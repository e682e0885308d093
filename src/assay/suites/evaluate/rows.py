"""The rows of `assay.evaluate`: a list, an iterator, a file or a DataFrame. All rows are read before the first call.

Each row is converted to JSON and split in two: `inputs`, which the evaluated function or prompt gets, and `gold`, which
only scorers get. Dates and UUIDs become strings, numpy scalars become numbers, and NaN becomes null, because pandas
writes a missing value as NaN. Any other value without a JSON form is an error that names its row and column.
"""

from __future__ import annotations

import csv
import math
import os
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from assay.core.errors import InputError, Problem, UsageError, similar_file, unknown, unreadable
from assay.core.row_keys import RepeatedKeys, UniqueKeys, row_key
from assay.core.suite import Row
from assay.files.json_objects import read_objects
from assay.files.parquet import read_parquet

_encode = msgspec.json.Encoder().encode
_encode_sorted = msgspec.json.Encoder(order="sorted").encode
_decode = msgspec.json.decode

# A mistake in the data usually repeats in every row. Ten messages are enough to see it.
_MAX_PROBLEMS = 10

# Usual names for the column with the question. Used if the user names no prompt, or no question for the judge.
QUESTION_COLUMNS = ("prompt", "question", "input")


class DataFrame(Protocol):
    """A table of pandas, polars or Arrow."""

    @property
    def columns(self) -> Any:
        """The columns."""
        ...

    def __len__(self) -> int: ...


SampleSource = Iterable[Mapping[str, Any]] | str | os.PathLike[str] | DataFrame
"""The types that `assay.evaluate` accepts as rows."""


def read_rows(source: SampleSource) -> tuple[list[dict[str, Any]], str]:
    """Return all rows as JSON objects, and their origin for messages: a path, or "rows".

    Raises InputError for values without a JSON form.
    """
    if isinstance(source, (str, os.PathLike)):
        path = Path(source)
        return _checked(_from_file(path), str(path)), str(path)
    frame = _from_frame(source)
    if frame is not None:
        return _checked(frame, "rows"), "rows"
    if isinstance(source, Mapping) or not isinstance(source, Iterable):
        raise UsageError(f"rows must be a list of dicts, a file or a DataFrame, not {type(source).__name__}")
    return _checked(source, "rows"), "rows"


def _from_frame(source: object) -> list[dict[str, Any]] | None:
    """Return the rows of a DataFrame, or None for any other object.

    It imports nothing: whoever passes a DataFrame has already imported its library.
    """
    if (pandas := sys.modules.get("pandas")) is not None and isinstance(source, pandas.DataFrame):
        _refuse_repeated(source.columns, "rows")
        return cast("list[dict[str, Any]]", source.to_dict(orient="records"))
    if (polars := sys.modules.get("polars")) is not None and isinstance(source, polars.DataFrame):
        return cast("list[dict[str, Any]]", source.to_dicts())
    if (arrow := sys.modules.get("pyarrow")) is not None and isinstance(source, arrow.Table):
        _refuse_repeated(source.column_names, "rows")
        return cast("list[dict[str, Any]]", source.to_pylist())
    return None


def _refuse_repeated(columns: Iterable[Any], where: str) -> None:
    """Raise InputError for a column name that occurs twice: a row would keep only one of the two values."""
    repeated = [column for column, count in Counter(columns).items() if count > 1]
    if repeated:
        raise InputError(Problem(where, f"two columns are called {repeated[0]!r}"))


def _from_file(path: Path) -> Iterable[Mapping[str, Any]]:
    suffix = path.suffix.lower()
    if suffix in (".csv", ".tsv"):
        try:
            with path.open(encoding="utf-8-sig", newline="") as file:
                reader = csv.DictReader(file, delimiter="\t" if suffix == ".tsv" else ",")
                _refuse_repeated(reader.fieldnames or (), str(path))
                return list(reader)
        except OSError as error:
            raise InputError(unreadable(path, error)) from None
        except (UnicodeDecodeError, csv.Error) as error:
            raise InputError(Problem(str(path), f"cannot be read as CSV: {error}")) from None
    if suffix == ".parquet":
        if not path.is_file():
            raise InputError(Problem(str(path), f"there is no such file{similar_file(path)}"))
        return read_parquet(path)
    if suffix not in (".jsonl", ".json", ".ndjson"):
        raise UsageError(f"{path}: rows are read from .jsonl, .json, .csv, .tsv and .parquet files")
    problems: list[Problem] = []
    rows = [record.value for record in read_objects(path, problems, thing="row")]
    if problems:
        raise InputError(problems)
    return rows


def _checked(rows: Iterable[Any], where: str) -> list[dict[str, Any]]:
    plain: list[dict[str, Any]] = []
    problems: list[Problem] = []
    for number, row in enumerate(rows, 1):
        place = f"{where} row {number}"
        if isinstance(row, msgspec.Struct) or (is_dataclass(row) and not isinstance(row, type)):
            row = msgspec.to_builtins(row, enc_hook=_to_json)  # noqa: PLW2901 - the same row in another form
        if not isinstance(row, Mapping):
            problems.append(Problem(place, f"a row is a dict, not {type(row).__name__}"))
        else:
            plain.append(_plain_row(row, place, problems))
        if len(problems) >= _MAX_PROBLEMS:
            break
    if problems:
        raise InputError(problems)
    if not plain:
        raise InputError(Problem(where, "there are no rows"))
    return plain


def _plain_row(row: Mapping[Any, Any], place: str, problems: list[Problem]) -> dict[str, Any]:
    values: dict[str, Any] = {}
    for column, value in row.items():
        if not isinstance(column, str):
            problems.append(Problem(place, f"column names are texts, not {column!r}"))
            continue
        try:
            if not column.isascii():
                column.encode()
            values[column] = _plain_value(value)
        except (TypeError, ValueError, RecursionError) as error:
            problems.append(Problem(f"{place} column {column!r}", str(error)))
    return values


def _plain_value(value: Any) -> Any:
    """Return the value as JSON. Raises TypeError or ValueError if it has no JSON form."""
    if type(value) is str:
        if not value.isascii():
            value.encode()  # raises for half of a surrogate pair, which is no text
        return value
    if value is None or type(value) in (int, bool):
        return value
    if type(value) is float:
        if math.isinf(value):
            raise ValueError("infinity is not a JSON value")
        return None if math.isnan(value) else value
    # Encoding and decoding finds every nested value that has no JSON form, at the speed of C.
    return _decode(encode_json(value))


def _to_json(value: Any) -> Any:
    """Convert a value that msgspec cannot encode: numpy scalars and arrays, pandas timestamps and missing values."""
    module = type(value).__module__.partition(".")[0]
    if module == "numpy":
        return value.tolist()
    if module == "pandas":
        # pandas.NaT and pandas.NA mean that a value is missing.
        text = str(value)
        if text in ("NaT", "<NA>"):
            return None
        # A Timestamp; a Period or an Interval has no such form.
        return value.isoformat() if hasattr(value, "isoformat") else text
    raise TypeError(f"a value of type {type(value).__name__} has no JSON form; turn it into a text or a number first")


encode_json = msgspec.json.Encoder(enc_hook=_to_json).encode


class EvaluateRows:
    """The rows of a run, stored as JSON bytes. `Row.data` is the number of the row.

    `inputs`, `gold` and `whole` decode a row anew for each caller, so that a user's function that changes its row
    cannot affect other functions.
    """

    def __init__(
        self, rows: Sequence[dict[str, Any]], gold: Sequence[str], set_name: str, target: Sequence[str] = ()
    ) -> None:
        self.gold_columns = tuple(gold)
        self.target_columns = tuple(target)
        """The gold columns that scorers get as `target`. The other gold columns are named by a single scorer."""
        self.columns = list(dict.fromkeys(column for row in rows for column in row))
        for column in self.gold_columns:
            if column not in self.columns:
                raise UsageError(unknown("column", column, self.columns))
        self.input_columns = [column for column in self.columns if column not in self.gold_columns]
        self._set = set_name
        self._lines = [_encode(row) for row in rows]
        self.count = len(rows)
        self.facts: dict[str, Any] = {"columns": self.columns, "gold": list(self.gold_columns)}
        # The key identifies the inputs. Gold and the order of columns do not change it.
        keys = [row_key(_encode_sorted(self._without_gold(row))) for row in rows]
        repeats = RepeatedKeys()
        for key in keys:
            repeats.add(key)
        unique_keys = UniqueKeys(repeats.keys())
        self._keys = [unique_keys.of(key) for key in keys]

    def _without_gold(self, row: dict[str, Any]) -> dict[str, Any]:
        return {column: value for column, value in row.items() if column not in self.gold_columns}

    def iterate(self, skip: Callable[[int], bool] | None = None) -> Iterator[Row[int]]:
        """Yield the rows in order, except those for whose number `skip` returns True."""
        for number, key in enumerate(self._keys):
            if skip is None or not skip(number):
                yield Row(number, key, self._set, number)

    def whole(self, number: int) -> dict[str, Any]:
        """Return a row with all its columns."""
        row: dict[str, Any] = _decode(self._lines[number])
        return row

    def inputs(self, number: int) -> dict[str, Any]:
        """Return a row without its gold columns."""
        return self._without_gold(self.whole(number))

    def gold(self, number: int) -> dict[str, Any]:
        """Return the gold columns of a row."""
        row = self.whole(number)
        return {column: row[column] for column in self.gold_columns if column in row}

    def all_gold(self) -> list[dict[str, Any]]:
        """Return the gold of every row. It is part of the identity of scores."""
        return [self.gold(number) for number in range(self.count)]

    def as_jsonl(self) -> bytes:
        """Return the rows as JSON lines."""
        return b"".join(line + b"\n" for line in self._lines)
