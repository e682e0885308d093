"""Loaders of data sets. Each module of this package loads one data set, and `--dataset` takes the module's name.

A loader module has a function that yields conversations. It is called for each pass over the data:

    def conversations(path: Path) -> Iterator[Conversation]:
        return read_conversations(path, _build)

It may also have `CATEGORIES`, labels for its categories, `RULES`, the comparison rule of a category (see
`scorers.py`), and `is_abstention`, which recognises by its metadata a question that should not be answered.
`read_conversations` reads the objects of a JSON file and reports all problems at once.
"""

from __future__ import annotations

import importlib
import inspect
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import InputError, Problem, UsageError, unknown
from assay.core.file_check import FileCheck, contents
from assay.core.registry import short
from assay.files.json_objects import FileObject, first_object, read_objects
from assay.files.schema import refuse, shorten
from assay.suites.memory.test.conversation import NO_EVIDENCE, UNPARSABLE, Conversation
from assay.suites.memory.test.pipeline_caller import PipelineCaller
from assay.usercode import user_function
from assay.usercode.plugins import load_from_file

# Keys by which `assay check` recognises the data set of a file. The first conversation must have two of them, because
# data of other suites may have one of them too, such as `id`.
_MARKS = {
    "locomo": frozenset({"sample_id", "conversation", "qa"}),
    "longmemeval": frozenset({"question_id", "haystack_sessions", "haystack_dates"}),
    "plain": frozenset({"id", "sessions", "questions"}),
}
_MIN_MARKS = 2
_WHY_NOT_ASKED = {
    NO_EVIDENCE: "evidence: is missing, so only --ask at-end or both asks it; write ids of messages, such as D1:3",
    UNPARSABLE: "evidence: names no message, so only --ask at-end or both asks it; write ids such as D1:3",
}

# Builds a conversation from its position in the file and its object. Appends to the list of problems, and returns None
# if the object is too broken to build anything.
Build = Callable[[int, FileObject, list[Problem]], Conversation | None]


class ConversationLoader(Struct, frozen=True):
    """Loads one data set. `conversations` raises InputError with all problems of a file after the last conversation."""

    name: str
    conversations: Callable[[Path], Iterable[Conversation]]
    caller: type[PipelineCaller] = PipelineCaller
    categories: Mapping[Any, str] = {}
    """Labels for categories that are only numbers in the data."""
    rules: Mapping[Any, str] = {}
    """Categories with their own comparison rule, see `scorers.py`."""
    is_abstention: Callable[[Mapping[str, Any]], bool] | None = None
    """Whether the right reply to a question is to abstain, by its metadata. None: the metadata does not tell."""


def dataset_names() -> list[str]:
    """Return the names of the built-in loaders."""
    return sorted(module.name for module in pkgutil.iter_modules(__path__) if not module.ispkg)


def find_loader(name: str) -> ConversationLoader:
    """Return the loader of a built-in data set, or the user's loader for `path/to/file.py:NAME`.

    NAME is a function that takes a path and returns or yields conversations, or a subclass of `PipelineCaller` that has
    this function as the static method `conversations`. The subclass may override the statistics.
    """
    if ".py:" in name:
        return _find_user_loader(name)
    if name not in dataset_names():
        raise UsageError(unknown("data set", name, dataset_names()))
    module = importlib.import_module(f"{__name__}.{name}")
    categories = getattr(module, "CATEGORIES", {})
    rules = getattr(module, "RULES", {})
    return ConversationLoader(
        name,
        module.conversations,
        categories=categories,
        rules=rules,
        is_abstention=getattr(module, "is_abstention", None),
    )


def _find_user_loader(name: str) -> ConversationLoader:
    target = load_from_file(name)
    load = getattr(target, "conversations", target)
    if not callable(load) or (target is load and isinstance(target, type)):
        raise UsageError(
            f"{name} must be a function that takes a path and returns conversations, or a subclass of "
            "PipelineCaller with such a function as the static method `conversations`"
        )
    caller = PipelineCaller
    if isinstance(target, type) and issubclass(target, PipelineCaller):
        caller = target

    def read(path: Path) -> Iterable[Conversation]:
        return user_function.items_of(load, (path,), Conversation, name)

    # A generator is started again for each pass. A list is in memory anyway, so its function is called once.
    conversations = read if inspect.isgeneratorfunction(load) else cache(lambda path: list(read(path)))
    return ConversationLoader(short(name), conversations, caller)


