"""A module `datasets` for task files that import it for a name or two, where the real one is missing."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType
from typing import Any

from assay.core.errors import MissingExtra
from assay.suites.task.data import hub
from assay.suites.task.data.dataset import Dataset, DatasetDict, concatenate_datasets
from assay.suites.task.data.source import Source


@contextmanager
def dataset_stand_in() -> Iterator[None]:
    """While a task's code is imported or runs, `import datasets` works; afterwards nothing is left of it."""
    if hub.installed() or "datasets" in sys.modules:
        yield
        return
    sys.modules["datasets"] = _StandIn("datasets")
    try:
        yield
    finally:
        del sys.modules["datasets"]


class Value:
    """The type of a column; kept, not applied."""

    def __init__(self, dtype: Any = None, **_: Any) -> None:
        self.dtype = dtype


class Split:
    """The usual names."""

    TRAIN, VALIDATION, TEST = "train", "validation", "test"


def load_dataset(path: str, name: str | None = None, *, split: str | None = None, **options: Any) -> Any:
    """Files and folders; a data set by name needs the real package."""
    source = Source(path, name, options, Path(), lambda *_: f"load_dataset({path!r})")
    if split is not None:
        return Dataset.of(source.open(split))
    return DatasetDict({each: Dataset.of(source.open(each)) for each in source.splits()})


class _StandIn(ModuleType):
    Dataset = Dataset
    DatasetDict = DatasetDict
    Features = dict
    Value = Sequence = List = ClassLabel = Value
    Split = Split
    concatenate_datasets = staticmethod(concatenate_datasets)
    load_dataset = staticmethod(load_dataset)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise MissingExtra(f"'datasets.{name}', which a task's code uses,", "hf")
