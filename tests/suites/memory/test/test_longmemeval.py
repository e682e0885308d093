"""The published schema of LongMemEval, tested on an invented entry."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec

import assay
from assay.core.memory import Turn
from assay.suites.memory.conversation import ConversationTest
from assay.suites.memory.test.conversation import Conversation
from assay.suites.memory.test.loaders import find_loader
from assay.suites.memory.test.schedule import TRIGGERS, ScheduleOptions, plan_tests

from suites.memory.test.files import EXAMPLES, loaded, problems
from support.suite_files import problems_in

ENTRY: dict[str, Any] = {
    "question_id": "q1",
    "question_type": "single-session-user",
    "question": "Which tea does the user drink?",
    "answer": "Rooibos",
    "question_date": "2024/03/09 (Sat) 10:00",
    "haystack_session_ids": ["noise_1", "answer_1"],
    "haystack_dates": ["2024/03/01 (Fri) 09:00", "2024/03/05 (Tue) 20:15"],
    "haystack_sessions": [
        [{"role": "user", "content": "Hello."}, {"role": "assistant", "content": "Hi."}],
        [
            {"role": "user", "content": "I only drink rooibos.", "has_answer": True},
            {"role": "assistant", "content": "Noted.", "has_answer": False},
            {"role": "user", "content": "Thanks."},
        ],
    ],
    "answer_session_ids": ["answer_1"],
}


def one(tmp_path: Path, **more: Any) -> Conversation:
    (conversation,) = loaded("longmemeval", tmp_path / "data.json", [{**ENTRY, **more}])
    return conversation


def test_an_entry_is_a_conversation_with_one_question(tmp_path: Path) -> None:
    """Sessions keep their ids and dates. `has_answer` does not reach the messages."""
    conversation = one(tmp_path)
    assert (conversation.sample_id, [session.id for session in conversation.sessions]) == (
        "q1",
        ["noise_1", "answer_1"],
    )
    assert [(each.id, each.line) for each in conversation.messages][2:] == [
        ("D2:1", "user: I only drink rooibos."),
        ("D2:2", "assistant: Noted."),
        ("D2:3", "user: Thanks."),
    ]
    (question,) = conversation.questions
    assert question.metadata == {
        "evidence": ["D2:1"],
        "category": "single-session-user",
        "question_id": "q1",
        "question_type": "single-session-user",
        "question_date": "2024/03/09 (Sat) 10:00",
    }
    assert (question.reference, question.places, question.abstention) == ("Rooibos", ("D2:1",), False)
    assert (question.sessions, question.date) == (("answer_1",), "2024/03/09 (Sat) 10:00")


def test_the_example_is_sound() -> None:
    """One question about time, one about an update in unsorted sessions, one without an answer."""
    path = EXAMPLES / "longmemeval.json"
    assert problems_in(path) == []
    sail, desk, cat = find_loader("longmemeval").conversations(path)
    assert sail.questions[0].date == "2024/05/18 (Sat) 19:00"
    assert [session.id for session in desk.sessions] == ["answer_desk_1", "noise_soup", "answer_desk_2"]
    assert [each.questions[0].abstention for each in (sail, desk, cat)] == [False, False, True]


def test_messages_have_the_roles_of_the_chats(tmp_path: Path) -> None:
    """Each message is one turn, with the role and the text that the data has."""
    messages = list(one(tmp_path).messages)
    assert messages[3].turns == (Turn("assistant", "Noted."),)
    assert [message.turns[0].role for message in messages] == [
        "user",
        "assistant",
        "user",
        "assistant",
        "user",
    ]


def test_sessions_are_inserted_oldest_first(tmp_path: Path) -> None:
    """The oracle file does not sort its sessions. Message ids count in the order of insertion."""
    dates = list(reversed(ENTRY["haystack_dates"]))
    conversation = one(tmp_path, haystack_dates=dates)
    assert [session.id for session in conversation.sessions] == ["answer_1", "noise_1"]
    assert [session.date for session in conversation.sessions] == ENTRY["haystack_dates"]
    assert conversation.questions[0].places == ("D1:1",)
    assert conversation.questions[0].coordinate == (2, 2)


def test_sessions_with_dates_of_another_form_keep_their_order(tmp_path: Path) -> None:
    conversation = one(tmp_path, haystack_dates=["9 May", "10 May"])
    assert [session.id for session in conversation.sessions] == ["noise_1", "answer_1"]


def test_it_is_asked_after_the_last_message(tmp_path: Path) -> None:
    """The question waits for the last message although its evidence comes earlier."""
    conversation = one(tmp_path, answer_session_ids=["noise_1"])
    for rule in TRIGGERS:
        assert plan_tests(conversation, ScheduleOptions(trigger=rule, segments=10, final=False, categories=())) == [
            ConversationTest(5, 1)
        ]


def test_without_a_mark_the_sessions_of_the_answer_are_the_evidence(tmp_path: Path) -> None:
    """All messages of the answer sessions count as evidence."""
    plain = [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}] * 2]
    (question,) = one(tmp_path, haystack_sessions=plain).questions
    assert question.places == ("D2:1", "D2:2")


def test_an_entry_without_evidence_is_asked_too(tmp_path: Path) -> None:
    """It has no place to retrieve, but an answer, or none if it is an abstention."""
    plain = [[{"role": "user", "content": "a"}], [{"role": "user", "content": "b"}] * 2]
    conversation = one(tmp_path, haystack_sessions=plain, answer_session_ids=[])
    assert [(each.places, each.sessions) for each in conversation.questions] == [((), ())]
    assert plan_tests(conversation, ScheduleOptions()) == [ConversationTest(3, 1)]
    assert not conversation.invalid


MEMORY = """
from assay.core.memory import MemoryItem, SearchHit

