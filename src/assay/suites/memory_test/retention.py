"""Whether a schedule tests retention, and the scores of a memory by the age of the evidence.

The age of a question's evidence is the number of messages that were inserted after its last evidence message when the
question was asked. A question that is asked right after its evidence has the age 0.
"""

from __future__ import annotations

from collections.abc import Mapping
from statistics import median

from assay.suites.memory_test.conversation import ConversationQuestion, MessagePlace
from assay.suites.memory_test.pipeline_caller import PipelineCaller

# Evidence of fewer messages than this is still in the window of almost any memory.
_YOUNG = 10


def evidence_position(question: ConversationQuestion, places: Mapping[str, MessagePlace]) -> int | None:
    """Return the position of the question's last evidence message, from 1; None if no such message is known."""
    positions = [places[place].position for place in question.places if place in places]
    return max((position for position in positions if position is not None), default=None)


class RetentionCheck:
    """Collects conversations, and says which questions their schedule does not ask and whether it tests retention."""

    def __init__(self) -> None:
        self.questions = 0
        """Questions that the schedule may ask."""
        self.never_asked = 0
        """Questions that it never asks, because they have no usable evidence."""
        # The age of each question's evidence when it is asked for the last time, and at the end of its conversation.
        self._last_ages: list[int] = []
        self._end_ages: list[int] = []

    def add(self, caller: PipelineCaller) -> None:
        """Add a conversation with its tests."""
        self.questions += len(caller.questions)
        self.never_asked += len(caller.never_asked)
        if not caller.tests:
            return
        places = caller.conversation.places
        # Each test asks the first questions again, so the last test is the last one for all that were asked.
        last = caller.tests[-1]
        for question in caller.questions[: last.visible]:
            position = evidence_position(question, places)
            if position is not None:
                self._last_ages.append(last.after - position)
                self._end_ages.append(len(places) - position)

    def sentences(self) -> list[str]:
        """Return what a user should know of the schedule: questions it leaves out, and evidence that is never old."""
        sentences: list[str] = []
        if self.never_asked:
            count = f"{self.never_asked:,} {'question' if self.never_asked == 1 else 'questions'}"
            sentences.append(
                f"Not asked: {count} without usable evidence. --ask at-end and --ask both ask such questions after the "
                "last message."
            )
        if self._last_ages:
            last, end = median(self._last_ages), median(self._end_ages)
            if last < _YOUNG and end >= 2 * max(1, last):
                sentences.append(
                    "This schedule does not test retention. When a question is asked for the last time, the median "
                    f"number of messages since its evidence is {last:g}; with --ask at-end or --ask both it is {end:g}."
                )
        return sentences
