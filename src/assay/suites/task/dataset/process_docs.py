"""Runs `process_docs`, a function of the task that filters or changes its documents.

Such code often imports `datasets` for `Dataset` or `concatenate_datasets`. If that package is not installed,
a stand-in module with our `Dataset` is imported instead while the code is loaded or runs.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.core.errors import AssayError, InputError, MissingExtra, Problem
from assay.core.events import tell_if_slow
from assay.suites.task.dataset import source
from assay.suites.task.dataset.documents import Documents, spool_rows
from assay.suites.task.dataset.hf_dataset import Dataset, DatasetDict, concatenate_datasets
from assay.usercode.errors import UserCodeError
from assay.usercode.user_function import call_here

# How messages name a document, after the path of its data file.
_UNIT = " document {} after process_docs"


def run_process_docs(
    documents: Documents,
    function: Callable[[Any], Any],
    *,
    where: str,
    seed: int = 0,
    numpy_seed: int = 1234,
    most: int | None = None,
) -> Documents:
    """Return the documents that `process_docs` returns. `where` is the place of the key in the task file.

    Of a generator only the first `most` documents are read: it may have no end. The harness takes no generators.
    """
    data = Dataset.of(documents)
    path = documents.files[0]
    count = 0

    def counted(rows: Iterable[Any]) -> Iterator[Any]:
        nonlocal count
        for row in rows:
            count += 1
            yield row

    def process() -> Documents:
        result = function(data)
        if isinstance(result, Dataset):
            return result.as_documents(path, _UNIT)
        if isinstance(result, (str, Mapping)) or not isinstance(result, Iterable):
            kind = type(result).__name__
            raise TypeError(f"expected a data set or a list of documents, found {kind}")
        # The function may be a generator. Its code runs here, so it must be inside the same call.
        rows = islice(result, most) if isinstance(result, Iterator) else result
        return spool_rows(counted(rows), path, _UNIT, fill=True)

    seed_user_code(seed, numpy_seed)
    try:
        with datasets_stand_in(), tell_if_slow(lambda: _slow_sentence(where, count)):
            return call_here(process)
    except UserCodeError as error:
        if isinstance(error.error, AssayError):
            raise error.error from None
        name = getattr(function, "__qualname__", repr(function))
        raise InputError(Problem(where, f"{name}: {error.raised}")) from error


def _slow_sentence(where: str, count: int) -> str:
    documents = f"it has returned {count:,} documents so far" if count else "it has returned nothing yet"
    return f"{where}: {documents}. Ctrl-C stops"


def seed_user_code(seed: int | str, numpy_seed: int) -> None:
    """Seed the global random states of Python and numpy, which the task's own code uses."""
    import numpy as np

    random.seed(seed)
    # numpy accepts seeds below 2**32 only.
    np.random.seed(numpy_seed % 2**32)  # noqa: NPY002


@contextmanager
def datasets_stand_in() -> Iterator[None]:
    """Let `import datasets` work while a task's code is imported or runs."""
    if source.datasets_installed() or "datasets" in sys.modules:
        yield
        return
    sys.modules["datasets"] = _DatasetsModule("datasets")
    try:
        yield
    finally:
        del sys.modules["datasets"]


class _Feature:
    """The type of a column, such as `Value("string")`. Task code can create it; it has no effect."""

    def __init__(self, dtype: Any = None, **_: Any) -> None:
        self.dtype = dtype


class _SplitNames:
    TRAIN, VALIDATION, TEST = "train", "validation", "test"


def load_dataset(path: str, name: str | None = None, *, split: str | None = None, **options: Any) -> Any:
    """Load files and folders, like `datasets.load_dataset`. A data set of the Hub needs the real package."""
    data = source.DataSource(path, name, options, Path(), lambda *_: f"load_dataset({path!r})")
    if split is not None:
        return Dataset.of(data.open(split))
    return DatasetDict({each: Dataset.of(data.open(each)) for each in data.splits()})


class _DatasetsModule(ModuleType):
    Dataset = Dataset
    DatasetDict = DatasetDict
    Features = dict
    Value = Sequence = List = ClassLabel = _Feature
    Split = _SplitNames
    concatenate_datasets = staticmethod(concatenate_datasets)
    load_dataset = staticmethod(load_dataset)

    def __getattr__(self, name: str) -> Any:
        # The import system looks for names such as `__path__` and expects an AttributeError.
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingExtra(f"'datasets.{name}', which a task's code uses,", "hf")
