"""When which question of a conversation is asked.

Messages are inserted in packets of two of one session. A question is visible as soon as the last message of its
evidence is inserted. Questions are ordered by that message, so that the visible ones are always the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from assay.solvers.memory.conversation import PACKET, ConversationTest
from assay.suites.memory_test.conversation import Conversation, ConversationQuestion, Coordinate

INCREMENT, SEGMENTS = "increment", "segments"
TRIGGERS = (INCREMENT, SEGMENTS)


class ScheduleOptions(Struct, frozen=True, kw_only=True):
    """Which questions are asked, and when. The options of the command have the same names."""

    trigger: str = INCREMENT
    segments: int = 10
    final: bool = True
    categories: Sequence[str] = ()


def ordered_questions(
    conversation: Conversation, categories: Sequence[str] = ()
) -> tuple[ConversationQuestion, ...]:
    """Return the questions of these categories, or all, by last evidence and then by place in the data.

    `question_index` of the output counts from 1 in this order.
    """
    chosen = set(map(str, categories))
    questions = [each for each in conversation.questions if not chosen or str(each.category) in chosen]
    return tuple(sorted(questions, key=lambda question: (_coordinate(question), question.source_index)))


def plan_tests(conversation: Conversation, schedule: ScheduleOptions) -> list[ConversationTest]:
    """Return all tests of a conversation, in order.

    `increment`: a test runs whenever a segment's worth of questions has become visible since the last test.
    `segments`: a test runs when a multiple of a segment is reached, one multiple for each packet.
    `final`: one more test after the last message, if some question has not been asked by then.
    """
    questions = ordered_questions(conversation, schedule.categories)
    steps = visible_questions(conversation, questions)
    rule = {INCREMENT: _tests_by_increment, SEGMENTS: _tests_by_segments}[schedule.trigger]
    tests = list(rule(steps, len(questions), schedule.segments))
    asked = tests[-1].visible if tests else 0
    if schedule.final and steps and steps[-1].visible > asked:
        tests.append(steps[-1])
    return tests


def visible_questions(
    conversation: Conversation, questions: Sequence[ConversationQuestion]
) -> list[ConversationTest]:
    """Return for each packet how many messages are inserted, and how many of the ordered questions are visible.

    Evidence that names no message counts as inserted when a later session starts, or with the last message.
    """
    coordinates = [_coordinate(question) for question in questions]
    steps: list[ConversationTest] = []
    before = visible = 0
    for session in conversation.sessions:
        count = len(session.messages)
        for first in range(0, count, PACKET):
            last = min(first + PACKET, count)
            while visible < len(coordinates) and coordinates[visible] <= (session.number, last):
                visible += 1
            steps.append(ConversationTest(before + last, visible))
        before += count
    if steps:
        steps[-1] = ConversationTest(before, len(coordinates))
    return steps


def _tests_by_increment(
    steps: Iterable[ConversationTest], valid: int, segments: int
) -> Iterator[ConversationTest]:
    """Questions beyond a segment are not carried over: the next segment counts from what was visible."""
    least = max(1, valid // segments)
    asked = 0
    for step in steps:
        if step.visible - asked >= least:
            asked = step.visible
            yield step


def _tests_by_segments(
    steps: Iterable[ConversationTest], valid: int, segments: int
) -> Iterator[ConversationTest]:
    """Marks stand at each part of all questions, rounded half to even. A mark at 0 questions is dropped."""
    marks = sorted({round(valid * part / segments) for part in range(1, segments + 1)} - {0})
    for step in steps:
        if marks and step.visible >= marks[0]:
            marks.pop(0)
            yield step


def _coordinate(question: ConversationQuestion) -> Coordinate:
    assert question.coordinate is not None, "Conversation.of sets aside questions that cannot be asked"
    return question.coordinate
