"""Whether a schedule tests retention, and the scores of a memory by the age of the evidence.

The age of a question's evidence is the number of messages that were inserted after its last evidence message when the
question was asked. A question that is asked right after its evidence has the age 0.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, median
from typing import NamedTuple

from assay.suites.memory.test.conversation import ConversationQuestion, MessagePlace
from assay.suites.memory.test.pipeline_caller import PipelineCaller

# The first ages of the bins: a 1-2-5 series, because what happens to young evidence matters most.
_EDGES = (0, *(factor * 10**power for power in range(1, 8) for factor in (1, 2, 5)))
# A bin of fewer answers is merged with the next one: its mean would say nothing.
_LEAST_ANSWERS = 10
# Evidence of fewer messages than this is still in the window of almost any memory.
_YOUNG = 10


def evidence_position(question: ConversationQuestion, places: Mapping[str, MessagePlace]) -> int | None:
    """Return the position of the question's last evidence message, from 1; None if no such message is known."""
    positions = [places[place].position for place in question.places if place in places]
    return max((position for position in positions if position is not None), default=None)


class AgeBin(NamedTuple):
    """The ages from `low` to `high`, both included, and the mean age of the answers among them."""

    low: int
    high: int
    mean: float


def age_bins(ages: Sequence[int]) -> list[AgeBin]:
    """Return bins that cover all these ages, one age for each answer. Few answers have few bins."""
    groups: list[tuple[int, list[int]]] = []  # first age of the bin, ages
    for low, end in zip(_EDGES, (*_EDGES[1:], None), strict=True):
        own = [age for age in ages if age >= low and (end is None or age < end)]
        if groups and len(groups[-1][1]) < _LEAST_ANSWERS:
            groups[-1][1].extend(own)
        elif own:
            groups.append((low, own))
    if len(groups) > 1 and len(groups[-1][1]) < _LEAST_ANSWERS:
        _, rest = groups.pop()
        groups[-1][1].extend(rest)
    bins: list[AgeBin] = []
    for number, (low, own) in enumerate(groups):
        high = groups[number + 1][0] - 1 if number + 1 < len(groups) else max(own)
        bins.append(AgeBin(low, high, fmean(own)))
    return bins


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
