"""People's own conversations, in a schema without anything that is not needed: see docs/memory-test.md."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from assay.core.nodes import Node
from assay.suites.memory_test.conversation import Conversation, Question, Session
from assay.suites.memory_test.reading import read

CONVERSATION_KEYS = ("id", "sessions", "questions")
SESSION_KEYS = ("id", "date", "messages")
MESSAGE_KEYS = ("speaker", "text", "role", "content")
QUESTION_KEYS = ("question", "answer", "evidence", "category", "abstention")
"""Other keys of a question pass to the output as they are."""
_OWN = ("question", "answer", "abstention")


def conversations(path: Path) -> Iterator[Conversation]:
    """The conversations of a file, a list of them or one."""
    return read(path, _conversation)


def _conversation(index: int, node: Node) -> Conversation:
    node.known(CONVERSATION_KEYS)
    sessions = [_session(number, session) for number, session in enumerate(node["sessions"].objects(), 1)]
    if sessions and not any(session.messages for session in sessions):
        node["sessions"].note("has no message")
    questions = [_question(at, question) for at, question in enumerate(node["questions"].objects())]
    name = node["id"].filled() if "id" in node else f"{index:04d}"
    return Conversation.of(index, name, sessions, questions)


def _session(number: int, node: Node) -> Session:
    node.known(SESSION_KEYS)
    name, date = (node[key].text() if key in node else "" for key in ("id", "date"))
    return Session.of(number, date, map(_line, node["messages"].objects()), name)


def _line(node: Node) -> tuple[str, str]:
    """A message as people write it, or as chats have it: `role` and `content`."""
    node.known(MESSAGE_KEYS)
    speaker = next((node[key].text() for key in ("speaker", "role") if key in node), "")
    return speaker, node["content" if "content" in node else "text"].text()


def _question(at: int, node: Node) -> Question:
    return Question.of(
        node["question"].filled(),
        node["evidence"].texts() if "evidence" in node else [],
        {key: value for key, value in node.mapping().items() if key not in _OWN},
        reference=node["answer"].answer() if "answer" in node else None,
        source_index=at,
        abstention="abstention" in node and node["abstention"].truth(),
    )
