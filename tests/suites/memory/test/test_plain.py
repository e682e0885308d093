"""The schema `plain` for your own conversations."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from assay.core.memory import Turn
from assay.suites.memory.test.loaders import find_loader, plain

from suites.memory.test.files import EXAMPLES, loaded, problems


def talk(**more: Any) -> dict[str, Any]:
    return {"sessions": [{"messages": [{"text": "hi"}]}], "questions": [], **more}


def test_the_example() -> None:
    """The example has speakers and roles, dates and ids of sessions, numbers as answers, and extra keys of questions."""
    holiday, assistant = find_loader("plain").conversations(EXAMPLES / "plain.json")
    assert [session.id for session in holiday.sessions] == ["session_1", "after-the-call"]
    assert [message.id for message in holiday.messages] == ["D1:1", "D1:2", "D1:3", "D2:1", "D2:2"]
    assert [question.reference for question in holiday.questions] == ["Rufus", 15, "In the old mill", None]
    assert [question.abstention for question in holiday.questions] == [False, False, False, True]
    assert holiday.questions[2].metadata == {
        "evidence": ["D2:1"],
        "category": "update",
        "difficulty": "hard",
    }
    assert [message.line for message in assistant.messages] == [
        "user: Please remember that I am allergic to hazelnuts.",
        "assistant: I will keep that in mind.",
    ]


def test_one_conversation_needs_no_list_and_no_id(tmp_path: Path) -> None:
    """The default id is the position."""
    (conversation,) = loaded("plain", tmp_path / "data.json", talk())
    assert conversation.sample_id == "0000"


def test_evidence_may_be_one_text_or_absent(tmp_path: Path) -> None:
    """Without evidence a question is counted as invalid."""
    questions = [{"question": "a", "evidence": "D1:1"}, {"question": "b"}]
    (conversation,) = loaded("plain", tmp_path / "data.json", talk(questions=questions))
    assert [question.places for question in conversation.questions] == [("D1:1",)]
    assert [each.reason for each in conversation.invalid] == ["no_evidence"]
    assert [question.text for question in conversation.unplaced] == ["b"]


def test_a_question_may_have_a_date_and_a_message_a_role(tmp_path: Path) -> None:
    """The date is copied to the output too. Speakers such as Nora have no role."""
    messages = [{"role": "user", "content": "Hello."}, {"speaker": "Nora", "text": "Hi."}]
    question = {"question": "a", "evidence": "D1:1", "date": "2024-05-02"}
    value = talk(sessions=[{"messages": messages}], questions=[question])
    (conversation,) = loaded("plain", tmp_path / "data.json", value)
    assert (conversation.questions[0].date, conversation.questions[0].metadata["date"]) == ("2024-05-02",) * 2
    assert [message.turns for message in conversation.messages] == [(Turn("user", "Hello."),), ()]


def test_messages_about_unknown_keys_name_the_valid_keys(tmp_path: Path) -> None:
    """A mistyped key is an error. Questions may have any key except those of the output."""
    bad = talk(
        session=[],
        sessions=[{"dates": "x", "messages": [{"speeker": "A", "text": "hi"}]}],
        questions=[{"question": "?", "abstention": "yes", "evidence": ["D1:1"]}],
    )
    assert problems("plain", tmp_path / "data.json", bad) == [
        "$.sessions[0].dates: there is no key named 'dates'; did you mean 'date'?",
        "$.sessions[0].messages[0].speeker: there is no key named 'speeker'; did you mean 'speaker'?",
        "$.questions[0].abstention: must be true or false, not a text",
        "$.session: there is no key named 'session'; did you mean 'sessions'?",
    ]
    bad = talk(id="mine", questions=[{"question": "?", "error": "e", "evidence": ["D1:1"]}])
    assert problems("plain", tmp_path / "data.json", bad) == [
        "$ (mine, question 1): 'error' is a key of the output file; rename it in the data"
    ]


def test_every_key_is_explained() -> None:
    """The page documents every key that the loader reads."""
    page = (EXAMPLES.parents[1] / "docs" / "memory-test.md").read_text()
    schemas = (plain.PlainConversation, plain.PlainSession, plain.PlainMessage, plain.PlainQuestion)
    for key in (key for schema in schemas for key in schema.__struct_fields__):
        assert f"`{key}`" in page, key


def test_the_example_of_the_page_is_sound(tmp_path: Path) -> None:
    page = (EXAMPLES.parents[1] / "docs" / "memory-test.md").read_text()
    path = tmp_path / "data.json"
    path.write_text(page.partition("```json\n")[2].partition("```")[0])
    (conversation,) = find_loader("plain").conversations(path)
    assert len(conversation.questions) == 2
    assert not conversation.invalid
