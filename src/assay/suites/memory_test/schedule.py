"""Plans the tests of a conversation: after how many messages a test runs, and which questions it asks.

Messages are inserted in packets of two. A packet never spans two sessions. A question becomes visible when the last
message of its evidence is inserted. Questions are sorted by that message, so the visible questions are always the
first ones, and a test is described by two numbers: messages inserted and questions visible.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from assay.solvers.memory.conversation import PACKET, ConversationTest
from assay.suites.memory_test.conversation import Conversation, ConversationQuestion, Coordinate

INCREMENT, SEGMENTS = "increment", "segments"
TRIGGERS = (INCREMENT, SEGMENTS)


class ScheduleOptions(Struct, frozen=True, kw_only=True):
    """Which questions are asked, and when. See the options of the same names in `options.py`."""

    trigger: str = INCREMENT
    segments: int = 10
    final: bool = True
    categories: Sequence[str] = ()


def ordered_questions(
    conversation: Conversation, categories: Sequence[str] = ()
) -> tuple[ConversationQuestion, ...]:
    """Return the questions in the order in which they become visible, ties in data order.

    Without categories all questions are returned. `question_index` of the output counts from 1 in this order.
    """
    chosen = set(map(str, categories))
    questions = [each for each in conversation.questions if not chosen or str(each.category) in chosen]
    return tuple(sorted(questions, key=lambda question: (_coordinate(question), question.source_index)))


def plan_tests(conversation: Conversation, schedule: ScheduleOptions) -> list[ConversationTest]:
    """Return all tests of a conversation, in order.

    A segment is the number of questions divided by `segments`.

    `increment`: a test runs when a segment of questions has become visible since the last test.
    `segments`: a test runs when the visible questions reach the next multiple of a segment. A packet starts at most
    one test, even if it passes several multiples.
    `final`: a last test runs after the last message if some question was never asked.
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
    """Return the messages inserted and the questions visible after each packet.

    Evidence may name a message that does not exist. Such a message counts as inserted when a later session starts,
    or with the last message of the conversation.
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
    # Evidence after the last message, such as D99:1, is never reached above.
    if steps:
        steps[-1] = ConversationTest(before, len(coordinates))
    return steps


def _tests_by_increment(
    steps: Iterable[ConversationTest], valid: int, segments: int
) -> Iterator[ConversationTest]:
    """Yield a test for each segment of new questions. The next segment counts from all questions visible by then."""
    # With fewer questions than segments, every new question starts a test.
    least = max(1, valid // segments)
    asked = 0
    for step in steps:
        if step.visible - asked >= least:
            asked = step.visible
            yield step


def _tests_by_segments(
    steps: Iterable[ConversationTest], valid: int, segments: int
) -> Iterator[ConversationTest]:
    """Yield a test for each multiple of a segment, rounded half to even. A multiple that rounds to 0 has no test."""
    marks = sorted({round(valid * part / segments) for part in range(1, segments + 1)} - {0})
    for step in steps:
        if marks and step.visible >= marks[0]:
            marks.pop(0)
            yield step


def _coordinate(question: ConversationQuestion) -> Coordinate:
    assert question.coordinate is not None, "Conversation.of moves questions without evidence to `invalid`"
    return question.coordinate
