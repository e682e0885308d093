"""`PipelineCaller`: one conversation with the questions and tests that come of it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from msgspec import Struct

from assay.suites.memory_test.conversation import Conversation, Question
from assay.suites.memory_test.statistics import statistics_of
from assay.suites.memory_test.trigger import INCREMENT, Test, asked, tests_of


class Asking(Struct, frozen=True, kw_only=True):
    """Which questions are asked, and when."""

    trigger: str = INCREMENT
    segments: int = 10
    final: bool = True
    categories: Sequence[str] = ()


class PipelineCaller:
    """What is inserted and asked of one conversation.

    A data set with statistics of its own has a subclass with another `_get_dataset_stats`.
    """

    def __init__(self, conversation: Conversation, asking: Asking | None = None) -> None:
        self.conversation = conversation
        self.asking = asking or Asking()

    @cached_property
    def questions(self) -> tuple[Question, ...]:
        """Those that are asked, in the order of `question_index`."""
        return asked(self.conversation, self.asking.categories)

    @cached_property
    def tests(self) -> list[Test]:
        """When they are asked."""
        asking = self.asking
        return tests_of(self.conversation, asking.trigger, asking.segments, asking.final, asking.categories)

    def _get_dataset_stats(self) -> dict[str, Any]:
        """The `dataset_statistics` of the file."""
        return statistics_of(self.conversation)

    @property
    def dataset_statistics(self) -> dict[str, Any]:
        """What `_get_dataset_stats` says, whoever has written that."""
        return self._get_dataset_stats()
