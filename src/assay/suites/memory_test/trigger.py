"""When questions are asked while a conversation grows: the rules, as pure functions.

Messages go in by packets of two of one session. A question is visible as soon as the last message of its
evidence is in. Questions are ordered by that message, so that the visible ones are always the first ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from assay.core.memory import Message
from assay.solvers.memory.conversation import PACKET
from assay.suites.memory_test.conversation import Conversation, Place, Question

INCREMENT, SEGMENTS = "increment", "segments"
TRIGGERS = (INCREMENT, SEGMENTS)


class Test(Struct, frozen=True):
    """One test: after so many messages, the first `visible` questions in their order."""

    __test__ = False  # pytest collects classes of this name

    after: int
    visible: int


def ordered(questions: Iterable[Question]) -> tuple[Question, ...]:
    """By last evidence, then by place in the data. `question_index` counts from 1 in this order."""
    return tuple(sorted(questions, key=lambda question: (_coordinate(question), question.source_index)))


def asked(conversation: Conversation, categories: Sequence[str] = ()) -> tuple[Question, ...]:
    """The questions of these categories in their order; without categories, all. Numbers match their text."""
    wanted = set(map(str, categories))
    questions = (each for each in conversation.questions if not wanted or str(each.category) in wanted)
    return ordered(questions)


def packets(conversation: Conversation) -> Iterator[tuple[Message, ...]]:
    """Two messages each, in order; the last one of a session of odd length stands alone."""
    for session in conversation.sessions:
        for at in range(0, len(session.messages), PACKET):
            yield session.messages[at : at + PACKET]


def growth(conversation: Conversation, questions: Sequence[Question]) -> list[Test]:
    """What each packet leads to. The questions stand in their order.

    Evidence that names no message counts as inserted when a later session starts, or with the last message.
    """
    coordinates = list(map(_coordinate, questions))
    grown: list[Test] = []
    before = visible = 0
    for session in conversation.sessions:
        count = len(session.messages)
        for first in range(0, count, PACKET):
            last = min(first + PACKET, count)
            while visible < len(coordinates) and coordinates[visible] <= (session.number, last):
                visible += 1
            grown.append(Test(before + last, visible))
        before += count
    if grown:
        grown[-1] = Test(before, len(coordinates))
    return grown


def tests_of(
    conversation: Conversation, trigger: str, segments: int, final: bool, categories: Sequence[str]
) -> list[Test]:
    """All tests of a conversation, in order.

    `increment`: whenever a segment's worth of questions has become visible since the last test.
    `segments`: when a multiple of a segment is reached, one multiple at a packet.
    `final`: once more after the last message, if some question has not been asked by then.
    """
    questions = asked(conversation, categories)
    grown = growth(conversation, questions)
    rule = {INCREMENT: _by_increment, SEGMENTS: _by_segments}[trigger]
    tests = list(rule(grown, len(questions), segments))
    last = tests[-1].visible if tests else 0
    if final and grown and grown[-1].visible > last:
        tests.append(grown[-1])
    return tests


def _by_increment(grown: Iterable[Test], valid: int, segments: int) -> Iterator[Test]:
    """What is more than a segment is not carried over: the next one counts from what was visible."""
    least, before = max(1, valid // segments), 0
    for step in grown:
        if step.visible - before >= least:
            before = step.visible
            yield step


def _by_segments(grown: Iterable[Test], valid: int, segments: int) -> Iterator[Test]:
    """Marks at each part of all questions, rounded half to even; a mark at no question is none."""
    marks = sorted({round(valid * part / segments) for part in range(1, segments + 1)} - {0})
    at = 0
    for step in grown:
        if at < len(marks) and step.visible >= marks[at]:
            at += 1
            yield step


def _coordinate(question: Question) -> Place:
    assert question.coordinate is not None, "a conversation sets aside what cannot be asked"
    return question.coordinate
