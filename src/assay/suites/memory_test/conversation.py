"""A conversation and what is asked about it: sessions of messages, and questions with their evidence.

Messages hold what a memory may see. Answers, evidence and marks of the data stand in questions only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from assay.core.errors import InputError, Problem
from assay.core.memory import Message

Place = tuple[int, int]
"""The number of a session, and of a message in it; both begin at 1."""
NO_EVIDENCE, UNPARSABLE = "no_evidence", "unparsable_evidence"
_ALWAYS = ("question_index", "question_text", "predicted_answer")
RESERVED = frozenset((*_ALWAYS, "reference_answer", "error", "source_index", "retrieved", "timings"))
"""Keys of an answered question that the file fills itself; metadata may not have them."""
_PLACE = re.compile(r"D:?(\d{1,9}):(\d{1,9})", re.ASCII)


def places_in(evidence: Iterable[str]) -> tuple[Place, ...]:
    """Every place that the texts name, each once: `D8:6; D9:17`, `D:11:26` and `D30:05` are read too."""
    found = ((int(a), int(b)) for text in evidence for a, b in _PLACE.findall(text))
    return tuple(dict.fromkeys(found))


def message_id(session: int, number: int) -> str:
    """The id of the message at a place: `D1:3`."""
    return f"D{session}:{number}"


class Question(Struct, frozen=True, kw_only=True):
    """One question. It may be asked when `coordinate` is inserted; None is never asked.

    `places` are the ids of the messages that answer it; some data names messages that are not there.
    """

    text: str
    category: Any = None
    reference: Any = None
    """The right answer as the data has it, a text or a number; None where there is none."""
    evidence: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    coordinate: Place | None = None
    source_index: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    """What else passes to the output, in this order; `evidence` and `category` as the data has them."""
    abstention: bool = False
    """Right is to say that the conversation does not tell."""

    @classmethod
    def of(cls, text: str, evidence: Iterable[str], metadata: dict[str, Any], **more: Any) -> Question:
        """A question that may be asked as soon as the last message of its evidence is there."""
        texts = tuple(evidence)
        places = places_in(texts)
        return cls(
            text=text,
            evidence=texts,
            places=tuple(message_id(*place) for place in places),
            coordinate=max(places, default=None),
            metadata=metadata,
            category=metadata.get("category"),
            **more,
        )

    @property
    def problem(self) -> str | None:
        """Why it cannot be asked; None if it can."""
        if self.coordinate is not None:
            return None
        return UNPARSABLE if self.evidence else NO_EVIDENCE


class Invalid(Struct, frozen=True):
    """A question that cannot be asked. `question_index` is its place in the data, from 1."""

    question_index: int
    question: str
    reason: str


class Session(Struct, frozen=True):
    """Messages of one date. `number` is what evidence calls it; numbers grow, and may have gaps."""

    id: str
    number: int
    date: str
    messages: tuple[Message, ...]

    @classmethod
    def of(cls, number: int, date: str, lines: Iterable[tuple[str, str]], name: str = "") -> Session:
        """A session of (speaker, text); without a name it is `session_1`."""
        name = name or f"session_{number}"
        messages = tuple(
            Message(message_id(number, at), text, speaker, name, date)
            for at, (speaker, text) in enumerate(lines, 1)
        )
        return cls(name, number, date, messages)


class Conversation(Struct, frozen=True):
    """One conversation, with the questions that can be asked in the order of the data."""

    index: int
    sample_id: str
    sessions: tuple[Session, ...]
    questions: tuple[Question, ...]
    invalid: tuple[Invalid, ...] = ()

    @classmethod
    def of(
        cls, index: int, sample_id: str, sessions: Iterable[Session], questions: Iterable[Question]
    ) -> Conversation:
        """Leaves out empty sessions, and sets aside what cannot be asked.

        InputError if a question's metadata has a key that the file fills itself.
        """
        asked = list(questions)
        _refuse_reserved(sample_id, asked)
        return cls(
            index,
            sample_id,
            tuple(session for session in sessions if session.messages),
            tuple(question for question in asked if question.problem is None),
            tuple(
                Invalid(question.source_index + 1, question.text, question.problem)
                for question in asked
                if question.problem is not None
            ),
        )

    @property
    def task_id(self) -> str:
        """Its number among the conversations of the data: `0000` is the first."""
        return f"{self.index:04d}"

    @property
    def messages(self) -> Iterator[Message]:
        """All messages in order."""
        return (message for session in self.sessions for message in session.messages)


def _refuse_reserved(sample_id: str, questions: Iterable[Question]) -> None:
    problems = [
        Problem(
            f"{sample_id}, question {question.source_index + 1}", f"{key!r} is a key of the output; rename it"
        )
        for question in questions
        for key in question.metadata
        if key in RESERVED
    ]
    if problems:
        raise InputError(problems)
