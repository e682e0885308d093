"""When questions are asked: known sequences, and properties of every conversation."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from assay.core.errors import UsageError
from assay.core.memory import Message
from assay.suites.memory.conversation import ConversationTest, split_packets
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, ConversationSession
from assay.suites.memory.test.loaders import find_loader
from assay.suites.memory.test.schedule import (
    TRIGGERS,
    ScheduleOptions,
    ordered_questions,
    plan_tests,
    visible_questions,
)

ROOT = Path(__file__).parents[4]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/memory/talks.json").read_text())
TALKS = {each.sample_id: each for each in find_loader("locomo").conversations(ROOT / "examples/memory/talks.json")}


def packets_of(conversation: Conversation) -> list[Sequence[Message]]:
    """Return the packets of messages that a solver inserts."""
    return [packet for packet, _ in split_packets([each.messages for each in conversation.sessions])]


@pytest.mark.parametrize("sample", GOLDEN)
def test_packets_of_the_example(sample: str) -> None:
    """After each packet: its last message, how many messages are in, how many questions are visible."""
    talk = TALKS[sample]
    questions = ordered_questions(talk)
    assert len(questions) == GOLDEN[sample]["valid"]
    grown = visible_questions(talk, questions)
    packets = [packet[-1].id for packet in packets_of(talk)]
    rows = [[last, step.after, step.visible] for last, step in zip(packets, grown, strict=True)]
    assert rows == GOLDEN[sample]["packets"]


@pytest.mark.parametrize("sample", GOLDEN)
@pytest.mark.parametrize("index", range(6))
def test_sequences_of_the_example(sample: str, index: int) -> None:
    """Covers every trigger, with and without final test and categories."""
    golden = GOLDEN[sample]["sequences"][index]
    how = ScheduleOptions(**{key: golden[key] for key in ("trigger", "segments", "final", "categories")})
    tests = plan_tests(TALKS[sample], how)
    assert [[test.after, test.visible] for test in tests] == golden["tests"]


def talk(lengths: list[int], places: list[tuple[int, int]], unplaced: int = 0) -> Conversation:
    """Return a conversation with sessions of these lengths and a question for each coordinate.

    The data begins with `unplaced` questions without evidence.
    """
    sessions = [ConversationSession.of(number, "", [("A", "x")] * length) for number, length in enumerate(lengths, 1)]
    evidence: list[list[str]] = [[] for _ in range(unplaced)] + [[f"D{session}:{number}"] for session, number in places]
    questions = [
        ConversationQuestion.of(str(index), texts, {"category": index % 3}, source_index=index)
        for index, texts in enumerate(evidence)
    ]
    return Conversation.of(0, "x", sessions, questions)


def test_packets_never_cross_sessions() -> None:
    packets = [[each.id for each in packet] for packet in packets_of(talk([3, 0, 2], []))]
    assert packets == [["D1:1", "D1:2"], ["D1:3"], ["D3:1", "D3:2"]]


def test_evidence_beyond_a_session_waits_for_the_next_one_or_the_end() -> None:
    """D1:9 of four messages is there when session 2 starts; D2:9 and D7:1 with the last message."""
    conversation = talk([4, 4], [(1, 9), (2, 9), (7, 1)])
    assert [step.visible for step in visible_questions(conversation, ordered_questions(conversation))] == [
        0,
        0,
        1,
        3,
    ]


def test_questions_are_ordered_by_last_evidence_then_by_the_data() -> None:
    """Questions that become visible first come first, so their index is the same in every test."""
    conversation = talk([4, 12], [(2, 10), (2, 9), (1, 1), (2, 9)])
    assert [question.source_index for question in ordered_questions(conversation)] == [2, 1, 3, 0]


def test_categories_are_matched_as_texts() -> None:
    """Categories are numbers in the data and texts on the command line."""
    conversation = talk([4], [(1, 4), (1, 3), (1, 2), (1, 1)])
    assert [question.source_index for question in ordered_questions(conversation, ["0", "2"])] == [3, 2, 0]
    assert ordered_questions(conversation, ["9"]) == ()
    assert (
        plan_tests(conversation, ScheduleOptions(trigger="segments", segments=10, final=True, categories=["9"])) == []
    )


def test_an_increment_counts_from_what_was_visible() -> None:
    """Two surplus questions at the first test do not count for the next test."""
    conversation = talk([8], [(1, 1)] * 4 + [(1, 3)] + [(1, 5)] * 3)
    assert plan_tests(conversation, ScheduleOptions(trigger="increment", segments=4, final=False, categories=[])) == [
        ConversationTest(2, 4),
        ConversationTest(6, 8),
    ]


def test_segments_take_one_mark_at_a_packet() -> None:
    """Marks 2, 4, 6, 8: eight questions at once are asked packet by packet until the marks are used up."""
    conversation = talk([8], [(1, 1)] * 8)
    assert [
        test.after
        for test in plan_tests(conversation, ScheduleOptions(trigger="segments", segments=4, final=True, categories=[]))
    ] == [
        2,
        4,
        6,
        8,
    ]


def test_marks_are_rounded_half_to_even() -> None:
    """Of five questions in two parts the first mark is 2, not 3; of one in ten there is one mark."""
    five = talk([10], [(1, number) for number in (2, 4, 6, 8, 10)])
    assert [
        test.visible
        for test in plan_tests(five, ScheduleOptions(trigger="segments", segments=2, final=True, categories=[]))
    ] == [
        2,
        5,
    ]
    assert plan_tests(
        talk([4], [(1, 1)]), ScheduleOptions(trigger="segments", segments=10, final=True, categories=[])
    ) == [ConversationTest(2, 1)]


# A conversation of ten messages: two questions about the first one, one about the seventh, two without evidence.
TEN = talk([4, 6], [(1, 1), (1, 1), (2, 3)], unplaced=2)


@pytest.mark.parametrize(
    ("ask", "tests"),
    [
        ("when-visible", [(2, 2), (8, 3)]),
        ("at-end", [(10, 5)]),
        ("both", [(2, 2), (8, 3), (10, 5)]),
        ("every:1", [(2, 2), (4, 2), (6, 2), (8, 3), (10, 5)]),
        ("every:3", [(4, 2), (6, 2), (10, 5)]),
        ("every:99", [(10, 5)]),
    ],
)
def test_questions_are_asked_when_the_user_says(ask: str, tests: list[tuple[int, int]]) -> None:
    """Each pair is the messages inserted and the questions asked. Only the end asks those without evidence."""
    planned = plan_tests(TEN, ScheduleOptions(ask=ask))
    assert [(test.after, test.visible) for test in planned] == tests


def test_questions_without_evidence_come_last_and_move_no_number() -> None:
    """They are the first of the data. The numbers of the others are the same in every schedule."""
    placed = [question.source_index for question in ordered_questions(TEN)]
    assert placed == [2, 3, 4]
    assert [question.source_index for question in ordered_questions(TEN, unplaced=True)] == [*placed, 0, 1]
    of_category = ordered_questions(TEN, ["0"], unplaced=True)
    assert [question.source_index for question in of_category] == [3, 0]


def test_both_asks_at_the_end_although_nothing_new_is_visible() -> None:
    conversation = talk([8], [(1, 1)])
    assert [test.after for test in plan_tests(conversation, ScheduleOptions(ask="both"))] == [2, 8]
    # The test of the last packet asks everything already.
    last = talk([8], [(1, 8)])
    assert plan_tests(last, ScheduleOptions(ask="both")) == [ConversationTest(8, 1)]


@pytest.mark.parametrize("ask", ["", "sometimes", "every", "every:", "every:0", "every:-3", "every:x", "every:²"])
def test_an_unknown_schedule_is_refused(ask: str) -> None:
    with pytest.raises(UsageError, match=r"Use when-visible, at-end, both, or every:N"):
        ScheduleOptions(ask=ask).check()


def test_a_final_test_that_is_forbidden_cannot_be_asked_for() -> None:
    ScheduleOptions(final=False).check()
    with pytest.raises(UsageError, match="--no-final-test"):
        ScheduleOptions(ask="at-end", final=False).check()


@given(
    st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(any),
    st.lists(st.tuples(st.integers(1, 6), st.integers(1, 9)), max_size=12),
    st.integers(0, 3),
    st.sampled_from(["at-end", "both", "every:1", "every:2", "every:7"]),
)
def test_a_schedule_with_an_end_asks_every_question_after_the_last_message(
    lengths: list[int], places: list[tuple[int, int]], unplaced: int, ask: str
) -> None:
    """Every test comes after more messages than the one before, and the last one asks everything."""
    conversation = talk(lengths, places, unplaced)
    tests = plan_tests(conversation, ScheduleOptions(ask=ask))
    assert all(a.after < b.after and a.visible <= b.visible for a, b in pairwise(tests))
    count = len(places) + unplaced
    assert tests[-1:] == ([ConversationTest(sum(lengths), count)] if count else [])


CONVERSATIONS = st.builds(
    talk,
    st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(any),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=30),
)
HOW = st.builds(ScheduleOptions, trigger=st.sampled_from(TRIGGERS), segments=st.integers(1, 12), final=st.booleans())


@given(CONVERSATIONS, HOW)
def test_every_test_has_more_messages_than_the_previous_one(conversation: Conversation, how: ScheduleOptions) -> None:
    """Each test comes after more messages than the previous one and asks at least as many questions, at least one."""
    tests = plan_tests(conversation, how)
    assert all(a.after < b.after and a.visible <= b.visible for a, b in pairwise(tests))
    assert all(test.visible > 0 for test in tests)


@given(CONVERSATIONS, HOW)
def test_no_question_is_asked_before_its_evidence(conversation: Conversation, how: ScheduleOptions) -> None:
    """Every message that a question's evidence names and that exists is inserted when it is asked."""
    everything = [message.id for message in conversation.messages]
    questions = ordered_questions(conversation)
    for test in plan_tests(conversation, how):
        inserted = set(everything[: test.after])
        for question in questions[: test.visible]:
            assert not (set(question.places) & set(everything)) - inserted


