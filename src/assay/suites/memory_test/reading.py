"""Reads a JSON file of conversations: one is decoded at a time, and every problem is told at once."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from assay.core.errors import InputError, Problem
from assay.core.nodes import Node, Record, decoded, records, told
from assay.suites.memory_test.conversation import Conversation

Build = Callable[[int, Node], Conversation]


def read(path: Path, build: Build) -> Iterator[Conversation]:
    """The conversations of a file that holds a list of them, or one.

    The whole file is looked at before the first one is given; InputError has every problem.
    """
    found = _records(path)
    problems: list[Problem] = []
    first: dict[str, int] = {}
    for at, conversation in enumerate(_built(path, found, build, problems)):
        if (before := first.setdefault(conversation.sample_id, at)) != at:
            message = f"the id {conversation.sample_id!r} stands at $[{before}] already; each needs its own"
            problems.append(Problem(f"{path} $[{at}]", message))
    if problems:
        raise InputError(told(path, problems))
    return _built(path, found, build, problems)


def first_keys(path: Path) -> frozenset[str]:
    """The keys of the first conversation; none where it is no object."""
    found = msgspec.json.decode(_records(path)[0].raw)
    return frozenset(found) if isinstance(found, dict) else frozenset()


def _records(path: Path) -> list[Record]:
    return records(path, "conversation", "--data names it")


def _built(path: Path, found: list[Record], build: Build, problems: list[Problem]) -> Iterator[Conversation]:
    """One at a time. What cannot be built is noted, and an empty one stands in its place."""
    for index, record in enumerate(found):
        at = f"{path} {record.at}"
        conversation = Conversation(index, f"$[{index}]", (), ())
        try:
            if node := decoded(record.raw, at, problems):
                conversation = build(index, node)
        except InputError as error:
            problems += [problem._replace(where=f"{at} ({problem.where})") for problem in error.problems]
        yield conversation
