"""When questions are asked: the known sequences, and what holds of every conversation."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from assay.suites.memory_test import trigger
from assay.suites.memory_test.conversation import Conversation, Question, Session
from assay.suites.memory_test.loaders import loader

ROOT = Path(__file__).parents[3]
GOLDEN: dict[str, Any] = json.loads((ROOT / "tests/golden/memory/talks.json").read_text())
TALKS = {each.sample_id: each for each in loader("locomo").conversations(ROOT / "examples/memory/talks.json")}


@pytest.mark.parametrize("sample", GOLDEN)
def test_packets_of_the_example(sample: str) -> None:
    """After each packet: its last message, how many messages are in, how many questions are visible."""
    talk = TALKS[sample]
    questions = trigger.asked(talk)
    assert len(questions) == GOLDEN[sample]["valid"]
    grown = trigger.growth(talk, questions)
    packets = [packet[-1].id for packet in trigger.packets(talk)]
    found = [[last, step.after, step.visible] for last, step in zip(packets, grown, strict=True)]
    assert found == GOLDEN[sample]["packets"]


@pytest.mark.parametrize("sample", GOLDEN)
@pytest.mark.parametrize("at", range(6))
def test_sequences_of_the_example(sample: str, at: int) -> None:
    """Every rule, with and without a final test and categories."""
    golden = GOLDEN[sample]["sequences"][at]
    how = (golden[key] for key in ("trigger", "segments", "final", "categories"))
    tests = trigger.tests_of(TALKS[sample], *how)
    assert [[test.after, test.visible] for test in tests] == golden["tests"]


def talk(lengths: list[int], places: list[tuple[int, int]]) -> Conversation:
    """Sessions of so many messages, and a question for each place."""
    sessions = [Session.of(at, "", [("A", "x")] * length) for at, length in enumerate(lengths, 1)]
    questions = [
        Question.of(str(at), [f"D{session}:{number}"], {"category": at % 3}, source_index=at)
        for at, (session, number) in enumerate(places)
    ]
    return Conversation.of(0, "x", sessions, questions)


def test_packets_never_cross_sessions() -> None:
    found = [[each.id for each in packet] for packet in trigger.packets(talk([3, 0, 2], []))]
    assert found == [["D1:1", "D1:2"], ["D1:3"], ["D3:1", "D3:2"]]


def test_evidence_beyond_a_session_waits_for_the_next_one_or_the_end() -> None:
    """D1:9 of four messages is there when session 2 starts; D2:9 and D7:1 with the last message."""
    made = talk([4, 4], [(1, 9), (2, 9), (7, 1)])
    assert [step.visible for step in trigger.growth(made, trigger.asked(made))] == [0, 0, 1, 3]


def test_questions_are_ordered_by_last_evidence_then_by_the_data() -> None:
    """So that those visible first are first, and their index never shifts."""
    made = talk([4, 12], [(2, 10), (2, 9), (1, 1), (2, 9)])
    assert [question.source_index for question in trigger.asked(made)] == [2, 1, 3, 0]


def test_categories_are_matched_as_texts() -> None:
    """The data has numbers, a command line texts; the order is that of what is left."""
    made = talk([4], [(1, 4), (1, 3), (1, 2), (1, 1)])
    assert [question.source_index for question in trigger.asked(made, ["0", "2"])] == [3, 2, 0]
    assert trigger.asked(made, ["9"]) == ()
    assert trigger.tests_of(made, "segments", 10, final=True, categories=["9"]) == []


def test_an_increment_counts_from_what_was_visible() -> None:
    """Two questions more than needed at the first test are not carried over to the next one."""
    made = talk([8], [(1, 1)] * 4 + [(1, 3)] + [(1, 5)] * 3)
    assert trigger.tests_of(made, "increment", 4, final=False, categories=[]) == [
        trigger.Test(2, 4),
        trigger.Test(6, 8),
    ]


def test_segments_take_one_mark_at_a_packet() -> None:
    """Marks 2, 4, 6, 8: eight questions at once are asked packet by packet until the marks are used up."""
    made = talk([8], [(1, 1)] * 8)
    assert [test.after for test in trigger.tests_of(made, "segments", 4, final=True, categories=[])] == [
        2,
        4,
        6,
        8,
    ]


def test_marks_are_rounded_half_to_even() -> None:
    """Of five questions in two parts the first mark is 2, not 3; of one in ten there is one mark."""
    five = talk([10], [(1, number) for number in (2, 4, 6, 8, 10)])
    assert [test.visible for test in trigger.tests_of(five, "segments", 2, final=True, categories=[])] == [
        2,
        5,
    ]
    assert trigger.tests_of(talk([4], [(1, 1)]), "segments", 10, final=True, categories=[]) == [
        trigger.Test(2, 1)
    ]


CONVERSATIONS = st.builds(
    talk,
    st.lists(st.integers(0, 7), min_size=1, max_size=5).filter(any),
    st.lists(st.tuples(st.integers(0, 6), st.integers(0, 9)), max_size=30),
)
HOW = st.tuples(st.sampled_from(trigger.TRIGGERS), st.integers(1, 12), st.booleans(), st.just(()))


@given(CONVERSATIONS, HOW)
def test_tests_grow(made: Conversation, how: tuple[str, int, bool, tuple[str, ...]]) -> None:
    """Each comes after more messages than the one before, and asks no fewer questions, never none."""
    tests = trigger.tests_of(made, *how)
    assert all(a.after < b.after and a.visible <= b.visible for a, b in pairwise(tests))
    assert all(test.visible > 0 for test in tests)


@given(CONVERSATIONS, HOW)
def test_no_question_is_asked_before_its_evidence(
    made: Conversation, how: tuple[str, int, bool, tuple[str, ...]]
) -> None:
    """Every message that a question's evidence names and that exists is inserted when it is asked."""
    everything = [message.id for message in made.messages]
    questions = trigger.asked(made)
    for test in trigger.tests_of(made, *how):
        inserted = set(everything[: test.after])
        for question in questions[: test.visible]:
            assert not (set(question.places) & set(everything)) - inserted


@given(CONVERSATIONS, st.integers(1, 12))
def test_segments_end_complete(made: Conversation, segments: int) -> None:
    """Without a final test too, and with no more tests than segments."""
    tests = trigger.tests_of(made, "segments", segments, final=False, categories=())
    assert len(tests) <= segments
    assert [test.visible for test in tests[-1:]] == [len(made.questions)] * bool(made.questions)


@given(CONVERSATIONS, st.integers(1, 12))
def test_increments_are_large_enough(made: Conversation, segments: int) -> None:
    """Each but the final one has a segment's worth of new questions; the final one completes."""
    least, count = max(1, len(made.questions) // segments), len(made.questions)
    tests = trigger.tests_of(made, "increment", segments, final=False, categories=())
    seen = [0, *(test.visible for test in tests)]
    assert all(b - a >= least for a, b in pairwise(seen))
    final = trigger.tests_of(made, "increment", segments, final=True, categories=())
    assert final[: len(tests)] == tests
    assert len(final) - len(tests) == (seen[-1] < count)
    assert [test.visible for test in final[-1:]] == [count] * bool(count)