class Calendar:
    def reset(self): ...
    def end_session(self): ...
    def items(self): return []
    def add(self, messages):
        self.roles = [turn.role for message in messages for turn in message.turns]
    def search(self, query, k):
        return [SearchHit(MemoryItem(f"{query.date}, {self.roles}", ""))]

def make(context): return Calendar()
"""


def test_a_memory_gets_the_roles_and_the_date_of_the_question(tmp_path: Path) -> None:
    (tmp_path / "calendar.py").write_text(MEMORY)
    (tmp_path / "data.json").write_bytes(msgspec.json.encode([ENTRY]))
    spec = assay.spec(
        "memory-test",
        dataset="longmemeval",
        data=str(tmp_path / "data.json"),
        memory=[f"{tmp_path / 'calendar.py'}:make"],
        no_answer=True,
        output_dir=str(tmp_path / "out"),
    )
    run = assay.run(spec)
    (path,) = [path for path in run.files if path.name == "0000.json"]
    (test,) = msgspec.json.decode(path.read_bytes())["test_results"]
    assert test["questions"][0]["retrieved"] == ["2024/03/09 (Sat) 10:00, ['user']"]


def test_the_suffix_of_an_id_marks_abstention(tmp_path: Path) -> None:
    (question,) = one(tmp_path, question_id="q1_abs").questions
    assert question.abstention
    assert question.reference == "Rooibos"
    assert question.metadata["evidence"] == ["D2:1"]
    assert (question.places, question.sessions) == ((), ()), "nothing in the chats is the answer"


def test_lists_of_different_length_are_refused(tmp_path: Path) -> None:
    bad = {**ENTRY, "haystack_dates": ["2024"], "answer": None}
    assert problems("longmemeval", tmp_path / "data.json", [bad]) == [
        "$[0].answer: must be a text or a number, not null",
        "$[0].haystack_dates: has 1 entries for 2 sessions",
    ]


def test_an_entry_without_a_message_is_refused(tmp_path: Path) -> None:
    bad = {**ENTRY, "haystack_sessions": [[], []]}
    assert problems("longmemeval", tmp_path / "data.json", [bad]) == ["$[0].haystack_sessions: has no message"]
