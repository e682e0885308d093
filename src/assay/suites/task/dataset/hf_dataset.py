"""A data set as task files know it: the parts of `datasets.Dataset` that `process_docs` functions use.

The rows stand in a spool. Filtering, selecting, shuffling and sorting list row numbers; mapping writes a new
spool. Memory stays flat, and the 300 MB of `datasets` need not be installed. Names, signatures and results
are those of the real class; tests compare them operation by operation.
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
_OWN_PATH = Path("rows")


class Dataset:
    """Rows in an order, with some of their columns, maybe under other names."""

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
        """The documents of a split as a data set."""
        return cls(spool_documents(documents))

    @classmethod
    def from_list(cls, mapping: Iterable[DatasetRow], *_: Any, split: Any = None, **__: Any) -> Dataset:
        """Make a data set of rows. The first row has all the columns."""
        rows = list(mapping)
        names = list(rows[0]) if rows else []
        return cls._from_rows(({name: row.get(name) for name in names} for row in rows), names, split)

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], *_: Any, split: Any = None, **__: Any) -> Dataset:
        """Make a data set of columns."""
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
        """Make a data set of the rows that a function yields."""
        return cls(spool_rows(generator(**(gen_kwargs or {})), _OWN_PATH, " row {}", fill=True))

    @classmethod
    def from_pandas(cls, df: Any, **_: Any) -> Dataset:
        """Make a data set of a data frame's rows."""
        return cls.from_list(df.to_dict("records"))

    @classmethod
    def _from_rows(cls, rows: Iterable[DatasetRow], names: list[str], split: Any = None) -> Dataset:
        """Make a data set of rows that all have these columns."""
        documents = spool_rows(rows, _OWN_PATH, " row {}", fill=True)
        documents.scan()
        documents.facts.columns = names
        return cls(documents, split=split)

    def as_documents(self, path: Path, unit: str) -> SpooledDocuments:
        """The rows as documents that messages name by `path` and `unit`."""
        documents = self._documents
        untouched = self._as_stored and self._order == range(len(documents.spool))
        if untouched and not documents.facts.changes:
            return SpooledDocuments(documents.spool, path, unit)
        return spool_rows(self, path, unit)

    # Reading

    def __len__(self) -> int:
        return len(self._order)

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(self)

    @property
    def num_columns(self) -> int:
        """How many columns there are."""
        return len(self._columns)

    @property
    def shape(self) -> tuple[int, int]:
        """Rows and columns."""
        return len(self), len(self._columns)

    @property
    def column_names(self) -> list[str]:
        """The columns in order."""
        return list(self._columns)

    @property
    def features(self) -> dict[str, str]:
        """The columns with their types in one word."""
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
            numbers = self._order[key] if isinstance(key, slice) else [self._order[place] for place in key]
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
        """All rows."""
        return list(self)

    def to_dict(self) -> dict[str, list[Any]]:
        """All columns."""
        return self[:]

    def unique(self, column: str) -> list[Any]:
        """The values of a column, each once, in the order in which they first occur."""
        return list(dict.fromkeys(self[column]))

    def iter(self, batch_size: int, *, drop_last_batch: bool = False) -> Iterator[dict[str, list[Any]]]:
        """Batches, each as lists by column."""
        for start in range(0, len(self), batch_size):
            if not drop_last_batch or start + batch_size <= len(self):
                yield self[start : start + batch_size]

    # Other rows

    def _with_order(self, order: Sequence[int]) -> Dataset:
        return Dataset(self._documents, order, self._columns, self.split)

    def select(self, indices: Iterable[int], **_: Any) -> Dataset:
        """Some rows by their numbers, in that order."""
        numbers = list(indices)
        for number in numbers:
            if not 0 <= number < len(self):
                raise IndexError(f"there is no row {number}; there are {len(self)}")
        return self._with_order(array("Q", [self._order[number] for number in numbers]))

    def take(self, n: int) -> Dataset:
        """The first n rows."""
        return self._with_order(self._order[:n])

    def skip(self, n: int) -> Dataset:
        """All rows but the first n."""
        return self._with_order(self._order[n:])

    def shuffle(self, seed: int | None = None, generator: Any = None, **_: Any) -> Dataset:
        """The order that `datasets` draws for the same seed."""
        rng = _random_generator(seed) if generator is None else generator
        return self.select(rng.permutation(len(self)).tolist())

    def sort(
        self,
        column_names: str | list[str],
        reverse: bool | list[bool] = False,
        null_placement: str = "at_end",
        **_: Any,
    ) -> Dataset:
        """Sort by columns. Equal rows keep their order; rows without a value come last, or first."""
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
        """The rows for which the function returns true."""
        call = MapOptions.of(args, options)
        function = function or bool
        kept = array("Q")
        if call.batched:
            for start, stop in _batches(len(self), call.batch_size):
                answers = call.invoke(function, self[start:stop], list(range(start, stop)))
                for place, answer in zip(range(start, stop), answers, strict=True):
                    if answer:
                        kept.append(self._order[place])
        else:
            for place, row in enumerate(self):
                if call.invoke(function, row, place):
                    kept.append(self._order[place])
        return self._with_order(kept)

    def map(self, function: Callable[..., Any], *args: Any, **options: Any) -> Dataset:
        """Merge what the function returns into each row."""
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
        """Split in two parts, by share or by number of rows."""
        train, test = _part_sizes(len(self), train_size, test_size)
        order = list(range(len(self)))
        if not shuffle:
            return {"train": self.select(order[:train]), "test": self.select(order[train : train + test])}
        order = _random_generator(seed).permutation(len(self)).tolist()
        return {"train": self.select(order[test : test + train]), "test": self.select(order[:test])}

    # Other columns

    def _with_columns(self, columns: dict[str, str]) -> Dataset:
        return Dataset(self._documents, self._order, columns, self.split)

    def rename_column(self, original_column_name: str, new_column_name: str, **_: Any) -> Dataset:
        """Give one column another name."""
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self, column_mapping: dict[str, str], **_: Any) -> Dataset:
        """Give columns other names. They keep their places."""
        self._require(column_mapping)
        renamed = {column_mapping.get(name, name): stored for name, stored in self._columns.items()}
        if len(renamed) < len(self._columns):
            raise ValueError(f"two columns would have one name: {column_mapping}")
        return self._with_columns(renamed)

    def remove_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """All columns but these."""
        removed = {column_names} if isinstance(column_names, str) else {*column_names}
        self._require(removed)
        return self._with_columns(
            {name: stored for name, stored in self._columns.items() if name not in removed}
        )

    def select_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """These columns, in this order."""
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        self._require(names)
        return self._with_columns({name: self._columns[name] for name in names})

    def add_column(self, name: str, column: Sequence[Any], **_: Any) -> Dataset:
        """Add a column with a value for each row."""
        if len(column) != len(self):
            raise ValueError(f"expected {len(self)} values for the column {name!r}, found {len(column)}")
        rows = ({**row, name: value} for row, value in zip(self, column, strict=True))
        return Dataset._from_rows(rows, [*self._columns, name], self.split)

    def add_item(self, item: DatasetRow, **_: Any) -> Dataset:
        """Add a row."""
        rows = ({name: row.get(name) for name in self._columns} for row in (*self, item))
        return Dataset._from_rows(rows, self.column_names, self.split)

    def flatten_indices(self, *_: Any, **__: Any) -> Dataset:
        """Nothing to do: rows are read where they stand."""
        return self

    def flatten(self, *_: Any, **__: Any) -> Dataset:
        """Make a column for each key of a struct, such as `answers.text`."""
        rows = [dict(_flat_items(row)) for row in self]
        names = list(dict.fromkeys(name for row in rows for name in row))
        return Dataset._from_rows(rows, names, self.split)

    def __repr__(self) -> str:
        return f"Dataset({{\n    features: {self.column_names},\n    num_rows: {len(self)}\n}})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        names = ", ".join(sorted(name for name in dir(type(self)) if name[0] != "_"))
        raise AttributeError(f"a data set has no {name!r} in assay; it has {names}")


