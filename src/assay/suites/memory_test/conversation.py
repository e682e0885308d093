"""A conversation and the questions about it.

Messages hold what a memory may see. Answers, evidence and the data's own marks stand in questions only. A loader of
your own builds these objects:

    session = ConversationSession.of(1, "2024-05-02", [("Nora", "I booked the hut."), ("Ben", "Good.")])
    question = ConversationQuestion.of("Who booked?", ["D1:1"], {"category": "fact"}, reference="Nora")
    conversation = Conversation.of(0, "holiday", [session], [question])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from msgspec import Struct, field

from assay.core.errors import InputError, Problem
from assay.core.memory import Message

# The number of a session, and the number of a message in it. Both begin at 1.
Coordinate = tuple[int, int]
NO_EVIDENCE, UNPARSABLE = "no_evidence", "unparsable_evidence"
# Keys that the output fills for each question. Metadata of the data may not have them.
RESERVED = frozenset(
    {
        "question_index",
        "question_text",
        "predicted_answer",
        "reference_answer",
        "error",
        "source_index",
        "retrieved",
        "timings",
    }
)
_EVIDENCE = re.compile(r"D:?(\d{1,9}):(\d{1,9})", re.ASCII)


def parse_evidence(texts: Iterable[str]) -> tuple[Coordinate, ...]:
    """Return every coordinate that the texts name, each once. Reads `D8:6; D9:17`, `D:11:26` and `D30:05`."""
    coordinates: dict[Coordinate, None] = {}  # an ordered set
    for text in texts:
        for session, number in _EVIDENCE.findall(text):
            coordinates[int(session), int(number)] = None
    return tuple(coordinates)


def message_id(session: int, number: int) -> str:
    """Return the id of a message, such as `D1:3`."""
    return f"D{session}:{number}"


class ConversationQuestion(Struct, frozen=True, kw_only=True):
    """One question. It may be asked once `coordinate` is inserted; without a coordinate it is never asked.

    `places` are the ids of the messages that answer it. Some data names messages that are not there.
    """

    text: str
    category: Any = None
    reference: Any = None
    """The right answer as the data has it, a text or a number. None where the data has none."""
    evidence: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    coordinate: Coordinate | None = None
    source_index: int = 0
    metadata: dict[str, Any] = field(default_factory=dict)
    """Everything else that passes to the output, in this order, with the data's `evidence` and `category`."""
    abstention: bool = False
    """The right answer is that the conversation does not tell."""

    @classmethod
    def of(
        cls, text: str, evidence: Iterable[str], metadata: dict[str, Any], **more: Any
    ) -> ConversationQuestion:
        """Build a question that may be asked as soon as the last message of its evidence is inserted."""
        texts = tuple(evidence)
        coordinates = parse_evidence(texts)
        return cls(
            text=text,
            evidence=texts,
            places=tuple(message_id(*coordinate) for coordinate in coordinates),
            coordinate=max(coordinates, default=None),
            metadata=metadata,
            category=metadata.get("category"),
            **more,
        )

    @property
    def problem(self) -> str | None:
        """Why the question cannot be asked; None if it can."""
        if self.coordinate is not None:
            return None
        return UNPARSABLE if self.evidence else NO_EVIDENCE


class InvalidQuestion(Struct, frozen=True):
    """A question that cannot be asked. `question_index` is its place in the data, counted from 1."""

    question_index: int
    question: str
    reason: str


class ConversationSession(Struct, frozen=True):
    """Messages of one date. `number` is what evidence calls the session; numbers grow, and may have gaps."""

    id: str
    number: int
    date: str
    messages: tuple[Message, ...]

    @classmethod
    def of(
        cls, number: int, date: str, lines: Iterable[tuple[str, str]], name: str = ""
    ) -> ConversationSession:
        """Build a session of (speaker, text) pairs. Without a name it is called `session_1`."""
        name = name or f"session_{number}"
        messages = tuple(
            Message(message_id(number, place), text, speaker, name, date)
            for place, (speaker, text) in enumerate(lines, 1)
        )
        return cls(name, number, date, messages)


class Conversation(Struct, frozen=True):
    """One conversation. `questions` are those that can be asked, in the order of the data."""

    index: int
    sample_id: str
    sessions: tuple[ConversationSession, ...]
    questions: tuple[ConversationQuestion, ...]
    invalid: tuple[InvalidQuestion, ...] = ()

    @classmethod
    def of(
        cls,
        index: int,
        sample_id: str,
        sessions: Iterable[ConversationSession],
        questions: Iterable[ConversationQuestion],
    ) -> Conversation:
        """Build a conversation without empty sessions. Questions that cannot be asked become `invalid`.

        Raises InputError if a question's metadata has a key that the output fills itself.
        """
        valid: list[ConversationQuestion] = []
        invalid: list[InvalidQuestion] = []
        problems: list[Problem] = []
        for question in questions:
            number = question.source_index + 1
            for key in question.metadata:
                if key in RESERVED:
                    message = f"{key!r} is a key of the output; rename it"
                    problems.append(Problem(f"{sample_id}, question {number}", message))
            if question.problem is None:
                valid.append(question)
            else:
                invalid.append(InvalidQuestion(number, question.text, question.problem))
        if problems:
            raise InputError(problems)
        filled = tuple(session for session in sessions if session.messages)
        return cls(index, sample_id, filled, tuple(valid), tuple(invalid))

    @property
    def task_id(self) -> str:
        """Its number among the conversations of the data: `0000` is the first."""
        return f"{self.index:04d}"

    @property
    def messages(self) -> Iterator[Message]:
        """All messages in order."""
        return (message for session in self.sessions for message in session.messages)
