"""`PipelineCaller`, SAGE's name for one conversation with its questions, tests and statistics.

A data set that needs other statistics has a subclass:

    class Letters(PipelineCaller):
        def _get_dataset_stats(self):
            return {**super()._get_dataset_stats(), "total_letters": 1}

`--dataset letters.py:Letters` uses it; `loaders/__init__.py` says what else the class must have.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import msgspec

from assay.core.errors import InputError, Problem
from assay.suites.memory.conversation import ConversationInputs, ConversationTest, QuestionInput
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion
from assay.suites.memory.test.schedule import ScheduleOptions, ordered_questions, plan_tests
from assay.usercode import user_function
from assay.usercode.errors import UserCodeError


class PipelineCaller:
    """One conversation with the questions that are asked about it and the tests that ask them."""

    def __init__(self, conversation: Conversation, schedule: ScheduleOptions | None = None) -> None:
        self.conversation = conversation
        self.schedule = schedule or ScheduleOptions()

    @cached_property
    def questions(self) -> tuple[ConversationQuestion, ...]:
        """The questions that are asked, in the order of `question_index`."""
        schedule = self.schedule
        return ordered_questions(self.conversation, schedule.categories, unplaced=schedule.asks_at_end)

    @property
    def never_asked(self) -> tuple[ConversationQuestion, ...]:
        """The questions that the schedule never asks, because they have no usable evidence."""
        schedule = self.schedule
        if schedule.asks_at_end:
            return ()
        every = ordered_questions(self.conversation, schedule.categories, unplaced=True)
        return every[len(self.questions) :]

    @cached_property
    def tests(self) -> list[ConversationTest]:
        """When which of the questions are asked, in order."""
        return plan_tests(self.conversation, self.schedule)

    def _get_dataset_stats(self) -> dict[str, Any]:
        """Return the `dataset_statistics` of the output file. The method's name is SAGE's: subclasses override it.

        The statistics cover the whole conversation, also questions that --categories leaves out. A dialog is one
        message. Questions without evidence are valid if the schedule asks them after the last message.
        """
        conversation = self.conversation
        invalid: list[dict[str, Any]] = []
        if not self.schedule.asks_at_end:
            invalid = [
                {"question_index": each.question_index, "question": each.question, "reason": each.reason}
                for each in conversation.invalid
            ]
        total = len(conversation.questions) + len(conversation.unplaced)
        return {
            "total_sessions": len(conversation.sessions),
            "total_dialogs": sum(len(session.messages) for session in conversation.sessions),
            "total_questions": total,
            "valid_questions": total - len(invalid),
            "invalid_questions": invalid,
        }

    @cached_property
    def dataset_statistics(self) -> dict[str, Any]:
        """The result of `_get_dataset_stats`. Raises InputError if user code in a subclass fails."""
        name = type(self).__name__
        try:
            statistics: Any = user_function.call_here(self._get_dataset_stats)
        except UserCodeError as error:
            raise InputError(Problem(f"{name}._get_dataset_stats", str(error))) from error
        if not isinstance(statistics, dict):
            message = f"returned {type(statistics).__name__}; it must return a dict"
            raise InputError(Problem(f"{name}._get_dataset_stats", message))
        return statistics


def conversation_inputs(
    conversation: Conversation,
    questions: Sequence[ConversationQuestion],
    tests: Sequence[ConversationTest],
    memory: str,
) -> ConversationInputs:
    """Return what the solver gets of a conversation with one memory."""
    return ConversationInputs(
        memory,
        tuple(session.messages for session in conversation.sessions),
        tuple(
            QuestionInput(index, question.text, question.places, question.date)
            for index, question in enumerate(questions, 1)
        ),
        tuple(tests),
    )


def row_bytes(
    conversation: Conversation, questions: Sequence[ConversationQuestion], tests: Sequence[ConversationTest]
) -> bytes:
    """Return the bytes whose hash is the key of a row: messages, questions and tests, but no answers."""
    return msgspec.json.encode([conversation.sample_id, conversation_inputs(conversation, questions, tests, "")])