def read_conversations(path: Path, build: Build) -> Iterator[Conversation]:
    """Yield the conversations of a file, one at a time. Raises InputError with all problems at the end of the file."""
    problems: list[Problem] = []
    places: dict[str, str] = {}  # of each id in the file
    sources = read_objects(path, problems, thing="conversation", hint="--data names it")
    for index, source in enumerate(sources):
        if not source.value:
            problems.append(source.problem((), "is empty"))
            continue
        try:
            conversation = build(index, source, problems)
        except InputError as error:
            where = source.where()
            problems += [problem._replace(where=f"{where} ({problem.where})") for problem in error.problems]
            continue
        if conversation is None:
            continue
        place = f"line {source.line}" if source.line else source.root
        first_place = places.setdefault(conversation.sample_id, place)
        if first_place != place:
            message = f"duplicate id {conversation.sample_id!r}, first used at {first_place}"
            problems.append(source.problem((), message))
        yield conversation
    refuse(problems, path)


def find_other_format(path: Path, dataset: str) -> str:
    """Return a hint if a file that `dataset` cannot read belongs to another data set; else an empty text."""
    other = recognise_dataset(path)
    return "" if other in (None, dataset) else f"it looks like {other!r}; pass --dataset {other}"


def recognise_dataset(path: Path) -> str | None:
    """Return the name of the data set that a file belongs to; None for any other file. Reads one conversation."""
    if path.suffix not in (".json", ".jsonl") or not path.is_file():
        return None
    problems: list[Problem] = []
    try:
        first = next(read_objects(path, problems), None) if path.suffix == ".json" else first_object(path)
    except InputError:
        return None
    if first is None or problems:
        return None
    counts = {name: len(marks & first.value.keys()) for name, marks in _MARKS.items()}
    best = max(counts, key=counts.__getitem__)
    return best if counts[best] >= _MIN_MARKS else None


def check_file(path: Path) -> list[Problem]:
    """Return all problems of a file of conversations, with their places. An unknown file is read as LoCoMo."""
    return examine(path).problems


def examine(path: Path) -> FileCheck:
    """Return the check of a file of conversations. An unknown file is read as LoCoMo.

    Bad evidence is a warning: LoCoMo has some, and a run counts it. A file without any question is an error.
    """
    dataset = recognise_dataset(path) or "locomo"
    kind = f"conversations with questions, format {dataset} (memory test)"
    problems: list[Problem] = []
    counts = Counter({"conversation": 0, "question": 0})
    asked = 0
    try:
        for conversation in find_loader(dataset).conversations(path):
            problems += _evidence_warnings(conversation, path)
            asked += len(conversation.questions)
            questions = len(conversation.questions) + len(conversation.invalid)
            counts.update(conversation=1, question=questions)
    except InputError as error:
        return FileCheck(kind=kind, problems=error.problems)
    if not counts["question"]:
        problems.append(Problem(str(path), "there is no question, so a run would measure nothing"))
    elif not asked:
        problems = [Problem(str(path), "no question has usable evidence; ask them with --ask at-end", "warning")]
    return FileCheck(kind=kind, contents=contents(counts), problems=shorten(problems, path))


def _evidence_warnings(conversation: Conversation, path: Path) -> Iterator[Problem]:
    message_ids = {message.id for message in conversation.messages}
    for question in conversation.questions:
        if missing := [place for place in question.places if place not in message_ids]:
            where = f"{path} {conversation.sample_id}, question {question.source_index + 1}"
            yield Problem(where, f"evidence: there is no message {', '.join(missing)}", "warning")
    for invalid in conversation.invalid:
        where = f"{path} {conversation.sample_id}, question {invalid.question_index}"
        yield Problem(where, _WHY_NOT_ASKED[invalid.reason], "warning")


def text_list(value: str | list[str] | None) -> list[str]:
    """Return a list of texts. Data may have a single text instead of a list, or null."""
    if value is None:
        return []
    return [value] if isinstance(value, str) else value
