"""Chooses few-shot examples: the first n, or n at random from one stream over all documents."""

from __future__ import annotations

import random
from collections.abc import Iterator
from itertools import islice
from typing import Any

from assay.core.errors import InputError, Problem
from assay.suites.task.config import TaskConfig
from assay.suites.task.fields import BadDoc, Document

_SAMPLERS = ("first_n", "default")


class Sampler:
    """The examples of one task. A document is never among its own, unless the harness would put it there."""

    def __init__(self, config: TaskConfig, shots: int, seed: int | None, *, quirks: bool = False) -> None:
        fewshot = config.values["fewshot_config"]
        self._where = config.where("fewshot_config", "sampler")
        self._first = fewshot["sampler"] == "first_n"
        if shots and fewshot["sampler"] not in _SAMPLERS:
            raise InputError(
                Problem(self._where, f"there is no sampler {fewshot['sampler']!r}; use first_n or default")
            )
        self._indices = None if quirks else fewshot["fewshot_indices"]
        self._random = random.Random(seed)  # noqa: S311
        self._shots = shots
        self._pool: list[Document] = []
        self._exclude = False

    @property
    def fixed(self) -> bool:
        """Whether every document gets the same examples."""
        return self._first and not self._exclude

    def give(self, pool: list[Document], *, exclude: bool) -> None:
        """Take the pool; too small a pool is refused before anything is asked."""
        if self._indices:
            pool = [_at(pool, index, self._where) for index in self._indices]
        needed = self._shots + (1 if exclude and not self._first else 0)
        if len(pool) < needed:
            raise InputError(Problem(self._where, f"{needed} examples are needed, there are {len(pool)}"))
        self._pool = pool
        self._exclude = exclude

    def draw(self, doc: Document | None) -> list[Document]:
        """The examples for one document. Called for skipped documents too: it is one stream."""
        shots = self._shots
        if self._first:
            return self._enough(
                list(islice(self._others(doc), shots)) if self._exclude else self._pool[:shots]
            )
        if not self._exclude:
            return self._random.sample(self._pool, shots)
        drawn = [other for other in self._random.sample(self._pool, shots + 1) if other != doc][:shots]
        if len(drawn) < shots:
            drawn = self._random.sample(self._enough(list(self._others(doc))), shots)
        return drawn

    def _others(self, doc: Document | None) -> Iterator[Document]:
        return (other for other in self._pool if other != doc)

    def _enough(self, pool: list[Document]) -> list[Document]:
        """The pool of one document, which lacks that document and all that are equal to it."""
        if len(pool) < self._shots:
            raise BadDoc(f"{self._where}: {self._shots} examples are needed, there are {len(pool)} others")
        return pool


def _at(pool: list[Document], index: Any, where: str) -> Document:
    try:
        found: Document = pool[index]
        return found
    except (IndexError, TypeError):
        raise InputError(
            Problem(where, f"fewshot_indices has {index!r}, there are {len(pool)} examples")
        ) from None
