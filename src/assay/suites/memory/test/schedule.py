"""Plans the tests of a conversation: after how many messages a test runs, and which questions it asks.

Messages are inserted in packets of two. A packet never spans two sessions. A question becomes visible when the last
message of its evidence is inserted. Questions are sorted by that message, so the visible questions are always the
first ones, and a test is described by two numbers: messages inserted and questions visible. Questions without evidence
come last. Only a test after the last message asks them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from msgspec import Struct

from assay.core.errors import UsageError
from assay.suites.memory.conversation import PACKET, ConversationTest
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, Coordinate

INCREMENT, SEGMENTS = "increment", "segments"
TRIGGERS = (INCREMENT, SEGMENTS)
WHEN_VISIBLE, AT_END, BOTH, EVERY = "when-visible", "at-end", "both", "every:"


class ScheduleOptions(Struct, frozen=True, kw_only=True):
    """Which questions are asked, and when. See the options of the same names in `options.py`."""

    ask: str = WHEN_VISIBLE
    trigger: str = INCREMENT
    segments: int = 10
    final: bool = True
    categories: Sequence[str] = ()

    def check(self) -> None:
        """Raise UsageError if `ask` has an unknown value, or if it contradicts `final`."""
        if self.ask not in (WHEN_VISIBLE, AT_END, BOTH) and not self.interval:
            raise UsageError(
                f"--ask {self.ask!r} is unknown. Use when-visible, at-end, both, or every:N for a test after every N "
                "messages, such as every:50."
            )
        if self.asks_at_end and not self.final:
            raise UsageError(
                f"--ask {self.ask} asks all questions after the last message, and --no-final-test forbids it. Remove "
                "one of the two flags."
            )

    @property
    def asks_at_end(self) -> bool:
        """Whether a test after the last message asks all questions, also those without evidence."""
        return self.ask != WHEN_VISIBLE

    @property
    def interval(self) -> int:
        """N of `every:N`, and 0 with any other `ask`."""
        number = self.ask.removeprefix(EVERY)
        # At most 9 digits: no conversation is longer, and Python refuses to convert thousands of digits.
        valid = number != self.ask and number.isascii() and number.isdecimal() and len(number) <= 9
        return int(number) if valid else 0

    @property
    def threshold(self) -> str:
        """`test_threshold` of the output file: a sentence about when tests run."""
        if self.ask == AT_END:
            return "after the last dialog"
        if self.interval:
            return f"every {self.interval} dialogs, and after the last dialog"
        share = f"1/{self.segments} of total questions"
        return f"{share}, and after the last dialog" if self.ask == BOTH else share


def ordered_questions(
    conversation: Conversation, categories: Sequence[str] = (), *, unplaced: bool = False
) -> tuple[ConversationQuestion, ...]:
    """Return the questions in the order in which they become visible, ties in data order.

    Without categories all questions are returned. With `unplaced` those without evidence follow, in data order.
    `question_index` of the output counts from 1 in this order, so it is the same with and without them.
    """
    chosen = set(map(str, categories))

    def wanted(questions: Iterable[ConversationQuestion]) -> list[ConversationQuestion]:
        return [each for each in questions if not chosen or str(each.category) in chosen]

    placed = wanted(conversation.questions)
    placed.sort(key=lambda question: (_coordinate(question), question.source_index))
    return (*placed, *(wanted(conversation.unplaced) if unplaced else ()))


def plan_tests(conversation: Conversation, schedule: ScheduleOptions) -> list[ConversationTest]:
    """Return all tests of a conversation, in order. Each comes after more messages than the one before.

    `when-visible`: the tests of the trigger. A segment is the number of questions divided by `segments`. The trigger
    `increment` runs a test when a segment of questions has become visible since the last test; `segments` runs one
    when the visible questions reach the next multiple of a segment, at most one a packet. With `final`, a last test
    runs after the last message if some question was never asked.
    `both`: the same tests, and one after the last message that asks all questions.
    `every:N`: a test of the visible questions after every N messages, and the one after the last message.
    `at-end`: only the one after the last message.
    """
    questions = ordered_questions(conversation, schedule.categories)
    steps = visible_questions(conversation, questions)
    tests: list[ConversationTest] = []
    if schedule.interval:
        tests += _tests_at_intervals(steps, schedule.interval)
    elif schedule.ask != AT_END:
        rule = {INCREMENT: _tests_by_increment, SEGMENTS: _tests_by_segments}[schedule.trigger]
        tests += rule(steps, len(questions), schedule.segments)
    if not steps:
        return tests
    end = steps[-1]
    if schedule.asks_at_end:
        every = ordered_questions(conversation, schedule.categories, unplaced=True)
        end = ConversationTest(end.after, len(every))
        # A test at this place asks some of the same questions at the same age: it would be paid twice.
        tests = [test for test in tests if test.after < end.after]
    asked = 0 if schedule.asks_at_end or not tests else tests[-1].visible
    if schedule.final and end.visible > asked:
        tests.append(end)
    return tests


def visible_questions(conversation: Conversation, questions: Sequence[ConversationQuestion]) -> list[ConversationTest]:
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


def _tests_by_increment(steps: Iterable[ConversationTest], valid: int, segments: int) -> Iterator[ConversationTest]:
    """Yield a test for each segment of new questions. The next segment counts from all questions visible by then."""
    # With fewer questions than segments, every new question starts a test.
    least = max(1, valid // segments)
    asked = 0
    for step in steps:
        if step.visible - asked >= least:
            asked = step.visible
            yield step


def _tests_by_segments(steps: Iterable[ConversationTest], valid: int, segments: int) -> Iterator[ConversationTest]:
    """Yield a test for each multiple of a segment, rounded half to even. A multiple that rounds to 0 has no test."""
    marks = sorted({round(valid * part / segments) for part in range(1, segments + 1)} - {0})
    for step in steps:
        if marks and step.visible >= marks[0]:
            marks.pop(0)
            yield step


def _tests_at_intervals(steps: Iterable[ConversationTest], interval: int) -> Iterator[ConversationTest]:
    """Yield a test of the visible questions after each multiple of `interval` messages, at the end of its packet."""
    mark = interval
    for step in steps:
        if step.after < mark:
            continue
        # A packet may pass several multiples, if the interval is 1.
        mark = (step.after // interval + 1) * interval
        if step.visible:
            yield step


def _coordinate(question: ConversationQuestion) -> Coordinate:
    assert question.coordinate is not None, "Conversation.of moves questions without evidence to `unplaced`"
    return question.coordinate
