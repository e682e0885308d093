"""A sample: sessions with turns and memory points, and questions at checkpoints.

`sample_inputs` builds what a memory sees: turns and questions. Points, answers and evidence are gold, and only scorers
see them.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct, field

from assay.core.memory import Message, chat_turns
from assay.suites.memory.sessions import SampleInputs, SessionInputs, SessionQuestion

USER = "user"


class SampleTurn(Struct, frozen=True):
    """One message of a dialogue. `captions` describe its images."""

    role: str
    content: str
    timestamp: str = ""
    captions: tuple[str, ...] = ()


class MemoryPoint(Struct, frozen=True):
    """A fact that a memory should store, or with `interference` should not. `raw` is the point as in the data."""

    memory_id: str
    content: str
    interference: bool = False
    update: bool = False
    original: tuple[str, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)


class SampleSession(Struct, frozen=True):
    """One session and its memory points."""

    id: str
    turns: tuple[SampleTurn, ...]
    points: tuple[MemoryPoint, ...] = ()

    @property
    def new(self) -> list[MemoryPoint]:
        """The points that are neither updates nor interference."""
        return [point for point in self.points if not (point.update or point.interference)]

    @property
    def updates(self) -> list[MemoryPoint]:
        """The points that replace earlier points."""
        return [point for point in self.points if point.update and not point.interference]

    @property
    def interference(self) -> list[MemoryPoint]:
        """The points that a memory should not store."""
        return [point for point in self.points if point.interference]


class SampleQuestion(Struct, frozen=True, kw_only=True):
    """A question. `evidence` has the ids of the data, `contents` the texts of those that are memory points."""

    text: str
    answer: str
    evidence: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    type: str = ""
    abbrev: str = ""
    difficulty: str = ""
    date: str = ""
    """The day on which the question is asked, if the data has one. Memories and prompts may use it."""


class Checkpoint(Struct, frozen=True):
    """Questions that are asked once, after the last session in `covered`; at the end if `covered` is empty."""

    id: str
    covered: tuple[str, ...]
    questions: tuple[SampleQuestion, ...]


class AskedQuestion(NamedTuple):
    """A question with its checkpoint. `part` identifies it: `probe_e980c238/1` is the first one of that checkpoint."""

    checkpoint: str
    part: str
    question: SampleQuestion


class Sample(Struct, frozen=True, dict=True):
    """One sample. `sample_uuid` is only copied to the output."""

    sample_id: str
    sample_uuid: str
    sessions: tuple[SampleSession, ...]
    checkpoints: tuple[Checkpoint, ...]

    def questions_after(self, session: str) -> Sequence[AskedQuestion]:
        """Return the questions to ask after this session, in data order."""
        return self._questions.get(session, ())

    @cached_property
    def _questions(self) -> dict[str, list[AskedQuestion]]:
        positions = {session.id: position for position, session in enumerate(self.sessions)}
        questions: dict[str, list[AskedQuestion]] = {}
        for checkpoint in self.checkpoints:
            # The latest in data order: `covered` may list sessions in any order.
            last = max((positions[name] for name in checkpoint.covered), default=len(self.sessions) - 1)
            session_questions = questions.setdefault(self.sessions[last].id, [])
            for number, question in enumerate(checkpoint.questions, 1):
                session_questions.append(AskedQuestion(checkpoint.id, f"{checkpoint.id}/{number}", question))
        return questions

    @cached_property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """The messages of each session, one per round. Ids count from 0 through the whole sample."""
        number = 0
        messages: dict[str, tuple[Message, ...]] = {}
        for session in self.sessions:
            session_messages = []
            for turns in _rounds(session.turns):
                text = "\n".join(f"{turn.role}: {turn.content}{_captions(turn)}" for turn in turns)
                date = next((turn.timestamp for turn in turns if turn.timestamp), "")
                lines = chat_turns((turn.role, turn.content + _captions(turn)) for turn in turns)
                session_messages.append(Message(str(number), text, "", session.id, date, lines))
                number += 1
            messages[session.id] = tuple(session_messages)
        return messages

    @cached_property
    def mean_message_length(self) -> float:
        """The average number of characters of a message, for the estimates of --dry-run."""
        lengths = [len(message.text) for messages in self.messages.values() for message in messages]
        return sum(lengths) / len(lengths) if lengths else 0.0

    def first_sessions(self, count: int | None) -> tuple[Sample, int]:
        """Return the sample with its first `count` sessions, and the number of checkpoints that this removes.

        A checkpoint that names no session belongs to the end of the whole sample, so a cut removes it too.
        """
        if count is None or count >= len(self.sessions):
            return self, 0
        sessions = self.sessions[:count]
        session_ids = {session.id for session in sessions}
        checkpoints = tuple(each for each in self.checkpoints if each.covered and session_ids.issuperset(each.covered))
        removed = len(self.checkpoints) - len(checkpoints)
        return Sample(self.sample_id, self.sample_uuid, sessions, checkpoints), removed


def sample_inputs(sample: Sample, memory: str, *, evidence: bool) -> SampleInputs:
    """Return everything that a memory sees of a sample.

    With `evidence` each question also has the ids of the messages with its evidence. This is gold, only for memories
    with `needs_evidence`.
    """
    message_ids: dict[str, tuple[str, ...]] = {}
    if evidence:
        # The data names only the session of a point, so all messages of that session count as evidence.
        for session in sample.sessions:
            ids = tuple(message.id for message in sample.messages[session.id])
            for point in session.points:
                message_ids[point.memory_id] = ids
    sessions = []
    for session in sample.sessions:
        questions = []
        for _, part, question in sample.questions_after(session.id):
            evidence_ids = [each for name in question.evidence for each in message_ids.get(name, ())]
            ids = tuple(dict.fromkeys(evidence_ids))
            questions.append(SessionQuestion(part, question.text, ids, question.date))
        sessions.append(SessionInputs(session.id, sample.messages[session.id], tuple(questions)))
    return SampleInputs(memory, tuple(sessions))


def _rounds(turns: Sequence[SampleTurn]) -> list[list[SampleTurn]]:
    """Group turns into rounds. A round is a user turn and all turns up to the next user turn."""
    rounds: list[list[SampleTurn]] = []
    for turn in turns:
        if not rounds or turn.role == USER:
            rounds.append([])
        rounds[-1].append(turn)
    return rounds


def _captions(turn: SampleTurn) -> str:
    return "".join(f" (shows {caption})" for caption in turn.captions)
