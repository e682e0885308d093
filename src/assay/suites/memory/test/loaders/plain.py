"""Loader for your own conversations. docs/memory-test.md describes this small schema."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from assay.core.errors import Problem
from assay.files.json_objects import FileObject
from assay.files.schema import Filled, KeyPath, Scalar, convert
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, ConversationSession
from assay.suites.memory.test.loaders import read_conversations, text_list

# These keys have their own fields in ConversationQuestion. All other keys are copied to the output.
_OWN_KEYS = ("question", "answer", "abstention")


class PlainMessage(Struct, forbid_unknown_fields=True):
    """A message, with `speaker` and `text`, or with `role` and `content` as in chat logs."""

    speaker: str | None = None
    text: str | None = None
    role: str | None = None
    content: str | None = None


class PlainSession(Struct, forbid_unknown_fields=True):
    """A session. The default id is `session_{number}`."""

    messages: list[PlainMessage]
    id: str | None = None
    date: str | None = None


class PlainQuestion(Struct):
    """A question. Unknown keys are allowed and copied to the output."""

    question: Filled
    answer: Scalar | None = None
    evidence: str | list[str] | None = None
    category: Any = None
    date: Scalar | None = None
    abstention: bool | None = None


class PlainConversation(Struct, forbid_unknown_fields=True):
    """A conversation. The default id is its position, `0000` for the first."""

    sessions: list[PlainSession]
    questions: list[PlainQuestion]
    id: Filled | None = None


def conversations(path: Path) -> Iterator[Conversation]:
    """Load a file with one conversation or a list of them."""
    return read_conversations(path, _build)


def _build(index: int, source: FileObject, problems: list[Problem]) -> Conversation | None:
    data = convert(source.value, PlainConversation, source, problems)
    # Checked on the raw value: `data` is None after any other problem, and this one would be reported only later.
    problems += [source.problem(path, "is missing") for path in _messages_without_text(source.value)]
    if data is None:
        return None
    sessions: list[ConversationSession] = []
    for number, session in enumerate(data.sessions, 1):
        lines: list[tuple[str, str]] = []
        for message in session.messages:
            text = message.text if message.content is None else message.content
            speaker = message.role if message.speaker is None else message.speaker
            lines.append((speaker or "", text or ""))
        sessions.append(ConversationSession.of(number, session.date or "", lines, session.id or ""))
    if sessions and not any(session.messages for session in sessions):
        problems.append(source.problem(("sessions",), "has no message"))
    questions: list[ConversationQuestion] = []
    for place, question in enumerate(data.questions):
        raw: dict[str, Any] = source.value["questions"][place]
        questions.append(
            ConversationQuestion.of(
                question.question,
                text_list(question.evidence),
                {key: value for key, value in raw.items() if key not in _OWN_KEYS},
                reference=question.answer,
                source_index=place,
                date="" if question.date is None else str(question.date),
                abstention=bool(question.abstention),
            )
        )
    return Conversation.of(index, data.id or f"{index:04d}", sessions, questions)


def _messages_without_text(value: dict[str, Any]) -> Iterator[KeyPath]:
    """Yield the key path of each missing `text`. A message needs `text` or `content`, which no schema can express."""
    sessions = value.get("sessions")
    for place, session in enumerate(sessions if isinstance(sessions, list) else []):
        messages = session.get("messages") if isinstance(session, dict) else None
        for number, message in enumerate(messages if isinstance(messages, list) else []):
            if isinstance(message, dict) and message.get("text") is None and message.get("content") is None:
                yield "sessions", place, "messages", number, "text"
