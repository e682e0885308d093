"""Loader for LoCoMo, conversations of two people over months, in the schema of `locomo10.json`."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, Struct

from assay.core.errors import Problem
from assay.files.json_objects import FileObject
from assay.files.schema import Filled, Scalar, convert, mismatch
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, ConversationSession, message_id
from assay.suites.memory.test.loaders import read_conversations, text_list
from assay.suites.memory.test.scorers import FIRST_PART, LIST_PARTS

# Labels for the screen. Output files keep the numbers, as the data has them.
CATEGORIES = {1: "multi-hop", 2: "temporal", 3: "open-domain", 4: "single-hop", 5: "adversarial"}
# LoCoMo's own evaluation has a special comparison for these two categories.
RULES = {1: LIST_PARTS, 3: FIRST_PART}
_ADVERSARIAL = 5
# At most 9 digits, as in evidence.
_SESSION = re.compile(r"session_([1-9]\d{0,8})", re.ASCII)


class LocomoMessage(Struct):
    """A message. With an image it has the `query` of the image search and a caption."""

    speaker: str
    text: str
    dia_id: str | None = None
    query: str | None = None
    blip_caption: str | None = None
    img_url: Any = None


class LocomoQuestion(Struct):
    """A question. `adversarial_answer`, the answer of a fooled model, is copied to the output as metadata."""

    question: Filled
    category: Annotated[int, Meta(description="a whole number (LoCoMo has 1 to 5)")]
    answer: Scalar | None = None
    evidence: str | list[str] | None = None


class LocomoSample(Struct):
    """A sample. `conversation` has its sessions under the keys session_1, session_2 and so on.

    LoCoMo's summaries and observations are ignored.
    """

    sample_id: Filled
    conversation: dict[str, Any]
    qa: list[LocomoQuestion]


def conversations(path: Path) -> Iterator[Conversation]:
    """Load the samples of a file."""
    return read_conversations(path, _build)


def is_abstention(metadata: Mapping[str, Any]) -> bool:
    """Return whether a question is adversarial: it asks for something that nobody said."""
    return metadata.get("category") == _ADVERSARIAL


def _build(index: int, source: FileObject, problems: list[Problem]) -> Conversation | None:
    sample = convert(source.value, LocomoSample, source, problems)
    sessions = _read_sessions(source, problems)
    if sample is None:
        return None
    if not any(session.messages for session in sessions):
        message = "has no session with a message; the keys of sessions are session_1, session_2 and so on"
        problems.append(source.problem(("conversation",), message))
    questions: list[ConversationQuestion] = []
    for place, question in enumerate(sample.qa):
        raw: dict[str, Any] = source.value["qa"][place]
        metadata = {key: value for key, value in raw.items() if key not in ("question", "answer")}
        questions.append(
            ConversationQuestion.of(
                question.question,
                text_list(question.evidence),
                metadata,
                reference=question.answer,
                source_index=place,
                abstention=is_abstention(metadata),
            )
        )
    return Conversation.of(index, sample.sample_id, sessions, questions)


def _read_sessions(source: FileObject, problems: list[Problem]) -> list[ConversationSession]:
    """Return the sessions sorted by number. LoCoMo has dates of sessions without messages; they are skipped."""
    talk = source.value.get("conversation")
    if not isinstance(talk, dict):
        return []
    numbers = []
    for key, value in talk.items():
        match = _SESSION.fullmatch(key)
        if match and value is not None:
            numbers.append(int(match[1]))
    sessions: list[ConversationSession] = []
    for number in sorted(numbers):
        key = f"session_{number}"
        date = talk.get(f"{key}_date_time")
        if date is not None and not isinstance(date, str):
            path = ("conversation", f"{key}_date_time")
            problems.append(source.problem(path, mismatch("a text", date)))
            date = None
        messages = convert(talk[key], list[LocomoMessage], source, problems, ("conversation", key))
        _check_dialog_ids(talk[key], number, source, problems)
        lines = [(message.speaker, _text(message)) for message in messages or []]
        sessions.append(ConversationSession.of(number, date or "", lines, key))
    return sessions


def _check_dialog_ids(messages: Any, session: int, source: FileObject, problems: list[Problem]) -> None:
    """Add a problem for each `dia_id` that differs from the position of its message.

    Evidence such as D1:3 is resolved by position, so it would point to the wrong message.
    """
    if not isinstance(messages, list):
        return
    for number, message in enumerate(messages, 1):
        dia_id = message.get("dia_id") if isinstance(message, dict) else None
        place = message_id(session, number)
        if isinstance(dia_id, str) and dia_id != place:
            text = f"is {dia_id!r}, but the message is at {place}; evidence refers to messages by position"
            key = ("conversation", f"session_{session}", number - 1, "dia_id")
            problems.append(source.problem(key, text))


def _text(message: LocomoMessage) -> str:
    """Return the text. An image is described by its search query and its caption."""
    parts = [part for part in (message.query, message.blip_caption) if part is not None]
    if not parts and message.img_url is None:
        return message.text
    return f"{message.text} (shows {', which is '.join(parts) or 'an image'})".lstrip()
