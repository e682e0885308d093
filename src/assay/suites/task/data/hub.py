"""Data sets by name, through the optional package `datasets`, with its cache and its offline switch."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from assay.core.errors import InputError, MissingExtra, Problem
from assay.suites.task.data.docs import Docs
from assay.suites.task.data.spool import spool_rows

# Nothing is told to anybody, and nothing is drawn over our own progress.
_QUIET = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_UPDATE_DOWNLOAD_COUNTS": "0",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "HF_DATASETS_DISABLE_PROGRESS_BARS": "1",
}
_OFFLINE = ("HF_HUB_OFFLINE", "HF_DATASETS_OFFLINE")


def installed() -> bool:
    """Whether the optional package is there; it is not imported for the question."""
    return importlib.util.find_spec("datasets") is not None


def load(path: str, name: str | None, options: dict[str, Any], where: str) -> Mapping[str, Any]:
    """All splits of a data set. Code that comes with it runs only where the task file says so."""
    if not installed():
        raise MissingExtra(f"{where}: the data set {path!r}", "hf")
    for key, value in _QUIET.items():
        os.environ.setdefault(key, value)
    import datasets

    if int(datasets.__version__.split(".")[0]) >= 4:
        options = {key: value for key, value in options.items() if key != "trust_remote_code"}
    try:
        loaded = datasets.load_dataset(path, name, **options)
    except Exception as error:
        raise InputError(Problem(where, _explained(path, name, error))) from error
    return loaded if isinstance(loaded, Mapping) else {str(loaded.split): loaded}


def _explained(path: str, name: str | None, error: Exception) -> str:
    """What the library says, in our words where the reason is known."""
    kind, said = type(error).__name__, str(error).strip().split("\n")[0]
    called = f"{path!r}" if name is None else f"{path!r} ({name})"
    offline = [key for key in _OFFLINE if os.environ.get(key, "").upper() in ("1", "ON", "YES", "TRUE")]
    if offline and kind in ("ConnectionError", "OfflineModeIsEnabled", "DatasetNotFoundError", "ValueError"):
        return (
            f"the data set {called} is not in the cache, and {offline[0]} is set: "
            f"unset it to download the data, or name local files ({said})"
        )
    if kind == "DatasetNotFoundError":
        return f"there is no data set {called}, or it is not open to you ({said})"
    if isinstance(error, (ConnectionError, TimeoutError)):
        return f"the data set {called} is not in the cache and cannot be downloaded: {said}"
    return f"the data set {called} cannot be loaded: {kind}: {said}"


def docs_of(rows: Iterable[Any], path: str, name: str | None, split: str) -> Docs:
    """One split as documents, named in messages as `path:name:split document n`."""
    called = ":".join(part for part in (path, name, split) if part)
    return spool_rows(rows, Path(called), " document {}")
