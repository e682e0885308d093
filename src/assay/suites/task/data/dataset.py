"""A data set as task files know it: the parts of `datasets.Dataset` that `process_docs` functions use.

The rows stand in a spool. To filter, select, shuffle or sort is to list row numbers; to map is to write a new
spool. So memory stays flat, and nothing is installed for it.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, overload

from assay.suites.task.data import mapping
from assay.suites.task.data.docs import Docs
from assay.suites.task.data.spool import SpooledDocs, spool_rows, spooled

Row = dict[str, Any]
_OWN = Path("rows")


class Dataset:
    """Rows in an order, with some of their columns, maybe under other names."""

    def __init__(
        self,
        docs: SpooledDocs,
        order: Sequence[int] | None = None,
        columns: dict[str, str] | None = None,
        split: str | None = None,
    ) -> None:
        if len(docs.spool) and not docs.facts.columns:
            docs.look()
        self._docs = docs
        self._order = range(len(docs.spool)) if order is None else order
        self._columns = (
            dict(zip(names := docs.facts.columns, names, strict=True)) if columns is None else columns
        )
        self._as_stored = [*self._columns.items()] == [(name, name) for name in docs.facts.columns]
        self.split = split

    @classmethod
    def of(cls, docs: Docs) -> Dataset:
        """The documents of a split."""
        return cls(spooled(docs))

    @classmethod
    def from_list(cls, mapping: Iterable[Row], *_: Any, split: Any = None, **__: Any) -> Dataset:
        """Rows that are here already; the first one has all the columns."""
        rows = list(mapping)
        names = list(rows[0]) if rows else []
        return cls.written(({name: row.get(name) for name in names} for row in rows), names, split)

    @classmethod
    def from_dict(cls, mapping: Mapping[str, Any], *_: Any, split: Any = None, **__: Any) -> Dataset:
        """Columns that are here already."""
        names = list(mapping)
        return cls.written((dict(zip(names, row, strict=True)) for row in _transposed(mapping)), names, split)

    @classmethod
    def from_generator(
        cls, generator: Callable[..., Iterable[Row]], gen_kwargs: Row | None = None, **_: Any
    ) -> Dataset:
        """Rows that a function yields."""
        return cls(spool_rows(generator(**(gen_kwargs or {})), _OWN, " row {}", fill=True))

    @classmethod
    def from_pandas(cls, df: Any, **_: Any) -> Dataset:
        """The rows of a data frame."""
        return cls.from_list(df.to_dict("records"))

    @classmethod
    def written(cls, rows: Iterable[Row], names: list[str], split: Any = None) -> Dataset:
        """Rows that all have these columns."""
        docs = spool_rows(rows, _OWN, " row {}", fill=True)
        docs.look()
        docs.facts.columns = names
        return cls(docs, split=split)

    def as_docs(self, path: Path, unit: str) -> SpooledDocs:
        """The rows as documents, named in messages as said."""
        docs = self._docs
        if self._as_stored and self._order == range(len(docs.spool)) and not docs.facts.changes:
            return SpooledDocs(docs.spool, path, unit)
        return spool_rows(self, path, unit)

    # What it holds

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
        kinds = self._docs.facts.kinds
        return {name: kinds.get(stored, "null") for name, stored in self._columns.items()}

    def __iter__(self) -> Iterator[Row]:
        return (self._row(number) for number in self._order)

    def _row(self, number: int) -> Row:
        row = self._docs.parse(self._docs.doc(number))
        if self._as_stored:
            return row
        return {name: row[stored] for name, stored in self._columns.items()}

    @overload
    def __getitem__(self, key: int) -> Row: ...
    @overload
    def __getitem__(self, key: str) -> list[Any]: ...
    @overload
    def __getitem__(self, key: slice | Iterable[int]) -> dict[str, list[Any]]: ...
    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return self._column(key)
        if isinstance(key, slice):
            return self._turned(self._order[key])
        if isinstance(key, Iterable):
            return self._turned([self._order[number] for number in key])
        if not -len(self) <= key < len(self):
            raise IndexError(f"there is no row {key}; there are {len(self)}")
        return self._row(self._order[key])

    def _column(self, name: str) -> list[Any]:
        self._need([name])
        return [row[name] for row in self]

    def _turned(self, numbers: Sequence[int]) -> dict[str, list[Any]]:
        """Rows as lists by column."""
        rows = [self._row(number) for number in numbers]
        return {name: [row[name] for row in rows] for name in self._columns}

    def _need(self, names: Iterable[str]) -> None:
        for name in names:
            if name not in self._columns:
                raise ValueError(f"there is no column {name!r}; there are {', '.join(self._columns)}")

    def to_list(self) -> list[Row]:
        """All rows."""
        return list(self)

    def to_dict(self) -> dict[str, list[Any]]:
        """All columns."""
        return self[:]

    def unique(self, column: str) -> list[Any]:
        """The values of a column, each once, in the order they first occur."""
        return list(dict.fromkeys(self[column]))

    def iter(self, batch_size: int, *, drop_last_batch: bool = False) -> Iterator[dict[str, list[Any]]]:
        """Batches, as lists by column."""
        for start in range(0, len(self), batch_size):
            if not drop_last_batch or start + batch_size <= len(self):
                yield self[start : start + batch_size]

    # Other rows

    def _with_order(self, order: Sequence[int]) -> Dataset:
        return Dataset(self._docs, order, self._columns, self.split)

    def select(self, indices: Iterable[int], **_: Any) -> Dataset:
        """Some rows by their numbers, in that order."""
        numbers = list(indices)
        for number in numbers:
            if not 0 <= number < len(self):
                raise IndexError(f"there is no row {number}; there are {len(self)}")
        return self._with_order(array("Q", [self._order[number] for number in numbers]))

    def take(self, n: int) -> Dataset:
        """The first rows."""
        return self._with_order(self._order[:n])

    def skip(self, n: int) -> Dataset:
        """All rows but the first."""
        return self._with_order(self._order[n:])

    def shuffle(self, seed: int | None = None, generator: Any = None, **_: Any) -> Dataset:
        """The order numpy draws: the same as `datasets` for the same seed."""
        return self.select(mapping.generator(seed, generator).permutation(len(self)).tolist())

    def sort(
        self,
        column_names: str | list[str],
        reverse: bool | list[bool] = False,
        null_placement: str = "at_end",
        **_: Any,
    ) -> Dataset:
        """By columns; rows that are equal keep their order, and those without a value come last or first."""
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        backwards = [reverse] * len(names) if isinstance(reverse, bool) else list(reverse)
        order = list(range(len(self)))
        for name, back in reversed(list(zip(names, backwards, strict=True))):
            values = self[name]
            order.sort(key=mapping.sort_key(values, back, null_placement), reverse=back)
        return self.select(order)

    def filter(self, function: Callable[..., Any] | None = None, *args: Any, **options: Any) -> Dataset:
        """The rows for which the function says yes."""
        kept = mapping.wanted(self, function or bool, mapping.Call.of(args, options))
        return self._with_order(array("Q", [self._order[number] for number in kept]))

    def map(self, function: Callable[..., Any], *args: Any, **options: Any) -> Dataset:
        """What the function returns, merged into each row."""
        call = mapping.Call.of(args, options)
        docs = spool_rows(mapping.mapped(self, function, call), self._docs.files[0], self._docs.unit)
        docs.look()
        mapping.keep_types(docs, self.features)
        if not len(docs.spool):
            docs.facts.columns = self.column_names
        return Dataset(docs, split=self.split)

    def train_test_split(
        self,
        test_size: float | None = None,
        train_size: float | None = None,
        *,
        shuffle: bool = True,
        seed: int | None = None,
        **_: Any,
    ) -> dict[str, Dataset]:
        """Two parts, by share or by number of rows."""
        train, test = mapping.sizes(len(self), train_size, test_size)
        order = list(range(len(self)))
        if not shuffle:
            return {"train": self.select(order[:train]), "test": self.select(order[train : train + test])}
        order = mapping.generator(seed).permutation(len(self)).tolist()
        return {"train": self.select(order[test : test + train]), "test": self.select(order[:test])}

    # Other columns

    def _with_columns(self, columns: dict[str, str]) -> Dataset:
        return Dataset(self._docs, self._order, columns, self.split)

    def rename_column(self, original_column_name: str, new_column_name: str, **_: Any) -> Dataset:
        """One column under another name."""
        return self.rename_columns({original_column_name: new_column_name})

    def rename_columns(self, column_mapping: dict[str, str], **_: Any) -> Dataset:
        """Columns under other names, in their places."""
        self._need(column_mapping)
        renamed = {column_mapping.get(name, name): stored for name, stored in self._columns.items()}
        if len(renamed) < len(self._columns):
            raise ValueError(f"two columns would have one name: {column_mapping}")
        return self._with_columns(renamed)

    def remove_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """All columns but these."""
        gone = {column_names} if isinstance(column_names, str) else {*column_names}
        self._need(gone)
        return self._with_columns({name: at for name, at in self._columns.items() if name not in gone})

    def select_columns(self, column_names: str | list[str], **_: Any) -> Dataset:
        """These columns, in this order."""
        names = [column_names] if isinstance(column_names, str) else list(column_names)
        self._need(names)
        return self._with_columns({name: self._columns[name] for name in names})

    def add_column(self, name: str, column: Sequence[Any], **_: Any) -> Dataset:
        """One column more, with a value for each row."""
        if len(column) != len(self):
            raise ValueError(f"expected {len(self)} values for the column {name!r}, found {len(column)}")
        rows = ({**row, name: value} for row, value in zip(self, column, strict=True))
        return Dataset.written(rows, [*self._columns, name], self.split)

    def add_item(self, item: Row, **_: Any) -> Dataset:
        """One row more."""
        rows = ({name: row.get(name) for name in self._columns} for row in (*self, item))
        return Dataset.written(rows, self.column_names, self.split)

    def flatten_indices(self, *_: Any, **__: Any) -> Dataset:
        """Nothing to do: rows are read where they stand."""
        return self

    def flatten(self, *_: Any, **__: Any) -> Dataset:
        """A column for each key of a struct, as `answers.text`."""
        rows = [dict(mapping.flat(row)) for row in self]
        return Dataset.written(rows, list(dict.fromkeys(name for row in rows for name in row)), self.split)

    def __repr__(self) -> str:
        return f"Dataset({{\n    features: {self.column_names},\n    num_rows: {len(self)}\n}})"

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        known = ", ".join(sorted(name for name in dir(type(self)) if name[0] != "_"))
        raise AttributeError(f"a data set has no {name!r} in assay; it has {known}")


class DatasetDict(dict[str, Dataset]):
    """Data sets by split."""


def concatenate_datasets(dsets: list[Dataset], *_: Any, **__: Any) -> Dataset:
    """The rows of several data sets, one after the other; columns one of them lacks are null."""
    names = list(dict.fromkeys(name for data in dsets for name in data.column_names))
    rows = ({name: row.get(name) for name in names} for data in dsets for row in data)
    return Dataset.written(rows, names)


def _transposed(columns: Mapping[str, Any]) -> Iterator[tuple[Any, ...]]:
    lengths = {name: len(values) for name, values in columns.items()}
    if len({*lengths.values()}) > 1:
        raise ValueError(f"columns have different lengths: {lengths}")
    return zip(*columns.values(), strict=True)