class DatasetDict(dict[str, Dataset]):
    """Data sets by split."""


def concatenate_datasets(dsets: list[Dataset], *_: Any, **__: Any) -> Dataset:
    """The rows of several data sets, one after the other. A column that one of them lacks is null there."""
    names = list(dict.fromkeys(name for data in dsets for name in data.column_names))
    rows = ({name: row.get(name) for name in names} for data in dsets for row in data)
    return Dataset._from_rows(rows, names)  # noqa: SLF001 - it is a second constructor


# Positional parameters of `map` and `filter`, after the function.
_POSITIONAL = ("with_indices", "with_rank", "input_columns", "batched", "batch_size", "drop_last_batch")
# Options about processes, caches and files of the real class. They change no result.
_WITHOUT_EFFECT = frozenset(
    {"load_from_cache_file", "num_proc", "desc", "keep_in_memory", "cache_file_name", "cache_file_names"}
    | {"writer_batch_size", "new_fingerprint", "suffix_template", "features", "disable_nullable"}
    | {"try_original_type", "on_mixed_types", "with_rank", "drop_last_batch"}
)


class MapOptions(msgspec.Struct):
    """How the function of `map` or `filter` takes its rows. The names are those of `datasets`."""

    with_indices: bool = False
    input_columns: str | list[str] | None = None
    batched: bool = False
    batch_size: int | None = 1000
    remove_columns: str | list[str] | None = None
    fn_kwargs: dict[str, Any] | None = None

    @classmethod
    def of(cls, args: tuple[Any, ...], options: dict[str, Any]) -> MapOptions:
        """Read the arguments of a call. Those without effect on the result are left out."""
        arguments = dict(zip(_POSITIONAL, args, strict=False)) | options
        own = {name: value for name, value in arguments.items() if name in cls.__struct_fields__}
        for name in arguments:
            if name not in own and name not in _WITHOUT_EFFECT:
                raise TypeError(f"got an unexpected keyword argument {name!r}")
        return cls(**own)

    def invoke(self, function: Callable[..., Any], value: Any, index: Any) -> Any:
        """Call the function with one row, or one batch of them."""
        columns = [self.input_columns] if isinstance(self.input_columns, str) else self.input_columns
        arguments = [value] if columns is None else [value[name] for name in columns]
        if self.with_indices:
            arguments.append(index)
        return function(*arguments, **(self.fn_kwargs or {}))

    def merge(self, row: DatasetRow, answer: Any) -> DatasetRow:
        """A row, or a batch as lists by column, with what the function returned."""
        if not isinstance(answer, Mapping):
            kind = type(answer).__name__
            raise TypeError(f"the function of map must return a mapping or None, it returned {kind}")
        removed = self.remove_columns or []
        if isinstance(removed, str):
            removed = [removed]
        kept = {name: value for name, value in row.items() if name not in removed}
        # A function that changes its row and returns it has not returned the removed columns anew.
        return kept if answer is row else kept | dict(answer)


