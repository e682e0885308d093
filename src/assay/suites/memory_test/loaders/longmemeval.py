"""LongMemEval: a question, and the chats of one user before it, in the published schema.

Each entry is a conversation with one question, which is asked after the last message.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec

from assay.core.nodes import Node
from assay.suites.memory_test.conversation import Conversation, Question, Session, message_id
from assay.suites.memory_test.reading import read

ABSTENTION = "_abs"
"""What the id of a question ends in that the chats do not answer."""
_TOLD = ("question_id", "question_type", "question_date")


class _Chat(NamedTuple):
    """One session as it stands there: its name, its messages, and which of them hold the answer."""

    name: str
    session: Session
    marked: list[str]


def conversations(path: Path) -> Iterator[Conversation]:
    """The entries of a file."""
    return read(path, _conversation)


def _conversation(index: int, node: Node) -> Conversation:
    chats = list(_chats(node))
    return Conversation.of(
        index, node["question_id"].filled(), [chat.session for chat in chats], [_question(node, chats)]
    )


def _chats(node: Node) -> Iterator[_Chat]:
    sessions = node["haystack_sessions"].items()
    ids, dates = (node[f"haystack_{key}"].texts() for key in ("session_ids", "dates"))
    for key, found in (("session_ids", ids), ("dates", dates)):
        if len(found) != len(sessions):
            node[f"haystack_{key}"].note(f"has {len(found)} entries for {len(sessions)} sessions")
            return
    for number, (name, date, messages) in enumerate(zip(ids, dates, sessions, strict=True), 1):
        turns = messages.objects()
        lines = [(turn["role"].text(), turn["content"].text()) for turn in turns]
        marked = [message_id(number, at) for at, turn in enumerate(turns, 1) if _marked(turn)]
        yield _Chat(name, Session.of(number, date, lines, name), marked)


def _marked(turn: Node) -> bool:
    return "has_answer" in turn and turn["has_answer"].truth()


def _question(node: Node, chats: list[_Chat]) -> Question:
    """The evidence is what is marked; without a mark, all of the sessions that are named."""
    named = set(node["answer_session_ids"].texts())
    marked = [place for chat in chats for place in chat.marked]
    whole = [message.id for chat in chats if chat.name in named for message in chat.session.messages]
    places = tuple(marked or whole)
    filled = [chat.session for chat in chats if chat.session.messages]
    if not filled:
        node["haystack_sessions"].note("has no message")
    last = (filled[-1].number, len(filled[-1].messages)) if filled and places else None
    category = node["question_type"].text()
    told = {key: node[key].text() for key in _TOLD if key in node}
    question = Question.of(
        node["question"].filled(),
        places,
        {"evidence": list(places), "category": category, **told},
        reference=node["answer"].answer(),
        abstention=node["question_id"].text().endswith(ABSTENTION),
    )
    return msgspec.structs.replace(question, coordinate=last)
