"""Loader for LongMemEval in its published schema.

An entry has the chats of one user and one question about them. It becomes a conversation with this question, asked
after the last message. The S, M and oracle files have the same schema.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec
from msgspec import Struct

from assay.core.errors import Problem
from assay.files.json_objects import FileObject
from assay.files.schema import Filled, Scalar, convert
from assay.suites.memory.test.conversation import Conversation, ConversationQuestion, ConversationSession, message_id
from assay.suites.memory.test.loaders import read_conversations, text_list

# Suffix of question ids whose question the chats do not answer.
ABSTENTION = "_abs"
_METADATA = ("question_id", "question_type", "question_date")
# A date of LongMemEval, such as `2023/05/20 (Sat) 02:21`. Such dates sort as texts: equal days have equal weekdays.
_DATE = re.compile(r"\d{4}/\d\d/\d\d \(\w{3}\) \d\d:\d\d", re.ASCII)


class LongMemEvalTurn(Struct):
    """A message of a chat. `has_answer` marks it as evidence."""

    role: str
    content: str
    has_answer: bool | None = None


class LongMemEvalEntry(Struct):
    """An entry. The three `haystack_` lists have the same length."""

    question_id: Filled
    question_type: str
    question: Filled
    answer: Scalar
    haystack_session_ids: str | list[str]
    haystack_dates: str | list[str]
    haystack_sessions: list[list[LongMemEvalTurn]]
    answer_session_ids: str | list[str]
    question_date: str | None = None


def conversations(path: Path) -> Iterator[Conversation]:
    """Load the entries of a file."""
    return read_conversations(path, _build)


def is_abstention(metadata: Mapping[str, Any]) -> bool:
    """Return whether the chats do not answer a question. LongMemEval marks it in the question's id."""
    return str(metadata.get("question_id")).endswith(ABSTENTION)


def _build(index: int, source: FileObject, problems: list[Problem]) -> Conversation | None:
    entry = convert(source.value, LongMemEvalEntry, source, problems)
    if not _same_lengths(source, problems) or entry is None:
        return None
    answer_ids = set(text_list(entry.answer_session_ids))
    sessions: list[ConversationSession] = []
    marked_messages: list[str] = []  # with `has_answer`
    session_messages: list[str] = []  # all messages of the sessions in `answer_session_ids`
    ids, dates = text_list(entry.haystack_session_ids), text_list(entry.haystack_dates)
    for number, position in enumerate(_in_order_of_time(dates), 1):
        name, turns = ids[position], entry.haystack_sessions[position]
        lines = [(turn.role, turn.content) for turn in turns]
        sessions.append(ConversationSession.of(number, dates[position], lines, name))
        for place, turn in enumerate(turns, 1):
            if turn.has_answer:
                marked_messages.append(message_id(number, place))
            if name in answer_ids:
                session_messages.append(message_id(number, place))
    filled = [session for session in sessions if session.messages]
    if not filled:
        problems.append(source.problem(("haystack_sessions",), "has no message"))
        return None
    # Entries without marks name at least the sessions with the answer.
    evidence = marked_messages or session_messages
    metadata: dict[str, Any] = {"evidence": evidence, "category": entry.question_type}
    for key in _METADATA:
        if source.value.get(key) is not None:
            metadata[key] = source.value[key]
    question = ConversationQuestion.of(
        entry.question,
        evidence,
        metadata,
        reference=entry.answer,
        sessions=tuple(dict.fromkeys(name for name in ids if name in answer_ids)),
        date=entry.question_date or "",
        abstention=is_abstention(metadata),
    )
    # The question refers to all chats, so it is asked at the end, not after its last piece of evidence. An entry
    # without evidence, such as an abstention, is asked too.
    last = filled[-1]
    question = msgspec.structs.replace(question, coordinate=(last.number, len(last.messages)))
    if question.abstention:
        # The marked messages only resemble the question. LongMemEval scores no retrieval of such entries either.
        question = msgspec.structs.replace(question, places=(), sessions=())
    return Conversation.of(index, entry.question_id, sessions, [question])


def _in_order_of_time(dates: list[str]) -> list[int]:
    """Return the positions of the sessions, oldest first. The oracle file does not sort its sessions; S and M do.

    Sessions with dates of another form stay in the order of the data.
    """
    positions = list(range(len(dates)))
    if all(_DATE.fullmatch(date) for date in dates):
        positions.sort(key=dates.__getitem__)
    return positions


def _same_lengths(source: FileObject, problems: list[Problem]) -> bool:
    """Return whether there is an id and a date for each session. Adds a problem if the lengths differ."""
    sessions = source.value.get("haystack_sessions")
    if not isinstance(sessions, list):
        return False
    same = True
    for key in ("haystack_session_ids", "haystack_dates"):
        values = source.value.get(key)
        count = 1 if isinstance(values, str) else len(values) if isinstance(values, list) else None
        if count is None:
            same = False
        elif count != len(sessions):
            same = False
            message = f"has {count} entries for {len(sessions)} sessions"
            problems.append(source.problem((key,), message))
    return same
