"""Conversations: evidence is parsed from texts of the data, and only questions contain gold."""

from __future__ import annotations

import msgspec
import pytest

from assay.core.errors import InputError
from assay.core.memory import Turn
from assay.suites.memory.test.conversation import (
    Conversation,
    ConversationQuestion,
    ConversationSession,
    parse_evidence,
)


@pytest.mark.parametrize(
    ("evidence", "places"),
    [
        (["D1:3", "D1:5"], [(1, 3), (1, 5)]),
        (["D8:6; D9:17"], [(8, 6), (9, 17)]),
        (["D:11:26"], [(11, 26)]),
        (["D30:05"], [(30, 5)]),
        (["D9:1 D4:4 D4:6"], [(9, 1), (4, 4), (4, 6)]),
        (["D1:18", "D", "D1:20"], [(1, 18), (1, 20)]),
        (["D1:3", "D01:03"], [(1, 3)]),
        (["see above", "1:3", ""], []),
    ],
)
def test_places_of_evidence(evidence: list[str], places: list[tuple[int, int]]) -> None:
    """Every place in every text counts once. Texts without a place are ignored."""
    assert list(parse_evidence(evidence)) == places


def test_a_question_waits_for_its_last_evidence() -> None:
    """Coordinates are compared as numbers, session first: D10:1 comes after D9:17."""
    question = ConversationQuestion.of("?", ["D9:17", "D10:1", "D2:30"], {"category": 4})
    assert question.coordinate == (10, 1)
    assert question.places == ("D9:17", "D10:1", "D2:30")
    assert (question.category, question.problem) == (4, None)


def test_questions_without_usable_evidence_become_invalid() -> None:
    """An invalid question has its position in the data from 1 and a reason. The others keep their order."""
    questions = [
        ConversationQuestion.of("a", ["D1:1"], {}, source_index=0),
        ConversationQuestion.of("b", [], {}, source_index=1),
        ConversationQuestion.of("c", ["D", "x"], {}, source_index=2),
        ConversationQuestion.of("d", ["D1:1"], {}, source_index=3),
    ]
    conversation = Conversation.of(3, "x", [ConversationSession.of(1, "", [("A", "hi")])], questions)
    assert [question.text for question in conversation.questions] == ["a", "d"]
    assert [(each.question_index, each.question, each.reason) for each in conversation.invalid] == [
        (2, "b", "no_evidence"),
        (3, "c", "unparsable_evidence"),
    ]
    assert conversation.task_id == "0003"


def test_questions_without_usable_evidence_can_be_asked_at_the_end() -> None:
    """They stay whole, with their reference and their position in the data."""
    questions = [
        ConversationQuestion.of("a", ["D1:1"], {}),
        ConversationQuestion.of("b", [], {"category": 3}, reference="tea"),
    ]
    conversation = Conversation.of(0, "x", [ConversationSession.of(1, "", [("A", "hi")])], questions)
    (question,) = conversation.unplaced
    assert (question.text, question.reference, question.category, question.source_index) == ("b", "tea", 3, 1)


def test_questions_of_a_loader_that_does_not_count_are_numbered_in_order() -> None:
    questions = [ConversationQuestion.of(text, [], {}) for text in "abc"]
    conversation = Conversation.of(0, "x", [ConversationSession.of(1, "", [("A", "hi")])], questions)
    assert [each.question_index for each in conversation.invalid] == [1, 2, 3]


def test_a_question_has_the_sessions_of_its_evidence() -> None:
    """The data may name sessions itself. Messages that do not exist have no session."""
    sessions = [
        ConversationSession.of(1, "", [("A", "hi"), ("B", "ho")], "first"),
        ConversationSession.of(2, "", [("A", "hi")], "second"),
    ]
    questions = [
        ConversationQuestion.of("a", ["D2:1", "D1:1", "D1:2", "D7:1"], {}),
        ConversationQuestion.of("b", ["D1:1"], {}, sessions=("second",)),
        ConversationQuestion.of("c", [], {}),
    ]
    conversation = Conversation.of(0, "x", sessions, questions)
    assert [question.sessions for question in conversation.questions] == [("second", "first"), ("second",)]
    assert conversation.unplaced[0].sessions == ()


def test_speakers_that_are_roles_of_a_chat_become_turns() -> None:
    """The key of a message without roles has no trace of them, so that runs of such data go on."""
    session = ConversationSession.of(1, "", [("user", "hi"), ("Nora", "ho"), ("", "hm")])
    assert [message.turns for message in session.messages] == [(Turn("user", "hi"),), (), ()]
    assert [list(msgspec.to_builtins(message)) for message in session.messages] == [
        ["id", "text", "speaker", "session", "date", "turns"],
        ["id", "text", "speaker", "session", "date"],
        ["id", "text", "speaker", "session", "date"],
    ]


def test_sessions_number_their_messages_and_empty_ones_are_left_out() -> None:
    """A message has its id, its session and the date of the session."""
    sessions = [
        ConversationSession.of(1, "monday", []),
        ConversationSession.of(4, "friday", [("A", "hi"), ("B", "ho")]),
    ]
    conversation = Conversation.of(0, "x", sessions, [])
    assert [session.number for session in conversation.sessions] == [4]
    assert [(each.id, each.line, each.session, each.date) for each in conversation.messages] == [
        ("D4:1", "A: hi", "session_4", "friday"),
        ("D4:2", "B: ho", "session_4", "friday"),
    ]


def test_metadata_with_a_key_of_the_output_is_refused() -> None:
    """A metadata key that the output file fills itself is refused before the first request."""
    question = ConversationQuestion.of("?", ["D1:1"], {"error": "mine", "level": 1}, source_index=6)
    with pytest.raises(InputError, match="x, question 7: 'error' is a key of the output file"):
        Conversation.of(0, "x", [], [question])
