"""A sample: sessions of turns with the points that a memory should keep, and questions at checkpoints.

A memory sees turns and questions: `sample_inputs` makes them. Points, answers and evidence are gold and go to
scorers only.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from msgspec import Struct, field

from assay.core.memory import Message
from assay.solvers.memory.sessions import SampleInputs, SessionInputs, SessionQuestion

USER = "user"


class Turn(Struct, frozen=True):
    """What one side said. `captions` are those of the images that were shown with it."""

    role: str
    content: str
    timestamp: str = ""
    captions: tuple[str, ...] = ()


class MemoryPoint(Struct, frozen=True):
    """One thing to remember, or not to. `raw` is everything that the data says of it, in its order."""

    memory_id: str
    content: str
    interference: bool = False
    update: bool = False
    original: tuple[str, ...] = ()
    raw: dict[str, Any] = field(default_factory=dict)


class SampleSession(Struct, frozen=True):
    """One session, with the points that came up in it."""

    id: str
    turns: tuple[Turn, ...]
    points: tuple[MemoryPoint, ...] = ()

    @property
    def new(self) -> list[MemoryPoint]:
        """Points that are neither updates nor interference."""
        return [point for point in self.points if not (point.update or point.interference)]

    @property
    def updates(self) -> list[MemoryPoint]:
        """Points that replace earlier ones."""
        return [point for point in self.points if point.update and not point.interference]

    @property
    def interference(self) -> list[MemoryPoint]:
        """Points that no memory should keep."""
        return [point for point in self.points if point.interference]


class SampleQuestion(Struct, frozen=True, kw_only=True):
    """One question. `evidence` are ids as the data has them, `contents` the texts of the known ones."""

    text: str
    answer: str
    evidence: tuple[str, ...] = ()
    contents: tuple[str, ...] = ()
    type: str = ""
    abbrev: str = ""
    difficulty: str = ""


class Checkpoint(Struct, frozen=True):
    """Questions that are asked once, after the last covered session; at the end if it covers none."""

    id: str
    covered: tuple[str, ...]
    questions: tuple[SampleQuestion, ...]


class AskedQuestion(NamedTuple):
    """A question and its part in the case: `probe_e980c238/1` is the first one of that checkpoint."""

    checkpoint: str
    part: str
    question: SampleQuestion


class Sample(Struct, frozen=True, dict=True):
    """One sample of the data."""

    sample_id: str
    sample_uuid: str
    sessions: tuple[SampleSession, ...]
    checkpoints: tuple[Checkpoint, ...]

    def questions_after(self, session: str) -> Sequence[AskedQuestion]:
        """The questions whose checkpoint has this session as its last one, in the order of the data."""
        return self._questions.get(session, ())

    @cached_property
    def _questions(self) -> dict[str, list[AskedQuestion]]:
        places = {session.id: place for place, session in enumerate(self.sessions)}
        questions: dict[str, list[AskedQuestion]] = {}
        for checkpoint in self.checkpoints:
            last = max((places[name] for name in checkpoint.covered), default=len(self.sessions) - 1)
            due = questions.setdefault(self.sessions[last].id, [])
            for number, question in enumerate(checkpoint.questions, 1):
                due.append(AskedQuestion(checkpoint.id, f"{checkpoint.id}/{number}", question))
        return questions

    @cached_property
    def messages(self) -> dict[str, tuple[Message, ...]]:
        """The messages of each session, one for each round, numbered through the sample from 0."""
        number = 0
        messages: dict[str, tuple[Message, ...]] = {}
        for session in self.sessions:
            listed = []
            for turns in _rounds(session.turns):
                text = "\n".join(_turn_line(turn) for turn in turns)
                date = next((turn.timestamp for turn in turns if turn.timestamp), "")
                listed.append(Message(str(number), text, session=session.id, date=date))
                number += 1
            messages[session.id] = tuple(listed)
        return messages

    @cached_property
    def mean_message_length(self) -> float:
        """Characters of a message on average."""
        lengths = [len(message.text) for messages in self.messages.values() for message in messages]
        return sum(lengths) / len(lengths) if lengths else 0.0

    def first_sessions(self, count: int | None) -> tuple[Sample, int]:
        """The sample cut after this many sessions, and how many checkpoints are left out for that.

        A checkpoint without sessions is asked at the end of the whole sample, so a cut leaves it out too.
        """
        if count is None or count >= len(self.sessions):
            return self, 0
        sessions = self.sessions[:count]
        inside = {session.id for session in sessions}
        kept = tuple(each for each in self.checkpoints if each.covered and inside.issuperset(each.covered))
        return Sample(self.sample_id, self.sample_uuid, sessions, kept), len(self.checkpoints) - len(kept)


def sample_inputs(sample: Sample, memory: str, *, evidence: bool) -> SampleInputs:
    """Everything of a sample that a memory sees.

    With `evidence` each question says in which messages its evidence stands. That is gold, for memories that
    declare to need it.
    """
    places: dict[str, tuple[str, ...]] = {}
    if evidence:
        # The data says only in which session a point came up, so all of its messages count.
        for session in sample.sessions:
            ids = tuple(message.id for message in sample.messages[session.id])
            for point in session.points:
                places[point.memory_id] = ids
    sessions = []
    for session in sample.sessions:
        questions = []
        for _, part, question in sample.questions_after(session.id):
            message_ids = [place for name in question.evidence for place in places.get(name, ())]
            questions.append(SessionQuestion(part, question.text, tuple(dict.fromkeys(message_ids))))
        sessions.append(SessionInputs(session.id, sample.messages[session.id], tuple(questions)))
    return SampleInputs(memory, tuple(sessions))


def _rounds(turns: Sequence[Turn]) -> list[list[Turn]]:
    """Turns by round. A round begins with the user and goes on until the user speaks again."""
    rounds: list[list[Turn]] = []
    for turn in turns:
        if not rounds or turn.role == USER:
            rounds.append([])
        rounds[-1].append(turn)
    return rounds


def _turn_line(turn: Turn) -> str:
    captions = "".join(f" (shows {caption})" for caption in turn.captions)
    return f"{turn.role}: {turn.content}{captions}"