def _map_rows(data: Dataset, function: Callable[..., Any], call: MapOptions) -> Iterator[DatasetRow]:
    """Every new row: the old columns in their order, then the new ones."""
    names = data.column_names
    merged = _map_batches(data, function, call) if call.batched else _map_each(data, function, call)
    for row in merged:
        yield {name: row[name] for name in names if name in row} | row


def _map_each(data: Dataset, function: Callable[..., Any], call: MapOptions) -> Iterator[DatasetRow]:
    for index, row in enumerate(data):
        answer = call.invoke(function, row, index)
        # The function may have changed its row. Without a return value the row is read again.
        yield data[index] if answer is None else call.merge(row, answer)  # noqa: PLR1736


def _map_batches(data: Dataset, function: Callable[..., Any], call: MapOptions) -> Iterator[DatasetRow]:
    for start, stop in _batches(len(data), call.batch_size):
        batch = data[start:stop]
        answer = call.invoke(function, batch, list(range(start, stop)))
        columns = data[start:stop] if answer is None else call.merge(batch, answer)
        lengths = {name: len(values) for name, values in columns.items()}
        if len({*lengths.values()}) > 1:
            message = f"columns of a batch have different lengths: {lengths}"
            raise ValueError(f"{message}; give remove_columns those that do not come back")
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


# By the type before and the type now: whether a value can be cast back to the type before.
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
    """Cast a mapped column back to its type if all values allow it, as `datasets` does: "3" becomes 3."""
    kinds, changes = documents.facts.kinds, documents.facts.changes
    for name, kind_before in kinds_before.items():
        can_cast = _CAN_CAST.get(kind_before, {}).get(kinds.get(name, ""))
        if can_cast is None:
            continue
        values = (row[name] for row in documents.values())
        if all(value is None or can_cast(value) for value in values):
            changes[name] = kinds[name] = kind_before


def _random_generator(seed: int | None) -> Any:
    """The generator of a random order. Without a seed it follows numpy's global state, as `datasets` does."""
    import numpy as np

    if seed is None:
        state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
        seed = int(state["key"][state["pos"] % 624])
        np.random.random()  # noqa: NPY002 - moves the state on, so that the next shuffle is another one
    return np.random.default_rng(seed)


def _part_sizes(total: int, train: float | None, test: float | None) -> tuple[int, int]:
    """The rows of both parts. Shares are rounded up for the test part and down for the other."""
    if train is None and test is None:
        test = 0.25
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


def _flat_items(row: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Values by path, `a.b` for the key `b` of `a`."""
    for name, value in row.items():
        if isinstance(value, Mapping) and value:
            yield from _flat_items(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
