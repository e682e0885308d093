"""`PipelineCaller`: the questions, tests and statistics of one conversation, as the format names them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from assay.core import user_code
from assay.core.errors import InputError, Problem
from assay.core.user_code import UserCodeError
from assay.solvers.memory.conversation import ConversationTest
from assay.suites.memory_test.conversation import Conversation, ConversationQuestion
from assay.suites.memory_test.schedule import ScheduleOptions, ordered_questions, plan_tests


class PipelineCaller:
    """Everything that is inserted and asked of one conversation.

    A data set with statistics of its own has a subclass with another `_get_dataset_stats`.
    """

    def __init__(self, conversation: Conversation, schedule: ScheduleOptions | None = None) -> None:
        self.conversation = conversation
        self.schedule = schedule or ScheduleOptions()

    @cached_property
    def questions(self) -> tuple[ConversationQuestion, ...]:
        """The questions that are asked, in the order of `question_index`."""
        return ordered_questions(self.conversation, self.schedule.categories)

    @cached_property
    def tests(self) -> list[ConversationTest]:
        """The tests of the conversation, in order."""
        return plan_tests(self.conversation, self.schedule)

    def _get_dataset_stats(self) -> dict[str, Any]:
        """Return the `dataset_statistics` of the output file. The format gives this method its name.

        They describe the whole conversation, whichever categories are asked. A dialog is one message.
        """
        conversation = self.conversation
        invalid = [
            {"question_index": each.question_index, "question": each.question, "reason": each.reason}
            for each in conversation.invalid
        ]
        return {
            "total_sessions": len(conversation.sessions),
            "total_dialogs": sum(len(session.messages) for session in conversation.sessions),
            "total_questions": len(conversation.questions) + len(invalid),
            "valid_questions": len(conversation.questions),
            "invalid_questions": invalid,
        }

    @cached_property
    def dataset_statistics(self) -> dict[str, Any]:
        """What `_get_dataset_stats` returns. A subclass is user code: if it fails, InputError says where."""
        name = type(self).__name__
        try:
            statistics: Any = user_code.call_here(self._get_dataset_stats)
        except UserCodeError as error:
            raise InputError(Problem(f"{name}._get_dataset_stats", str(error))) from error
        if not isinstance(statistics, dict):
            message = f"it returned {type(statistics).__name__}; return a dict"
            raise InputError(Problem(f"{name}._get_dataset_stats", message))
        return statistics