@given(CONVERSATIONS, st.integers(1, 12))
def test_the_last_test_by_segments_asks_all_questions(conversation: Conversation, segments: int) -> None:
    """The last test asks all questions even without a final test, and there are at most as many tests as segments."""
    tests = plan_tests(conversation, ScheduleOptions(trigger="segments", segments=segments, final=False, categories=()))
    assert len(tests) <= segments
    assert [test.visible for test in tests[-1:]] == [len(conversation.questions)] * bool(conversation.questions)


@given(CONVERSATIONS, st.integers(1, 12))
def test_every_test_by_increment_has_a_segment_of_new_questions(conversation: Conversation, segments: int) -> None:
    """Every test except the final one has a full segment of new questions. The final test asks all questions."""
    least, count = max(1, len(conversation.questions) // segments), len(conversation.questions)
    tests = plan_tests(
        conversation, ScheduleOptions(trigger="increment", segments=segments, final=False, categories=())
    )
    seen = [0, *(test.visible for test in tests)]
    assert all(b - a >= least for a, b in pairwise(seen))
    final = plan_tests(conversation, ScheduleOptions(trigger="increment", segments=segments, final=True, categories=()))
    assert final[: len(tests)] == tests
    assert len(final) - len(tests) == (seen[-1] < count)
    assert [test.visible for test in final[-1:]] == [count] * bool(count)
