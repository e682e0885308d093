"""Data sets, one loader per file, found by the file's name.

A file has `conversations(path)`, which returns a list. It may have `CATEGORIES`, the meaning of its categories, and
`RULES`, the categories whose answers are compared in a way of their own. `read_conversations` does what all loaders
share: it reads the records of a JSON file and reports every problem at once.
"""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core import user_code
from assay.core.errors import InputError, Problem, UsageError
from assay.core.records import FileRecord, read_records
from assay.core.registry import load_from_file, short, unknown
from assay.core.schema import refuse
from assay.suites.memory_test.conversation import Conversation
from assay.suites.memory_test.pipeline_caller import PipelineCaller

# Keys of a conversation by data set. A file belongs to a data set if its first conversation has two of them; data
# of other suites may have one by chance.
_MARKS = {
    "locomo": frozenset({"sample_id", "conversation", "qa"}),
    "longmemeval": frozenset({"question_id", "haystack_sessions", "haystack_dates"}),
    "plain": frozenset({"id", "sessions", "questions"}),
}
_MIN_MARKS = 2

# Builds a conversation from its number in the file and its record. Adds to `problems`, and returns None where a
# problem leaves nothing to build.
Build = Callable[[int, FileRecord, list[Problem]], Conversation | None]


class ConversationLoader(Struct, frozen=True):
    """A data set by name. `conversations` raises InputError with every problem of a file."""

    name: str
    conversations: Callable[[Path], Iterable[Conversation]]
    caller: type[PipelineCaller] = PipelineCaller
    categories: Mapping[Any, str] = {}
    """What the categories of the data mean, where they do not say it themselves."""
    rules: Mapping[Any, str] = {}
    """Categories whose answers are compared in a way of their own: see `scorers.py`."""


def dataset_names() -> list[str]:
    """Return the names of the built-in data sets."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def find_loader(name: str) -> ConversationLoader:
    """Find a data set by its file's name, or a loader of the user by `path/to/file.py:load`.

    A path names a function that takes a file's path, or a subclass of `PipelineCaller` that has this function as its
    static method `conversations`, and may count its statistics in its own way.
    """
    if ".py:" in name:
        return _find_user_loader(name)
    if name not in dataset_names():
        raise UsageError(unknown("data set", name, dataset_names()))
    module = importlib.import_module(f"{__name__}.{name}")
    categories = getattr(module, "CATEGORIES", {})
    rules = getattr(module, "RULES", {})
    return ConversationLoader(name, module.conversations, categories=categories, rules=rules)


def _find_user_loader(name: str) -> ConversationLoader:
    target = load_from_file(name)
    load = getattr(target, "conversations", target)
    if not callable(load) or (target is load and isinstance(target, type)):
        raise UsageError(
            f"{name} must be a function of a path that gives conversations, or a PipelineCaller with one"
        )
    caller = PipelineCaller
    if isinstance(target, type) and issubclass(target, PipelineCaller):
        caller = target

    def conversations(path: Path) -> Iterable[Conversation]:
        return user_code.items_of(load, (path,), Conversation, name)

    return ConversationLoader(short(name), conversations, caller)


def read_conversations(path: Path, build: Build) -> list[Conversation]:
    """Read a file that holds a list of conversations, or one. Raises InputError with every problem."""
    problems: list[Problem] = []
    conversations: list[Conversation] = []
    places: dict[str, str] = {}  # where each id stands
    records = read_records(path, problems, thing="conversation", hint="--data names it")
    for index, record in enumerate(records):
        if not record.value:
            problems.append(record.problem((), "is empty"))
            continue
        try:
            conversation = build(index, record, problems)
        except InputError as error:
            where = record.where()
            problems += [problem._replace(where=f"{where} ({problem.where})") for problem in error.problems]
            continue
        if conversation is None:
            continue
        place = f"line {record.line}" if record.line else record.root
        before = places.setdefault(conversation.sample_id, place)
        if before != place:
            message = f"the id {conversation.sample_id!r} stands at {before} already; each needs its own"
            problems.append(record.problem((), message))
        conversations.append(conversation)
    refuse(problems, path)
    return conversations


def recognise_dataset(path: Path) -> str | None:
    """Return the data set whose keys the first conversation of a file has; None for any other file."""
    if path.suffix != ".json" or not path.is_file():
        return None
    problems: list[Problem] = []
    try:
        first = next(iter(read_records(path, problems)), None)
    except InputError:
        return None
    if first is None or problems:
        return None
    counts = {name: len(marks & first.value.keys()) for name, marks in _MARKS.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] >= _MIN_MARKS else None


def check_file(path: Path) -> list[Problem]:
    """Return every problem of a file of conversations, with its place in the file."""
    try:
        find_loader(recognise_dataset(path) or "locomo").conversations(path)
    except InputError as error:
        return error.problems
    return []


def text_list(value: str | list[str] | None) -> list[str]:
    """Return a list of texts as people write it: one text alone is a list of one."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value
