"""A replacement for `datasets.Dataset` with the methods that `process_docs` functions use.

It spares the installation of `datasets` (300 MB). Names, signatures and results are those of the real class;
tests compare them method by method. Rows are in a spool on disk: filter, select, shuffle and sort only create
a new list of row numbers, map writes a new spool. Memory use does not grow with the size of the rows.
"""

from __future__ import annotations

import math
import re
from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

import msgspec

from assay.suites.task.dataset.documents import Documents, SpooledDocuments, spool_documents, spool_rows

DatasetRow = dict[str, Any]
# The path in messages about rows that come from no file.
_NO_FILE = Path("rows")


class Dataset:
    """Rows of a spool in some order, with some of their columns.

    `order` lists row numbers of the spool. `columns` maps a column's name to its name in the spool.
    """

    def __init__(
        self,
        documents: SpooledDocuments,
        order: Sequence[int] | None = None,
        columns: dict[str, str] | None = None,
        split: str | None = None,
    ) -> None:
        if len(documents.spool) and not documents.facts.columns:
            documents.scan()
        stored = {name: name for name in documents.facts.columns}
        self._documents = documents
        self._order = range(len(documents.spool)) if order is None else order
        self._columns = stored if columns is None else columns
        self._as_stored = [*self._columns.items()] == [*stored.items()]
        self.split = split

    @classmethod
    def of(cls, documents: Documents) -> Dataset:
        """Return the documents of a split as a data set."""
        return cls(spool_documents(documents))

    @classmethod
    def from_list(cls, mapping: Iterable[DatasetRow], *_: Any, split: Any = None, **__: Any) -> Dataset:
        """Create a data set from rows. As in `datasets`, the columns are those of the first row."""
        rows = list(mapping)
        names = list(rows[0]) if rows else []
        return cls._from_rows(({name: row.get(name) for name in names} for row in rows), names, split)

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], *_: Any, split: Any = None, **__: Any) -> Dataset:
        """Create a data set from columns."""
        names = list(mapping)
        lengths = {name: len(values) for name, values in mapping.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(f"columns have different lengths: {lengths}")
        rows = (dict(zip(names, cells, strict=True)) for cells in zip(*mapping.values(), strict=True))
        return cls._from_rows(rows, names, split)

    @classmethod
    def from_generator(
        cls, generator: Callable[..., Iterable[DatasetRow]], gen_kwargs: DatasetRow | None = None, **_: Any
    ) -> Dataset:
        """Create a data set from the rows that a function yields."""
        return cls(spool_rows(generator(**(gen_kwargs or {})), _NO_FILE, " row {}", fill=True))

    @classmethod
    def from_pandas(cls, df: Any, **_: Any) -> Dataset:
        """Create a data set from the rows of a data frame."""
        return cls.from_list(df.to_dict("records"))

    @classmethod
    def _from_rows(cls, rows: Iterable[DatasetRow], names: list[str], split: Any = None) -> Dataset:
        """Create a data set from rows that all have these columns."""
        documents = spool_rows(rows, _NO_FILE, " row {}", fill=True)
        documents.scan()
        documents.facts.columns = names
        return cls(documents, split=split)

    def as_documents(self, path: Path, unit: str) -> SpooledDocuments:
        """Return the rows as documents. Messages name them by `path` and `unit`."""
        documents = self._documents
        # Without changes the spool is shared instead of copied.
        untouched = self._as_stored and self._order == range(len(documents.spool))
        if untouched and not documents.facts.changes:
            return SpooledDocuments(documents.spool, path, unit)
        return spool_rows(self, path, unit)

    # Reading

    def __len__(self) -> int:
        return len(self._order)

    @property
    def num_rows(self) -> int:
        """The number of rows."""
        return len(self)

    @property
    def num_columns(self) -> int:
        """The number of columns."""
        return len(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """The numbers of rows and columns."""
        return len(self), len(self._columns)

    @property
    def column_names(self) -> list[str]:
        """The names of the columns, in order."""
        return list(self._columns)

    @property
    def features(self) -> dict[str, str]:
        """The type of each column in one word. In `datasets` the values are objects instead."""
        kinds = self._documents.facts.kinds
        return {name: kinds.get(stored, "null") for name, stored in self._columns.items()}

    def __iter__(self) -> Iterator[DatasetRow]:
        return (self._row(number) for number in self._order)

    def _row(self, number: int) -> DatasetRow:
        row = self._documents.parse(self._documents.document(number))
        if self._as_stored:
            return row
        return {name: row[stored] for name, stored in self._columns.items()}

    @overload
    def __getitem__(self, key: int) -> DatasetRow: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: slice | Iterable[int]) -> dict[str, list[Any]]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            self._require([key])
            return [row[key] for row in self]
        if isinstance(key, (slice, Iterable)):
            numbers = self._order[key] if isinstance(key, slice) else [self._order[index] for index in key]
            rows = [self._row(number) for number in numbers]
            return {name: [row[name] for row in rows] for name in self._columns}
        if not -len(self) <= key < len(self):
            raise IndexError(f"there is no row {key}; there are {len(self)}")
        return self._row(self._order[key])

    def _require(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._columns:
                raise ValueError(f"there is no column {name!r}; there are {', '.join(self._columns)}")

    def to_list(self) -> list[DatasetRow]:
        """Return all rows."""
        return list(self)

    def to_dict(self) -> dict[str, list[Any]]:
        """Return all columns as lists."""
        return self[:]

    def unique(self, column: str) -> list[Any]:
        """Return the distinct values of a column, in the order of first occurrence."""
        return list(dict.fromkeys(self[column]))

    def iter(self, batch_size: int, *, drop_last_batch: bool = False) -> Iterator[dict[str, list[Any]]]:
        """Yield batches, each as lists by column."""
        for start in range(0, len(self), batch_size):
            if not drop_last_batch or start + batch_size <= len(self):
                yield self[start : start + batch_size]

    # Methods that return other rows

    def _with_order(self, order: Sequence[int]) -> Dataset:
        return Dataset(self._documents, order, self._columns, self.split)

    def select(self, indices: Iterable[int], **_: Any) -> Dataset:
        """Return the rows with these numbers, in this order."""
        numbers = list(indices)
        for number in numbers:
            if not 0 <= number < len(self):
                raise IndexError(f"there is no row {number}; there are {len(self)}")
        return self._with_order(array("Q", [self._order[number] for number in numbers]))

    def take(self, n: int) -> Dataset:
        """Return the first n rows."""
        return self._with_order(self._order[:n])

    def skip(self, n: int) -> Dataset:
        """Return all rows except the first n."""
        return self._with_order(self._order[n:])

    def shuffle(self, seed: int | None = None, generator: Any = None, **_: Any) -> Dataset:
        """Return the rows in random order: the same order as `datasets` for the same seed."""
        rng = _random_generator(seed) if generator is None else generator
        return self.select(rng.permutation(len(self)).tolist())

    def sort(
        self,
        column_names: str | list[str],
        reverse: bool | list[bool] = False,
        null_placement: str = "at_end",
        **_: Any,
    ) -> Dataset:
        """Sort by columns. Equal rows keep their order; `null_placement` is `at_end` or `at_start`."""
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        directions = [reverse] * len(names) if isinstance(reverse, bool) else list(reverse)
        order = list(range(len(self)))
        for name, backwards in reversed(list(zip(names, directions, strict=True))):
            values = self[name]
            # Reversing the sort must not move rows without a value to the other end.
            nulls_last = (null_placement == "at_end") != backwards
            keys = [((value is None) == nulls_last, 0 if value is None else value) for value in values]
            order.sort(key=keys.__getitem__, reverse=backwards)
        return self.select(order)

    def filter(self, function: Callable[..., Any] | None = None, *args: Any, **options: Any) -> Dataset:
        """Return the rows for which the function returns true."""
        call = MapOptions.of(args, options)
        function = function or bool
        order = array("Q")
        if call.batched:
            for start, stop in _batches(len(self), call.batch_size):
                answers = call.invoke(function, self[start:stop], list(range(start, stop)))
                for index, answer in zip(range(start, stop), answers, strict=True):
                    if answer:
                        order.append(self._order[index])
        else:
            for index, row in enumerate(self):
                if call.invoke(function, row, index):
                    order.append(self._order[index])
        return self._with_order(order)

    def map(self, function: Callable[..., Any], *args: Any, **options: Any) -> Dataset:
        """Merge the function's return value into each row."""
        rows = _map_rows(self, function, MapOptions.of(args, options))
        documents = spool_rows(rows, self._documents.files[0], self._documents.unit)
        documents.scan()
        _keep_column_types(documents, self.features)
        if not len(documents.spool):
            documents.facts.columns = self.column_names
        return Dataset(documents, split=self.split)

    def train_test_split(
        self,
        test_size: float | None = None,
        train_size: float | None = None,
        *,
        shuffle: bool = True,
        seed: int | None = None,
        **_: Any,
    ) -> dict[str, Dataset]:
        """Split into two parts. A float is a share of the rows, an int a number of rows."""
        train, test = _part_sizes(len(self), train_size, test_size)
        order = list(range(len(self)))
        if not shuffle:
            return {"train": self.select(order[:train]), "test": self.select(order[train : train + test])}
        # As in `datasets`, the test part comes first in the permutation.
        order = _random_generator(seed).permutation(len(self)).tolist()
        return {"train": self.select(order[test : test + train]), "test": self.select(order[:test])}

    # Methods that return other columns

    def _with_columns(self, columns: dict[str, str]) -> Dataset:
        return Dataset(self._documents, self._order, columns, self.split)

    def rename_column(self, original_column_name: str, new_column_name: str, **_: Any) -> Dataset:
        """Rename one column."""
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self, column_mapping: dict[str, str], **_: Any) -> Dataset:
        """Rename columns. Their order does not change."""
        self._require(column_mapping)
        renamed = {column_mapping.get(name, name): stored for name, stored in self._columns.items()}
        if len(renamed) < len(self._columns):
            raise ValueError(f"two columns would have one name: {column_mapping}")
        return self._with_columns(renamed)

    def remove_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """Return the data set without these columns."""
        removed = {column_names} if isinstance(column_names, str) else {*column_names}
        self._require(removed)
        return self._with_columns({name: stored for name, stored in self._columns.items() if name not in removed})

    def select_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """Return the data set with only these columns, in this order."""
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        self._require(names)
        return self._with_columns({name: self._columns[name] for name in names})

    def add_column(self, name: str, column: Sequence[Any], **_: Any) -> Dataset:
        """Add a column with one value per row."""
        if len(column) != len(self):
            raise ValueError(f"expected {len(self)} values for the column {name!r}, found {len(column)}")
        rows = ({**row, name: value} for row, value in zip(self, column, strict=True))
        return Dataset._from_rows(rows, [*self._columns, name], self.split)

    def add_item(self, item: DatasetRow, **_: Any) -> Dataset:
        """Add a row."""
        rows = ({name: row.get(name) for name in self._columns} for row in (*self, item))
        return Dataset._from_rows(rows, self.column_names, self.split)

    def flatten_indices(self, *_: Any, **__: Any) -> Dataset:
        """Return the data set unchanged. In `datasets` this makes reading faster after `select`."""
        return self

    def flatten(self, *_: Any, **__: Any) -> Dataset:
        """Replace each struct by one column per key, such as `answers.text`."""
        rows = [dict(_flat_items(row)) for row in self]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return Dataset._from_rows(rows, names, self.split)

    def __repr__(self) -> str:
        return f"Dataset({{\n    features: {self.column_names},\n    num_rows: {len(self)}\n}})"

    # Called for missing attributes only: a method of the real class that is not implemented here.
    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        names = ", ".join(sorted(name for name in dir(type(self)) if name[0] != "_"))
        raise AttributeError(f"assay's Dataset has no attribute {name!r}; it has {names}")


class DatasetDict(dict[str, Dataset]):
    """Data sets by split."""


def concatenate_datasets(dsets: list[Dataset], *_: Any, **__: Any) -> Dataset:
    """Return the rows of several data sets, one after the other. A missing column is filled with None."""
    names = list(dict.fromkeys(name for data in dsets for name in data.column_names))
    rows = ({name: row.get(name) for name in names} for data in dsets for row in data)
    return Dataset._from_rows(rows, names)  # noqa: SLF001 - it is a second constructor


# Positional parameters of the real `map` and `filter`, after the function.
_POSITIONAL = ("with_indices", "with_rank", "input_columns", "batched", "batch_size", "drop_last_batch")
# Options of the real class about processes, caches and files. They do not change the result.
_WITHOUT_EFFECT = frozenset(
    {"load_from_cache_file", "num_proc", "desc", "keep_in_memory", "cache_file_name", "cache_file_names"}
    | {"writer_batch_size", "new_fingerprint", "suffix_template", "features", "disable_nullable"}
    | {"try_original_type", "on_mixed_types", "with_rank", "drop_last_batch"}
)


class MapOptions(msgspec.Struct):
    """The options of `map` and `filter`, with the names of `datasets`."""

    with_indices: bool = False
    input_columns: str | list[str] | None = None
    batched: bool = False
    batch_size: int | None = 1000
    remove_columns: str | list[str] | None = None
    fn_kwargs: dict[str, Any] | None = None

    @classmethod
    def of(cls, args: tuple[Any, ...], options: dict[str, Any]) -> MapOptions:
        """Read the arguments of a call. Options without an effect on the result are ignored."""
        arguments = dict(zip(_POSITIONAL, args, strict=False)) | options
        fields = {name: value for name, value in arguments.items() if name in cls.__struct_fields__}
        for name in arguments:
            if name not in fields and name not in _WITHOUT_EFFECT:
                raise TypeError(f"got an unexpected keyword argument {name!r}")
        return cls(**fields)

    def invoke(self, function: Callable[..., Any], value: Any, index: Any) -> Any:
        """Call the user's function with one row, or with one batch as lists by column."""
        columns = [self.input_columns] if isinstance(self.input_columns, str) else self.input_columns
        arguments = [value] if columns is None else [value[name] for name in columns]
        if self.with_indices:
            arguments.append(index)
        return function(*arguments, **(self.fn_kwargs or {}))

    def merge(self, row: DatasetRow, answer: Any) -> DatasetRow:
        """Return a row (or a batch) updated with the function's return value."""
        if not isinstance(answer, Mapping):
            kind = type(answer).__name__
            raise TypeError(f"the function of map must return a mapping or None, it returned {kind}")
        removed = self.remove_columns or []
        if isinstance(removed, str):
            removed = [removed]
        remaining = {name: value for name, value in row.items() if name not in removed}
        # A function may change its row in place and return it. The removed columns in it must not come back.
        return remaining if answer is row else remaining | dict(answer)


def _map_rows(data: Dataset, function: Callable[..., Any], call: MapOptions) -> Iterator[DatasetRow]:
    """Yield the new rows. Old columns keep their order; new ones come after them."""
    names = data.column_names
    merged = _map_batches(data, function, call) if call.batched else _map_each(data, function, call)
    for row in merged:
        yield {name: row[name] for name in names if name in row} | row


def _map_each(data: Dataset, function: Callable[..., Any], call: MapOptions) -> Iterator[DatasetRow]:
    for index, row in enumerate(data):
        answer = call.invoke(function, row, index)
        # A function that returns None changes nothing, even if it changed its row in place. So the row is
        # read again.
        yield data[index] if answer is None else call.merge(row, answer)  # noqa: PLR1736


def _map_batches(data: Dataset, function: Callable[..., Any], call: MapOptions) -> Iterator[DatasetRow]:
    for start, stop in _batches(len(data), call.batch_size):
        batch = data[start:stop]
        answer = call.invoke(function, batch, list(range(start, stop)))
        columns = data[start:stop] if answer is None else call.merge(batch, answer)
        lengths = {name: len(values) for name, values in columns.items()}
        if len({*lengths.values()}) > 1:
            raise ValueError(
                f"columns of a batch have different lengths: {lengths}; "
                "list the columns that the function does not return in remove_columns"
            )
        for cells in zip(*columns.values(), strict=True):
            yield dict(zip(columns, cells, strict=True))


def _batches(total: int, size: int | None) -> Iterator[tuple[int, int]]:
    step = size if size and size > 0 else max(total, 1)
    return ((start, min(start + step, total)) for start in range(0, total, step))


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip() and "_" not in text


# Keys: the type before `map`, and the type after it. Value: whether a value can be cast back to the former.
_CAN_CAST: dict[str, dict[str, Callable[[Any], bool]]] = {
    "int": {
        "str": lambda text: re.fullmatch(r"-?\d+", text) is not None,
        "float": float.is_integer,
        "bool": lambda _: True,
    },
    "float": {"str": _is_float, "int": lambda _: True, "bool": lambda _: True},
    "bool": {"str": lambda text: text.lower() in ("true", "false", "1", "0"), "int": lambda _: True},
}


def _keep_column_types(documents: SpooledDocuments, kinds_before: dict[str, str]) -> None:
    """Cast each mapped column back to its former type if all values allow it, as `datasets` does.

    In a column of integers, "3" becomes 3.
    """
    kinds, changes = documents.facts.kinds, documents.facts.changes
    for name, kind_before in kinds_before.items():
        can_cast = _CAN_CAST.get(kind_before, {}).get(kinds.get(name, ""))
        if can_cast is None:
            continue
        values = (row[name] for row in documents.values())
        if all(value is None or can_cast(value) for value in values):
            changes[name] = kinds[name] = kind_before


def _random_generator(seed: int | None) -> Any:
    """Return a random generator. Without a seed it depends on numpy's global state, as in `datasets`."""
    import numpy as np

    if seed is None:
        # `datasets` takes its seed from the state of the Mersenne Twister, which has 624 words.
        state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
        seed = int(state["key"][state["pos"] % 624])
        np.random.random()  # noqa: NPY002 - advances the state, so that the next shuffle gives another order
    return np.random.default_rng(seed)


def _part_sizes(total: int, train: float | None, test: float | None) -> tuple[int, int]:
    """Return the sizes of both parts. A share is rounded up for the test part and down for the train part."""
    if train is None and test is None:
        test = 0.25  # the default of `datasets`, and of scikit-learn
    test_rows = math.ceil(test * total) if isinstance(test, float) else test
    train_rows = math.floor(train * total) if isinstance(train, float) else train
    if test_rows is None:
        assert train_rows is not None
        test_rows = total - train_rows
    if train_rows is None:
        train_rows = total - test_rows
    if min(test_rows, train_rows) < 0 or test_rows + train_rows > total:
        raise ValueError(f"{total} rows cannot be split into {train_rows} and {test_rows}")
    return train_rows, test_rows


def _flat_items(row: Mapping[str, Any], prefix: str = "") -> Iterable[tuple[str, Any]]:
    """Yield the values of nested structs by path: `a.b` for the key `b` of `a`."""
    for name, value in row.items():
        if isinstance(value, Mapping) and value:
            yield from _flat_items(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value
