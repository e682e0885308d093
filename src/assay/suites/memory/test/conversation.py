"""A conversation and the questions about it.

Memories see messages and the texts of questions. Only scorers see answers, evidence and metadata, which is why all
three belong to questions. A loader of your own builds these objects:

    session = ConversationSession.of(1, "2024-05-02", [("Nora", "I booked the hut."), ("Ben", "Good.")])
    question = ConversationQuestion.of("Who booked?", ["D1:1"], {"category": "fact"}, reference="Nora")
    conversation = Conversation.of(0, "holiday", [session], [question])
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from msgspec import Struct, field
from msgspec.structs import replace

from assay.core.errors import InputError, Problem
from assay.core.memory import Message, chat_turns

# (session number, message number in the session). Both count from 1.
Coordinate = tuple[int, int]
# `source_index` of a question whose loader does not count. `Conversation.of` then counts.
NOT_COUNTED = -1
NO_EVIDENCE, UNPARSABLE = "no_evidence", "unparsable_evidence"
# Keys of a question in the output file. Metadata must not have them: it is written into the same object.
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
# At most 9 digits: a longer number is a typing error, and Python refuses to convert numbers of thousands of digits.
_EVIDENCE = re.compile(r"D:?(\d{1,9}):(\d{1,9})", re.ASCII)


def parse_evidence(texts: Iterable[str]) -> tuple[Coordinate, ...]:
    """Return the coordinates in the texts without repeats. LoCoMo has `D8:6; D9:17`, `D:11:26` and `D30:05` too."""
    coordinates: dict[Coordinate, None] = {}  # an ordered set
    for text in texts:
        for session, number in _EVIDENCE.findall(text):
            coordinates[int(session), int(number)] = None
    return tuple(coordinates)


def message_id(session: int, number: int) -> str:
    """Return the id of a message, such as `D1:3`."""
    return f"D{session}:{number}"


class ConversationQuestion(Struct, frozen=True, kw_only=True):
    """A question. It can be asked once the message at `coordinate` is inserted; without one, only at the end.

    `places` are the ids of the messages in its evidence. The conversation may lack some of them. `sessions` are the ids
    of the sessions with its evidence: those that the data names, else the sessions of `places`.
    """

    text: str
    category: Any = None
    reference: Any = None
    """The reference answer of the data, a text or a number. None if the data has none."""
    evidence: tuple[str, ...] = ()
    places: tuple[str, ...] = ()
    sessions: tuple[str, ...] = ()
    coordinate: Coordinate | None = None
    date: str = ""
    """The day on which the question is asked, if the data has one. Memories and prompts may use it."""
    source_index: int = NOT_COUNTED
    """The position in the data, counted from 0. By default `Conversation.of` counts."""
    metadata: dict[str, Any] = field(default_factory=dict)
    """Further keys for the output, in this order. They include `evidence` and `category` of the data."""
    abstention: bool = False
    """Whether the conversation does not contain the answer, so that the right reply is to say so."""

    @classmethod
    def of(cls, text: str, evidence: Iterable[str], metadata: dict[str, Any], **more: Any) -> ConversationQuestion:
        """Build a question that is asked after the last message of its evidence. `more` are further fields."""
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
        """The reason why no message of the conversation makes the question visible; None if one does."""
        if self.coordinate is not None:
            return None
        return UNPARSABLE if self.evidence else NO_EVIDENCE


class MessagePlace(NamedTuple):
    """The position of a message in its conversation, counted from 1, and the id of its session.

    The position is None if only the evidence of a question names the message, as in files without the messages.
    """

    position: int | None
    session: str


class InvalidQuestion(Struct, frozen=True):
    """A question that never becomes visible. `question_index` is its position in the data, counted from 1."""

    question_index: int
    question: str
    reason: str


class ConversationSession(Struct, frozen=True):
    """The messages of one date. Evidence refers to the session by `number`. Numbers ascend and may have gaps."""

    id: str
    number: int
    date: str
    messages: tuple[Message, ...]

    @classmethod
    def of(cls, number: int, date: str, lines: Iterable[tuple[str, str]], name: str = "") -> ConversationSession:
        """Build a session from (speaker, text) pairs. The default name is `session_{number}`.

        A speaker `user`, `assistant` or `system` is a role of a chat. Memories that know roles get it as a role.
        """
        name = name or f"session_{number}"
        messages = tuple(
            Message(message_id(number, place), text, speaker, name, date, chat_turns([(speaker, text)]))
            for place, (speaker, text) in enumerate(lines, 1)
        )
        return cls(name, number, date, messages)


class Conversation(Struct, frozen=True):
    """One conversation. `questions` become visible as it grows, in data order.

    `unplaced` are the other questions. Without usable evidence nobody knows when they can be answered, so they can only
    be asked at the end. `invalid` lists them for the output file, with the reason.
    """

    index: int
    sample_id: str
    sessions: tuple[ConversationSession, ...]
    questions: tuple[ConversationQuestion, ...]
    unplaced: tuple[ConversationQuestion, ...] = ()

    @classmethod
    def of(
        cls,
        index: int,
        sample_id: str,
        sessions: Iterable[ConversationSession],
        questions: Iterable[ConversationQuestion],
    ) -> Conversation:
        """Build a conversation. Drops empty sessions; questions without usable evidence become `unplaced`.

        Raises InputError if the metadata of a question has one of the RESERVED keys.
        """
        filled = tuple(session for session in sessions if session.messages)
        session_ids = {message.id: session.id for session in filled for message in session.messages}
        valid: list[ConversationQuestion] = []
        unplaced: list[ConversationQuestion] = []
        problems: list[Problem] = []
        for place, raw in enumerate(questions):
            found = raw.sessions or dict.fromkeys(session_ids[name] for name in raw.places if name in session_ids)
            source_index = place if raw.source_index == NOT_COUNTED else raw.source_index
            question = replace(raw, source_index=source_index, sessions=tuple(found))
            number = source_index + 1
            for key in question.metadata:
                if key in RESERVED:
                    message = f"{key!r} is a key of the output file; rename it in the data"
                    problems.append(Problem(f"{sample_id}, question {number}", message))
            if question.problem is None:
                valid.append(question)
            else:
                unplaced.append(question)
        if problems:
            raise InputError(problems)
        return cls(index, sample_id, filled, tuple(valid), tuple(unplaced))

    @property
    def invalid(self) -> list[InvalidQuestion]:
        """The unplaced questions as the format lists them."""
        return [
            InvalidQuestion(question.source_index + 1, question.text, question.problem or "")
            for question in self.unplaced
        ]

    @property
    def task_id(self) -> str:
        """The position in the data as the format writes it: `0000` is the first conversation."""
        return f"{self.index:04d}"

    @property
    def messages(self) -> Iterator[Message]:
        """All messages of all sessions in order."""
        return (message for session in self.sessions for message in session.messages)

    @property
    def places(self) -> dict[str, MessagePlace]:
        """Where each message is, by its id."""
        return {message.id: MessagePlace(number, message.session) for number, message in enumerate(self.messages, 1)}
