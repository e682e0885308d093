"""What of a sample a memory sees: rounds of a session as messages, and the questions that are due."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import count
from typing import NamedTuple, TypeVar

from assay.core.memory import Message
from assay.solvers.memory.sessions import SampleInputs, SessionInputs, SessionQuestion
from assay.suites.memory_eval.sample import Question, Sample, Session, Turn

_USER = "user"
T = TypeVar("T")


def visits(sample: Sample, memory: str, *, evidence: bool) -> SampleInputs:
    """All sessions in order. Messages are numbered through the sample, from 0.

    With `evidence` questions say where theirs stands: it is gold, for memories that declare to need it.
    """
    spoken = _spoken(sample)
    places = _places(sample, spoken) if evidence else {}
    return SampleInputs(
        memory,
        tuple(
            SessionInputs(
                session.id,
                spoken[session.id],
                tuple(
                    SessionQuestion(one.part, one.question.text, _evidence(one.question, places))
                    for one in asked(sample, session.id)
                ),
            )
            for session in sample.sessions
        ),
    )


class Asked(NamedTuple):
    """A question with the part of the case that it is: `probe_e980c238/1` is the first of that checkpoint."""

    checkpoint: str
    part: str
    question: Question


def asked(sample: Sample, session: str) -> Sequence[Asked]:
    """What is asked after a session, in order."""
    return _kept(sample, "asked", _all_asked).get(session, ())


def _all_asked(sample: Sample) -> dict[str, list[Asked]]:
    return {
        session.id: [
            Asked(checkpoint.id, f"{checkpoint.id}/{number}", question)
            for checkpoint in sample.due(session.id)
            for number, question in enumerate(checkpoint.questions, 1)
        ]
        for session in sample.sessions
    }


def _spoken(sample: Sample) -> dict[str, tuple[Message, ...]]:
    """The messages of each session."""
    return _kept(sample, "spoken", _all_spoken)


def _all_spoken(sample: Sample) -> dict[str, tuple[Message, ...]]:
    numbers = count()
    return {session.id: tuple(_messages(session, numbers)) for session in sample.sessions}


def _kept(sample: Sample, name: str, make: Callable[[Sample], T]) -> T:
    """Made once for each sample, and gone with it: every pass and every memory needs it."""
    if name not in sample.__dict__:
        sample.__dict__[name] = make(sample)
    found: T = sample.__dict__[name]
    return found


def _messages(session: Session, numbers: Iterator[int]) -> Iterator[Message]:
    """One message a round: what the user said and what was answered, as one text."""
    for turns in _rounds(session.turns):
        text = "\n".join(_line(turn) for turn in turns)
        date = next((turn.timestamp for turn in turns if turn.timestamp), "")
        yield Message(str(next(numbers)), text, session=session.id, date=date)


def _rounds(turns: tuple[Turn, ...]) -> Iterator[list[Turn]]:
    """A round begins with the user, and goes on until the user speaks again."""
    held: list[Turn] = []
    for turn in turns:
        if held and turn.role == _USER:
            yield held
            held = []
        held.append(turn)
    if held:
        yield held


def _line(turn: Turn) -> str:
    shown = "".join(f" (shows {caption})" for caption in turn.captions)
    return f"{turn.role}: {turn.content}{shown}"


def _places(sample: Sample, spoken: dict[str, tuple[Message, ...]]) -> dict[str, tuple[str, ...]]:
    """The messages of the session in which each point came up: no data says it more closely."""
    return {
        point.memory_id: tuple(message.id for message in spoken[session.id])
        for session in sample.sessions
        for point in session.points
    }


def _evidence(question: Question, places: dict[str, tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(place for name in question.evidence for place in places.get(name, ())))
