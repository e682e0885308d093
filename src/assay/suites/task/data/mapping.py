"""How functions are applied to the rows of a data set."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from assay.suites.task.data.spool import SpooledDocs

if TYPE_CHECKING:
    from assay.suites.task.data.dataset import Dataset

_ORDER = ("with_indices", "with_rank", "input_columns", "batched", "batch_size", "drop_last_batch")
_HOW = frozenset(
    {"load_from_cache_file", "num_proc", "desc", "keep_in_memory", "cache_file_name", "cache_file_names"}
    | {"writer_batch_size", "new_fingerprint", "suffix_template", "features", "disable_nullable"}
    | {"try_original_type", "on_mixed_types", "with_rank", "drop_last_batch"}
)
_WHOLE = re.compile(r"-?\d+")


class Call(msgspec.Struct):
    """How a function wants its rows; the names are those of `datasets`."""

    with_indices: bool = False
    input_columns: str | list[str] | None = None
    batched: bool = False
    batch_size: int | None = 1000
    remove_columns: str | list[str] | None = None
    fn_kwargs: dict[str, Any] | None = None

    @classmethod
    def of(cls, args: tuple[Any, ...], options: dict[str, Any]) -> Call:
        """What says how the work is done elsewhere (processes, caches) means nothing here."""
        given = dict(zip(_ORDER, args, strict=False)) | options
        known = {name: value for name, value in given.items() if name in cls.__struct_fields__}
        for name in given:
            if name not in known and name not in _HOW:
                raise TypeError(f"got an unexpected keyword argument {name!r}")
        return cls(**known)

    @property
    def removed(self) -> set[str]:
        """Columns that do not come back by themselves."""
        gone = self.remove_columns or []
        return {gone} if isinstance(gone, str) else set(gone)

    def invoke(self, function: Callable[..., Any], value: Any, index: Any) -> Any:
        """The function's answer for one row, or one batch of them."""
        columns = [self.input_columns] if isinstance(self.input_columns, str) else self.input_columns
        given = [value] if columns is None else [value[name] for name in columns]
        return function(*given, *([index] if self.with_indices else []), **(self.fn_kwargs or {}))


def mapped(data: Dataset, function: Callable[..., Any], call: Call) -> Iterator[dict[str, Any]]:
    """Every new row: the old columns in their order, then the new ones."""
    names = data.column_names
    merged = _mapped_batches(data, function, call) if call.batched else _mapped_rows(data, function, call)
    for row in merged:
        yield {name: row[name] for name in names if name in row} | row


def _mapped_rows(data: Dataset, function: Callable[..., Any], call: Call) -> Iterator[dict[str, Any]]:
    """What a function does to its row stays, unless it returns nothing."""
    for index, row in zip(range(len(data)), data, strict=True):
        answer = call.invoke(function, row, index)
        yield data[index] if answer is None else _merged(row, answer, call.removed)


def _merged(row: dict[str, Any], answer: Any, removed: set[str]) -> dict[str, Any]:
    if not isinstance(answer, Mapping):
        kind = type(answer).__name__
        raise TypeError(f"the function of map must return a mapping or None, it returned {kind}")
    kept = {name: value for name, value in row.items() if name not in removed}
    return kept if answer is row else kept | dict(answer)


def _mapped_batches(data: Dataset, function: Callable[..., Any], call: Call) -> Iterator[dict[str, Any]]:
    for start, stop in _batches(len(data), call.batch_size):
        batch = data[start:stop]
        answer = call.invoke(function, batch, list(range(start, stop)))
        columns = data[start:stop] if answer is None else _merged(batch, answer, call.removed)
        lengths = {name: len(values) for name, values in columns.items()}
        if len({*lengths.values()}) > 1:
            found = f"columns of a batch have different lengths: {lengths}"
            raise ValueError(f"{found}; give remove_columns those that do not come back")
        yield from (dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True))


def _batches(total: int, size: int | None) -> Iterator[tuple[int, int]]:
    step = size if size and size > 0 else max(total, 1)
    return ((start, min(start + step, total)) for start in range(0, total, step))


def wanted(data: Dataset, function: Callable[..., Any], call: Call) -> Iterator[int]:
    """The places of the rows a filter keeps."""
    if not call.batched:
        return (index for index, row in enumerate(data) if call.invoke(function, row, index))
    return _wanted_of_batches(data, function, call)


def _wanted_of_batches(data: Dataset, function: Callable[..., Any], call: Call) -> Iterator[int]:
    for start, stop in _batches(len(data), call.batch_size):
        answers = call.invoke(function, data[start:stop], list(range(start, stop)))
        yield from (index for index, answer in zip(range(start, stop), answers, strict=True) if answer)


def keep_types(docs: SpooledDocs, before: dict[str, str]) -> None:
    """A column that is written anew keeps its type where all its values can: `"3"` in numbers is 3 again."""
    kinds, changes = docs.facts.kinds, docs.facts.changes
    moved = {
        name: kinds[name]
        for name in before
        if name in kinds and before[name] in _KEEPS and kinds[name] in _KEEPS[before[name]]
    }
    for name in moved:
        keeps = _KEEPS[before[name]][kinds[name]]
        if all(row[name] is None or keeps(row[name]) for row in docs.values()):
            changes[name] = kinds[name] = before[name]


def _is_float(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return text == text.strip() and "_" not in text


def _always(_: Any) -> bool:
    return True


_KEEPS: dict[str, dict[str, Callable[[Any], bool]]] = {
    "int": {
        "str": lambda text: _WHOLE.fullmatch(text) is not None,
        "float": float.is_integer,
        "bool": _always,
    },
    "float": {"str": _is_float, "int": _always, "bool": _always},
    "bool": {"str": lambda text: text.lower() in ("true", "false", "1", "0"), "int": _always},
}


def generator(seed: int | None = None, given: Any = None) -> Any:
    """Where random orders come from. Without a seed, the one that is set for all of numpy."""
    import numpy as np

    if given is not None:
        return given
    if seed is None:
        state = np.random.get_state(legacy=False)["state"]  # noqa: NPY002
        seed = int(state["key"][state["pos"] % 624])
        np.random.random()  # noqa: NPY002 - the next shuffle is another one
    return np.random.default_rng(seed)


def sort_key(values: Sequence[Any], back: bool, nulls: str) -> Callable[[int], Any]:
    """Where there is no value, first or last whichever way the sort goes."""
    last = (nulls == "at_end") != back

    def key(number: int) -> Any:
        value = values[number]
        return (value is None) == last, 0 if value is None else value

    return key


def sizes(total: int, train: float | None, test: float | None) -> tuple[int, int]:
    """How many rows two parts have: shares are rounded up for the test part and down for the other."""
    if train is None and test is None:
        test = 0.25
    rows = None if test is None else math.ceil(test * total) if isinstance(test, float) else test
    most = None if train is None else math.floor(train * total) if isinstance(train, float) else train
    rows = total - most if rows is None and most is not None else rows
    assert rows is not None
    most = total - rows if most is None else most
    if min(rows, most) < 0 or rows + most > total:
        raise ValueError(f"{total} rows cannot be split into {most} and {rows}")
    return most, rows


def flat(row: Mapping[str, Any], before: str = "") -> Iterable[tuple[str, Any]]:
    """Values by path, `a.b` for the key `b` of `a`."""
    for name, value in row.items():
        if isinstance(value, Mapping) and value:
            yield from flat(value, f"{before}{name}.")
        else:
            yield f"{before}{name}", value
