"""Runs a task's own code over its documents, and keeps what it makes of them."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from assay.core.errors import AssayError, InputError, Problem
from assay.suites.task.data.dataset import Dataset
from assay.suites.task.data.docs import Docs
from assay.suites.task.data.spool import spool_rows
from assay.suites.task.data.stand_in import dataset_stand_in

_UNIT = " document {} after process_docs"


def processed(
    docs: Docs, function: Callable[[Any], Any], *, where: str, seed: int = 0, numpy_seed: int = 1234
) -> Docs:
    """What `process_docs` makes of documents. Random orders in it repeat; `where` is its key's place."""
    data = Dataset.of(docs)
    seed_code(seed, numpy_seed)
    path = docs.files[0]
    try:
        with dataset_stand_in():
            result = function(data)
            if isinstance(result, Dataset):
                return result.as_docs(path, _UNIT)
            return spool_rows(_rows(result), path, _UNIT, fill=True)
    except AssayError:
        raise
    except Exception as error:
        name = getattr(function, "__qualname__", repr(function))
        raise InputError(Problem(where, f"{name}: {type(error).__name__}: {error}")) from error


def _rows(result: Any) -> Iterable[Any]:
    if isinstance(result, (str, Mapping)) or not isinstance(result, Iterable):
        raise TypeError(f"expected a data set or a list of documents, found {type(result).__name__}")
    return result


def seed_code(seed: int | str, numpy_seed: int) -> None:
    """Begin anew what the task's own code draws from."""
    import numpy as np

    random.seed(seed)
    np.random.seed(numpy_seed % 2**32)  # noqa: NPY002 - the state that task code draws from
