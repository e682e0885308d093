"""`assay check` for files of conversations: which data set a file is of, and what is wrong in it."""

from __future__ import annotations

from pathlib import Path

import msgspec

from assay.core.errors import InputError, Problem
from assay.suites.memory_test.loaders import loader
from assay.suites.memory_test.reading import first_keys

_MARKS = {
    "locomo": frozenset({"sample_id", "conversation", "qa"}),
    "longmemeval": frozenset({"question_id", "haystack_sessions", "haystack_dates"}),
    "plain": frozenset({"id", "sessions", "questions"}),
}
"""Keys of which a conversation has two at least; data of other suites may have one by chance."""
_ENOUGH = 2


def dataset_of(path: Path) -> str | None:
    """The data set whose keys the first conversation has; None for what is no file of conversations."""
    if path.suffix != ".json" or not path.is_file():
        return None
    try:
        keys = first_keys(path)
    except (InputError, msgspec.DecodeError):
        return None
    fitting = {name: len(marks & keys) for name, marks in _MARKS.items()}
    best = max(fitting, key=fitting.__getitem__)
    return best if fitting[best] >= _ENOUGH else None


def check_file(path: Path) -> list[Problem]:
    """Every problem, with its place in the file."""
    try:
        list(loader(dataset_of(path) or "locomo").conversations(path))
    except InputError as error:
        return error.problems
    return []
