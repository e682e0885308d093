"""The schema of LoCoMo, tested on the example file and on small files."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import msgspec

from assay.core.memory import Message
from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.loaders import find_loader
from assay.suites.memory.test.pipeline_caller import PipelineCaller

from suites.memory.test.files import EXAMPLES, loaded, problems

TALKS = list(find_loader("locomo").conversations(EXAMPLES / "talks.json"))


def sample(**more: Any) -> dict[str, Any]:
    talk = {"session_1": [{"speaker": "A", "dia_id": "D1:1", "text": "hi"}]}
    return {"sample_id": "x", "conversation": talk, "qa": [], **more}


def one(tmp_path: Path, **more: Any) -> Conversation:
    (conversation,) = loaded("locomo", tmp_path / "data.json", [sample(**more)])
    return conversation


def test_the_examples_have_what_a_loader_must_know() -> None:
    """The example file covers all categories, both kinds of invalid questions, images, and sessions of odd length."""
    assert [talk.sample_id for talk in TALKS] == ["talk-01", "talk-02", "talk-03"]
    for talk in TALKS:
        assert 4 <= len(talk.sessions) <= 6
        assert all(12 <= len(session.messages) <= 20 for session in talk.sessions)
        assert 20 <= len(talk.questions) + len(talk.invalid) <= 30
        assert Counter(question.category for question in talk.questions).keys() == {1, 2, 3, 4, 5}
        assert any("(shows " in message.text for message in talk.messages)
    invalid = [each.reason for talk in TALKS for each in talk.invalid]
    assert invalid == ["no_evidence", "unparsable_evidence", "no_evidence"]


def test_statistics_of_an_example() -> None:
    """A session with only a date does not count, and the evidence of question 23 is unparsable."""
    assert PipelineCaller(TALKS[1]).dataset_statistics == {
        "total_sessions": 4,
        "total_dialogs": 64,
        "total_questions": 26,
        "valid_questions": 25,
        "invalid_questions": [
            {
                "question_index": 23,
                "question": "Is Priya's opinion of Tom as a sailor high?",
                "reason": "unparsable_evidence",
            }
        ],
    }


def test_an_image_is_described_by_query_and_caption(tmp_path: Path) -> None:
    """Query and caption are both optional. URLs are left out."""
    base = {"speaker": "A", "text": "Look.", "img_url": ["https://x"]}
    turns = [{**base, "query": "q", "blip_caption": "c"}, {**base, "blip_caption": "c"}, base]
    conversation = one(tmp_path, conversation={"session_1": turns})
    assert [message.text for message in conversation.messages] == [
        "Look. (shows q, which is c)",
        "Look. (shows c)",
        "Look. (shows an image)",
    ]


def test_messages_contain_no_gold() -> None:
    """Messages contain nothing but the conversation itself."""
    assert Message.__struct_fields__ == ("id", "text", "speaker", "session", "date", "turns")
    first = next(TALKS[0].messages)
    assert (first.id, first.speaker, first.session) == ("D1:1", "Mira", "session_1")
    assert first.date == "9:12 am on 4 March, 2024"


def test_a_conversation_survives_json() -> None:
    """Cases are stored as JSON."""
    for talk in TALKS:
        assert msgspec.json.decode(msgspec.json.encode(talk), type=Conversation) == talk


def test_sessions_are_ordered_by_number_and_empty_ones_are_skipped(tmp_path: Path) -> None:
    """Session 10 comes after session 2. A session without messages leaves a gap in the numbers."""
    turn = [{"speaker": "A", "text": "hi"}]
    talk = {
        "session_10": turn,
        "session_3": [],
        "session_2": turn,
        "session_4_date_time": "today",
        "session_5": None,
    }
    conversation = one(tmp_path, conversation=talk)
    assert [(each.number, each.date) for each in conversation.sessions] == [(2, ""), (10, "")]
    assert [message.id for message in conversation.messages] == ["D2:1", "D10:1"]


def test_answers_may_be_numbers_and_adversarial_ones_are_no_references(tmp_path: Path) -> None:
    """`adversarial_answer` is copied to the metadata; an `answer` in the same question stays the reference."""
    question = {"question": "?", "evidence": ["D1:1"]}
    conversation = one(
        tmp_path,
        qa=[
            {**question, "category": 2, "answer": 2022},
            {**question, "category": 5, "adversarial_answer": "trap"},
            {**question, "category": 5, "adversarial_answer": "trap", "answer": "No"},
        ],
    )
    assert [question.reference for question in conversation.questions] == [2022, None, "No"]
    assert [question.abstention for question in conversation.questions] == [False, True, True]
    assert conversation.questions[1].metadata == {
        "evidence": ["D1:1"],
        "category": 5,
        "adversarial_answer": "trap",
    }


def test_every_problem_is_reported_with_its_place(tmp_path: Path) -> None:
    """All problems of the file are reported at once."""
    bad = sample(
        conversation={"session_1": [{"speaker": 7, "dia_id": "D1:2"}]},
        qa=[{"question": " ", "category": "4", "answer": [], "evidence": [3]}, "what"],
    )
    del bad["sample_id"]
    messages = problems("locomo", tmp_path / "data.json", [sample(), bad])
    assert messages == [
        "$[1].qa[0].question: is empty",
        "$[1].qa[0].category: must be a whole number (LoCoMo has 1 to 5), not a text",
        "$[1].qa[0].answer: must be a text or a number, not a list",
        "$[1].qa[0].evidence[0]: must be a text, not a number",
        "$[1].qa[1]: must be an object, not a text",
        "$[1].sample_id: is missing",
        "$[1].conversation.session_1[0].speaker: must be a text, not a number",
        "$[1].conversation.session_1[0].text: is missing",
        "$[1].conversation.session_1[0].dia_id: is 'D1:2', but the message is at D1:1; evidence refers to messages by position",
    ]


def test_a_talk_without_messages_is_refused(tmp_path: Path) -> None:
    (message,) = problems("locomo", tmp_path / "data.json", [sample(conversation={"speaker_a": "A"})])
    assert message.startswith("$[0].conversation: has no session with a message")
